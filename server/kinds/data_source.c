#include "kinds/data_source.h"

#include "base/memory.h"
#include "kinds/roots.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct param data_source_evaluation[] = {DATA_SOURCE_PARAMS(0, "\"blocks\""), {0}};
const struct param data_source_calibration[] = {DATA_SOURCE_PARAMS(0, "\"documents\""), {0}};

/* By enum dataset_format. */
static const char *const formats[] = {"text", "jsonl", "tokens", "sequences"};
static_assert(sizeof formats / sizeof formats[0] == DATASET_FORMAT_COUNT, "a name for every format");

static enum status parse_dtype(const char *name, enum dtype *out, struct error *error)
{
    static const struct {
        const char *name;
        enum dtype dtype;
    } rows[] = {{"uint16", DTYPE_U16}, {"uint32", DTYPE_U32}, {"int32", DTYPE_I32}, {"int64", DTYPE_I64}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (name == NULL || strcmp(rows[i].name, name) == 0) {
            *out = rows[i].dtype;
            return STATUS_OK;
        }
    return error_set_at(error, STATUS_INVALID, "/dtype",
                        "must be one of \"uint16\", \"uint32\", \"int32\", \"int64\", found \"%.60s\"", name);
}

enum status data_source_parse(const char *format, const json_t *definition, struct dataset_source *out, struct error *error)
{
    *out = (struct dataset_source){.format = DATASET_FORMAT_COUNT};
    for (int i = 0; i < DATASET_FORMAT_COUNT; i++)
        if (strcmp(formats[i], format) == 0) out->format = (enum dataset_format)i;
    if (out->format == DATASET_FORMAT_COUNT) return error_set(error, STATUS_INVALID, "unknown dataset format \"%.60s\"", format);
    out->path = json_string_value(json_object_get(definition, "path"));
    out->field = json_string_value(json_object_get(definition, "field"));
    return parse_dtype(json_string_value(json_object_get(definition, "dtype")), &out->dtype, error);
}

enum status data_source_hash(const struct dataset_source *source, char out[HASH_TEXT], struct error *error)
{
    struct dataset_files files = {0};
    struct hash *hash = NULL;
    enum status status = dataset_files_list(source, &files, error);
    if (status == STATUS_OK) status = hash_new(&hash, error);
    for (int64_t i = 0; i < files.count && status == STATUS_OK; i++) status = hash_add_file(hash, files.paths[i], error);
    if (status == STATUS_OK)
        status = hash_finish(hash, out, error);
    else
        hash_free(hash);
    dataset_files_free(&files);
    return status;
}

bool data_source_is_text(const struct dataset_source *source)
{
    return source->format == DATASET_TEXT || source->format == DATASET_JSONL;
}

static enum status load_inline(struct connection *connection, struct data_source *out, struct error *error)
{
    struct dataset_sequences stored = {0};
    struct sequences *to = &out->inlined;
    enum status status = dataset_contents(connection, &out->row.id, &stored, error);
    if (status != STATUS_OK) return status;
    if ((status = memory_new(stored.count + 1, sizeof *to->starts, "sequences", &to->starts, error)) != STATUS_OK) goto done;
    if ((status = memory_new(stored.tokens_count, sizeof *to->tokens, "sequences", &to->tokens, error)) != STATUS_OK) goto done;
    to->count = stored.count;
    for (int64_t i = 0; i < stored.count; i++) to->starts[i + 1] = to->starts[i] + stored.lengths[i];
    for (int64_t i = 0; i < stored.tokens_count; i++) to->tokens[i] = (uint32_t)stored.tokens[i];
    out->source.inlined = to;
done:
    dataset_sequences_reset(&stored);
    return status;
}

static enum status check_files(const struct data_source *source, const char *const *roots, struct error *error)
{
    char canonical[4096], sha256[HASH_TEXT];
    enum status status = roots_resolve(roots, source->source.path, "", canonical, sizeof canonical, error);
    if (status == STATUS_OK) status = data_source_hash(&source->source, sha256, error);
    if (status == STATUS_OK && strcmp(sha256, source->row.sha256) != 0)
        status = error_set(error, STATUS_INPUT_CHANGED,
                           "the files of dataset \"%.200s\" are not the registered ones: register them under a new name",
                           source->row.name);
    return status;
}

enum status data_source_open(struct connection *connection, const char *id, const char *const *roots, struct data_source *out,
                             struct error *error)
{
    *out = (struct data_source){.add_special_tokens = -1};
    enum status status = dataset_find(connection, id, &out->row, error);
    if (status != STATUS_OK) return status;
    status = data_source_parse(out->row.format, out->row.definition, &out->source, error);
    const json_t *special = json_object_get(out->row.definition, "add_special_tokens");
    if (json_is_boolean(special)) out->add_special_tokens = json_is_true(special);
    if (status == STATUS_OK)
        status = out->row.inline_sequences ? load_inline(connection, out, error) : check_files(out, roots, error);
    if (status != STATUS_OK) data_source_reset(out);
    return status;
}

void data_source_reset(struct data_source *source)
{
    dataset_sequences_free(&source->inlined);
    dataset_reset(&source->row);
    *source = (struct data_source){0};
}
