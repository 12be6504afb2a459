#include "jobs/config_files.h"

#include "base/directory.h"
#include "base/memory.h"
#include "files/file.h"
#include "files/file_writer.h"
#include "model/config_text.h"
#include "model/recognise.h"
#include "tokenizer/tokenizer_gguf.h"
#include "weights/configuration_files.h"

#include <limits.h>
#include <string.h>

enum { COPY_LIMIT = 256 << 20 };

static const char too_long[] = "a checkpoint's path is too long";

/* Destination of the files: a directory, or (NULL) only a plan. */
struct sink {
    const char *directory;
    struct run_plan *plan;
    bool tokenizer; /* there was a tokenizer */
};

static enum status put(struct sink *sink, const char *name, const char *text, size_t size, struct error *error)
{
    char path[PATH_MAX];
    enum status status;
    sink->tokenizer = sink->tokenizer || strcmp(name, "tokenizer.json") == 0;
    if (sink->directory == NULL) {
        plan_take(sink->plan, PLAN_HOST, (int64_t)size + 1);
        plan_give(sink->plan, PLAN_HOST, (int64_t)size + 1);
        plan_take(sink->plan, PLAN_DISK, (int64_t)size);
        sink->plan->read_bytes += (int64_t)size;
        sink->plan->written_bytes += (int64_t)size;
        return STATUS_OK;
    }
    status = directory_path(sink->directory, name, too_long, path, error);
    return status == STATUS_OK ? file_writer_put(path, text, size, error) : status;
}

static enum status copy(const char *from, bool config, struct sink *sink, struct error *error)
{
    char path[PATH_MAX];
    for (const char *const *name = configuration_files + (config ? 0 : 1); *name != NULL; name++) {
        char *text = NULL;
        size_t size = 0;
        enum status status = directory_path(from, *name, too_long, path, error);
        if (status != STATUS_OK) return status;
        status = file_read_all(AT_FDCWD, path, COPY_LIMIT, &text, &size, error);
        if (status == STATUS_NOT_FOUND) continue;
        if (status == STATUS_OK) status = put(sink, *name, text, size, error);
        memory_free(text);
        if (status != STATUS_OK) return status;
    }
    return STATUS_OK;
}

/* A GGUF file contains its tokenizer, which the new checkpoint cannot: it gets a tokenizer.json, if one can be made. */
static enum status write_tokenizer(const struct weights *source, struct sink *sink, struct error *error)
{
    struct weights_file file;
    struct text text = {0};
    char from[PATH_MAX];
    if (weights_file_count(source) == 0 || sink->tokenizer) return STATUS_OK;
    weights_file(source, 0, &file);
    enum status status = directory_path(weights_directory(source), file.name, too_long, from, error);
    if (status != STATUS_OK || !tokenizer_gguf_is(file.name)) return status;
    status = tokenizer_gguf_text(from, &text, error);
    if (status == STATUS_OK)
        status = put(sink, "tokenizer.json", text.bytes, text.size, error);
    else if (status == STATUS_UNSUPPORTED)
        status = STATUS_OK;
    text_free(&text);
    return status;
}

static enum status write_config(const struct weights *source, const char *config, struct sink *sink,
                                struct error *error)
{
    struct config_text texts[] = {{"added", config, config == NULL ? 0 : strlen(config)}, {.name = "config.json"}};
    char *text = NULL, *merged = NULL;
    size_t size = 0;
    enum status status = recognise_text(source, &text, &size, error);
    if (status == STATUS_OK && config != NULL) {
        texts[1].text = text;
        texts[1].size = size;
        status = config_text_merge(texts, 2, &merged, &size, error);
    }
    if (status == STATUS_OK) status = put(sink, "config.json", merged != NULL ? merged : text, size, error);
    memory_free(merged);
    memory_free(text);
    return status;
}

static enum status write_all(const struct weights *source, const char *config, struct sink *sink, struct error *error)
{
    const bool copied = weights_given_config(source) == NULL && weights_config(source) == NULL && config == NULL;
    enum status status = copy(weights_directory(source), copied, sink, error);
    if (status == STATUS_OK) status = write_tokenizer(source, sink, error);
    return status == STATUS_OK && !copied ? write_config(source, config, sink, error) : status;
}

enum status config_files_write(const struct weights *source, const char *directory, const char *config,
                               struct error *error)
{
    struct sink sink = {.directory = directory};
    return write_all(source, config, &sink, error);
}

enum status config_files_plan(const struct weights *source, const char *config, struct run_plan *plan,
                              struct error *error)
{
    struct sink sink = {.plan = plan};
    return write_all(source, config, &sink, error);
}
