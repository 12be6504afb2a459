#include "inputs/data_source.h"

#include "base/memory.h"
#include "inputs/object_file.h"
#include "inputs/roots.h"
#include "inputs/run_context.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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

enum status data_source_parse(const char *format, const json_t *definition, struct dataset_source *out,
                              struct error *error)
{
    *out = (struct dataset_source){.format = DATASET_FORMAT_COUNT};
    for (int i = 0; i < DATASET_FORMAT_COUNT; i++)
        if (strcmp(formats[i], format) == 0) out->format = (enum dataset_format)i;
    if (out->format == DATASET_FORMAT_COUNT)
        return error_set(error, STATUS_INVALID, "unknown dataset format \"%.60s\"", format);
    out->path = json_string_value(json_object_get(definition, "path"));
    out->field = json_string_value(json_object_get(definition, "field"));
    return parse_dtype(json_string_value(json_object_get(definition, "dtype")), &out->dtype, error);
}

static int64_t bytes_of(const struct dataset_files *files)
{
    struct stat info;
    int64_t bytes = 0;
    for (int64_t i = 0; i < files->count; i++) bytes += stat(files->paths[i], &info) == 0 ? info.st_size : 0;
    return bytes;
}

/* Hashes all files by `add`, watched by `monitor` (may be NULL); *bytes is their size. */
static enum status hash_files(const struct dataset_source *source, const struct monitor *monitor,
                              enum status (*add)(struct hash *, const char *, struct error *), char out[HASH_TEXT],
                              int64_t *bytes, struct error *error)
{
    struct dataset_files files = {0};
    struct hash *hash = NULL;
    enum status status = dataset_files_list(source, &files, error);
    if (status == STATUS_OK) status = hash_new(&hash, error);
    *bytes = bytes_of(&files);
    if (status == STATUS_OK) hash_watch(hash, monitor, *bytes);
    for (int64_t i = 0; i < files.count && status == STATUS_OK; i++) {
        if (monitor != NULL) status = monitor_check(monitor, error);
        if (status == STATUS_OK) status = add(hash, files.paths[i], error);
    }
    if (status == STATUS_OK)
        status = hash_finish(hash, out, error);
    else
        hash_free(hash);
    dataset_files_free(&files);
    return status;
}

enum status data_source_read(const struct dataset_source *source, const struct monitor *monitor,
                             struct data_source_files *out, struct error *error)
{
    int64_t bytes = 0;
    *out = (struct data_source_files){0};
    const enum status status = hash_files(source, monitor, hash_add_sample, out->fingerprint, &bytes, error);
    if (status != STATUS_OK || bytes > HASH_AT_ONCE) return status;
    return hash_files(source, monitor, hash_add_file, out->sha256, &bytes, error);
}

bool data_source_is_text(const struct dataset_source *source)
{
    return source->format == DATASET_TEXT || source->format == DATASET_JSONL;
}

static enum status load_inline(struct connection *connection, struct data_source *out, struct error *error)
{
    const struct dataset *row = &out->row;
    const int64_t count = row->counts[DATASET_PART_LENGTHS], tokens = row->counts[DATASET_PART_TOKENS];
    struct sequences *to = &out->inlined;
    int32_t *lengths = NULL;
    enum status status;
    if ((status = memory_new(count + 1, sizeof *to->starts, "sequences", &to->starts, error)) != STATUS_OK) goto done;
    if ((status = memory_new(tokens, sizeof *to->tokens, "sequences", &to->tokens, error)) != STATUS_OK) goto done;
    if ((status = memory_new(count, sizeof *lengths, "sequences", &lengths, error)) != STATUS_OK) goto done;
    if ((status = dataset_numbers(connection, row, DATASET_PART_LENGTHS, lengths, error)) != STATUS_OK) goto done;
    /* no token is negative, so their int32 and uint32 forms are equal */
    if ((status = dataset_numbers(connection, row, DATASET_PART_TOKENS, (int32_t *)to->tokens, error)) != STATUS_OK)
        goto done;
    for (int64_t i = 0; i < count; i++) to->starts[i + 1] = to->starts[i] + lengths[i];
    if (to->starts[count] != tokens) {
        status = error_set(error, STATUS_CORRUPT, "the dataset has %lld tokens, its lengths sum to %lld",
                           (long long)tokens, (long long)to->starts[count]);
        goto done;
    }
    to->count = count;
    out->source.inlined = to;
done:
    memory_free(lengths);
    return status;
}

/* Hashes files that were too large to hash when they were registered. */
static enum status hash_now(const struct run_context *context, struct data_source *source, struct error *error)
{
    int64_t bytes;
    if (context->planning) return STATUS_OK;
    monitor_log(context->monitor, "hashing the dataset, once");
    const enum status status =
        hash_files(&source->source, context->monitor, hash_add_file, source->row.sha256, &bytes, error);
    return status == STATUS_OK ? dataset_set_content(context->connection, &source->row.id, source->row.sha256, error)
                               : status;
}

static enum status check_files(const struct run_context *context, struct data_source *source, struct error *error)
{
    char canonical[4096];
    int64_t bytes;
    struct data_source_files found;
    struct dataset *row = &source->row;
    enum status status = roots_resolve(context->roots, source->source.path, "", canonical, sizeof canonical, error);
    const bool sampled = row->fingerprint[0] != '\0'; /* rows of older versions have no fingerprint */
    if (status == STATUS_OK) status = data_source_read(&source->source, context->monitor, &found, error);
    if (status == STATUS_OK && !sampled && found.sha256[0] == '\0' && !context->planning)
        status = hash_files(&source->source, context->monitor, hash_add_file, found.sha256, &bytes, error);
    if (status != STATUS_OK) return status;
    const bool hashed = found.sha256[0] != '\0' && row->sha256[0] != '\0';
    if ((sampled && strcmp(found.fingerprint, row->fingerprint) != 0) ||
        (hashed && strcmp(found.sha256, row->sha256) != 0))
        return error_set(error, STATUS_INPUT_CHANGED,
                         "the files of dataset \"%.200s\" are not the registered ones: register them under a new name",
                         row->name);
    return row->sha256[0] == '\0' ? hash_now(context, source, error) : STATUS_OK;
}

/* An object is pinned by its ETag, so its content is not compared again. */
static enum status open_object(const struct run_context *context, const char *commit, struct data_source *source,
                               struct error *error)
{
    struct object_file file;
    enum status status = object_file_read(source->source.path, "", &file, error);
    if (status == STATUS_OK) status = object_file_open(context, &file, commit, source->fetched, &source->hold, error);
    if (status != STATUS_OK) return status;
    source->source.path = source->fetched;
    if (!context->planning) status = dataset_look(&source->source, error);
    return status == STATUS_OK && source->row.sha256[0] == '\0' ? hash_now(context, source, error) : status;
}

static enum status open_files(const struct run_context *context, struct data_source *source, struct error *error)
{
    const char *commit = json_string_value(json_object_get(source->row.definition, "commit"));
    return commit != NULL ? open_object(context, commit, source, error) : check_files(context, source, error);
}

enum status data_source_open(const struct run_context *context, const char *id, struct data_source *out,
                             struct error *error)
{
    *out = (struct data_source){.add_special_tokens = -1};
    enum status status = dataset_find(context->connection, id, &out->row, error);
    if (status != STATUS_OK) return status;
    status = data_source_parse(out->row.format, out->row.definition, &out->source, error);
    const json_t *special = json_object_get(out->row.definition, "add_special_tokens");
    if (json_is_boolean(special)) out->add_special_tokens = json_is_true(special);
    if (status == STATUS_OK)
        status =
            out->row.inline_sequences ? load_inline(context->connection, out, error) : open_files(context, out, error);
    if (status != STATUS_OK) data_source_reset(out);
    return status;
}

void data_source_reset(struct data_source *source)
{
    hub_cache_release(source->hold);
    dataset_sequences_free(&source->inlined);
    dataset_reset(&source->row);
    *source = (struct data_source){0};
}

enum status data_source_tokens_at_most(const struct data_source *source, int64_t *out, struct error *error)
{
    struct dataset_files files = {0};
    const int64_t width = data_source_is_text(&source->source) ? 1 : 2;
    enum status status = STATUS_OK;
    *out = source->inlined.count > 0 ? source->inlined.starts[source->inlined.count] : 0;
    if (source->inlined.count > 0) return STATUS_OK;
    status = dataset_files_list(&source->source, &files, error);
    for (int64_t i = 0; i < files.count && status == STATUS_OK; i++) {
        struct stat found;
        if (stat(files.paths[i], &found) != 0) status = error_set_errno(error, "looking at the dataset");
        if (status == STATUS_OK) *out += (int64_t)found.st_size / width;
    }
    dataset_files_free(&files);
    return status;
}
