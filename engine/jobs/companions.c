#include "jobs/companions.h"

#include "base/memory.h"
#include "formats/file.h"
#include "formats/file_writer.h"
#include "formats/tokenizer_gguf.h"
#include "model/config_text.h"
#include "model/recognise.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { COPY_LIMIT = 256 << 20 };

static const char *const companions[] = {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
                                         "special_tokens_map.json"};

static enum status path_in(const char *directory, const char *name, char out[PATH_MAX], struct error *error)
{
    if (snprintf(out, PATH_MAX, "%s/%s", directory, name) < PATH_MAX) return STATUS_OK;
    return error_set(error, STATUS_INVALID, "a checkpoint's path is too long");
}

static enum status copy(const char *from, const char *to, struct error *error)
{
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof companions / sizeof companions[0]; i++) {
        char *text = NULL;
        size_t size = 0;
        enum status status = path_in(from, companions[i], path, error);
        if (status != STATUS_OK) return status;
        status = file_read_all(AT_FDCWD, path, COPY_LIMIT, &text, &size, error);
        if (status == STATUS_NOT_FOUND) continue;
        if (status == STATUS_OK) status = path_in(to, companions[i], path, error);
        if (status == STATUS_OK) status = file_writer_put(path, text, size, error);
        memory_free(text);
        if (status != STATUS_OK) return status;
    }
    return STATUS_OK;
}

/* A GGUF file has its tokenizer within, which the new checkpoint cannot: it gets a tokenizer.json, if one can be made. */
static enum status write_tokenizer(const struct weights *source, const char *directory, struct error *error)
{
    struct weights_file file;
    struct text text = {0};
    char from[PATH_MAX], to[PATH_MAX];
    if (weights_file_count(source) == 0) return STATUS_OK;
    weights_file(source, 0, &file);
    enum status status = path_in(directory, "tokenizer.json", to, error);
    if (status == STATUS_OK) status = path_in(weights_directory(source), file.name, from, error);
    if (status != STATUS_OK || !tokenizer_gguf_is(file.name) || access(to, F_OK) == 0) return status;
    status = tokenizer_gguf_text(from, &text, error);
    if (status == STATUS_OK)
        status = file_writer_put(to, text.bytes, text.size, error);
    else if (status == STATUS_UNSUPPORTED)
        status = STATUS_OK;
    text_free(&text);
    return status;
}

static enum status write_config(const struct weights *source, const char *directory, const char *config, struct error *error)
{
    struct config_text texts[] = {{"added", config, config == NULL ? 0 : strlen(config)}, {.name = "config.json"}};
    char path[PATH_MAX], *text = NULL, *merged = NULL;
    size_t size = 0;
    enum status status = path_in(directory, "config.json", path, error);
    if (status == STATUS_OK) status = recognise_text(source, &text, &size, error);
    if (status == STATUS_OK && config != NULL) {
        texts[1].text = text;
        texts[1].size = size;
        status = config_text_merge(texts, 2, &merged, &size, error);
    }
    if (status == STATUS_OK) status = file_writer_put(path, merged != NULL ? merged : text, size, error);
    memory_free(merged);
    memory_free(text);
    return status;
}

enum status companions_write(const struct weights *source, const char *directory, const char *config, struct error *error)
{
    enum status status = copy(weights_directory(source), directory, error);
    if (status == STATUS_OK) status = write_tokenizer(source, directory, error);
    const bool copied = weights_given_config(source) == NULL && weights_config(source) == NULL && config == NULL;
    return status == STATUS_OK && !copied ? write_config(source, directory, config, error) : status;
}
