#include "inputs/inputs.h"

#include "base/memory.h"
#include "files/file.h"
#include "inputs/checkpoint_files.h"
#include "inputs/device_record.h"
#include "inputs/roots.h"
#include "model/config_text.h"
#include "tokenizer/tokenizer_gguf.h"
#include "tokenizer/tokenizer_place.h"

#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONFIG_BYTES = 4 << 20, PLANNED_TOKENS = 8 << 20 /* bounds of a plan, which the server keeps in memory */ };

const char *const inputs_precisions[] = {"f32", "bf16", NULL};

/* Compares the files with the registered ones; computes the hash of their content if it was too much work then. */
static enum status check_content(const struct run_context *context, struct inputs *inputs, struct error *error)
{
    char fingerprint[HASH_TEXT];
    enum status status = checkpoint_files_fingerprint(inputs->model, fingerprint, error);
    if (status != STATUS_OK) return status;
    if (strcmp(fingerprint, inputs->row.fingerprint) != 0)
        return error_set(
            error, STATUS_INPUT_CHANGED,
            "the files of checkpoint \"%.200s\" are not the registered ones: register them under a new name",
            inputs->row.name);
    if (inputs->row.sha256[0] != '\0' || context->planning) return STATUS_OK;
    monitor_log(context->monitor, "hashing the checkpoint, once");
    if ((status = checkpoint_files_content(inputs->model, context->monitor, inputs->row.sha256, error)) != STATUS_OK)
        return status;
    return checkpoint_set_content(context->connection, &inputs->row.id, inputs->row.sha256, error);
}

/* A backend that only plans. The server's process has no driver, so the device's memory is what a worker recorded, or
 * --device-memory. */
static enum status paper_backend(const struct run_context *context, int precision, struct backend **out,
                                 struct error *error)
{
    if (strcmp(context->device, "cpu") == 0) return backend_paper_new(out, error);
    int64_t bytes = device_record_read(context->data_directory, context->device);
    if (context->device_memory_bytes > 0 && context->device_memory_bytes < bytes) bytes = context->device_memory_bytes;
    const enum status status = backend_cuda_budget(&bytes, error);
    return status == STATUS_OK ? backend_cuda_paper_new(bytes, inputs_precisions[precision], out, error) : status;
}

/* Workers of one data directory share the memory of a device (backend_share). */
static enum status shared_backend(const struct run_context *context, int precision, struct backend **out,
                                  struct error *error)
{
    char directory[PATH_MAX];
    (void)snprintf(directory, sizeof directory, "%s/devices", context->data_directory);
    enum status status = backend_new(context->device, inputs_precisions[precision], context->team, out, error);
    if (status == STATUS_OK) status = backend_share(*out, context->device_memory_bytes, directory, error);
    if (status == STATUS_OK) return status;
    backend_free(*out);
    *out = NULL;
    return status;
}

enum status inputs_backend(const struct run_context *context, int precision, struct backend **out, struct error *error)
{
    const enum status status = context->planning ? paper_backend(context, precision, out, error)
                                                 : shared_backend(context, precision, out, error);
    if (status != STATUS_OK) return status;
    (*out)->host_budget = context->memory_bytes;
    (*out)->device_peak = context->device_bytes;
    (*out)->fault = context->device_fault;
    if (!(*out)->ops->host && !context->planning)
        device_record_write(context->data_directory, context->device, backend_cuda_may_take(*out));
    return STATUS_OK;
}

enum status inputs_open(const struct run_context *context, const char *id, int precision, struct inputs *out,
                        struct error *error)
{
    enum status status;
    *out = (struct inputs){.roots = context->roots};
    if ((status = checkpoint_find(context->connection, id, &out->row, error)) != STATUS_OK) goto done;
    if ((status = checkpoint_place_for_run(context, &out->row, "/params/checkpoint", &out->place, error)) != STATUS_OK)
        goto done;
    if ((status = model_open_as(out->place.path, checkpoint_config(&out->row), &out->model, error)) != STATUS_OK)
        goto done;
    if ((status = check_content(context, out, error)) != STATUS_OK) goto done;
    status = inputs_backend(context, precision, &out->backend, error);
done:
    if (status != STATUS_OK) inputs_reset(out);
    return status;
}

void inputs_reset(struct inputs *inputs)
{
    tokenizer_close(inputs->tokenizer);
    model_close(inputs->model);
    checkpoint_place_close(&inputs->place);
    backend_free(inputs->backend);
    *inputs = (struct inputs){0};
}

/* Finds the file with the tokenizer of the checkpoint at `checkpoint`, whose own directory was checked. A tokenizer in
 * a directory above must also be below a root. STATUS_INVALID at `pointer` when there is none. */
static enum status find_tokenizer(const struct roots *roots, const char *checkpoint, const char *pointer,
                                  char out[PATH_MAX], struct error *error)
{
    char path[PATH_MAX];
    bool above;
    if (!tokenizer_place_find(checkpoint, path, sizeof path, &above))
        return error_set_at(error, STATUS_INVALID, pointer,
                            "text needs the checkpoint's tokenizer.json, which is not there; use a dataset of tokens,"
                            " where one will do");
    if (above) return roots_resolve(roots, path, pointer, out, PATH_MAX, error);
    memcpy(out, path, sizeof path);
    return STATUS_OK;
}

enum status inputs_open_tokenizer(struct inputs *inputs, struct error *error)
{
    char path[PATH_MAX];
    if (inputs->tokenizer != NULL) return STATUS_OK;
    const enum status status = find_tokenizer(inputs->roots, inputs->place.path, "", path, error);
    return status == STATUS_OK ? tokenizer_open(path, &inputs->tokenizer, error) : status;
}

/* Whether `found` is less than a user may think to have: packed as documents, a text file is a single one, of which all
 * but the head is dropped. */
static bool only_heads(const struct dataset_source *source, const struct data_use *use, const struct sequences *found)
{
    const bool few = found->count == 1 || found->count < use->max_sequences;
    return few && source->format == DATASET_TEXT && use->packing == DATASET_DOCUMENTS && use->sequence_length > 0 &&
           found->starts[found->count] == found->count * use->sequence_length;
}

enum status inputs_sequences(const struct run_context *context, struct inputs *inputs, const struct data_use *use,
                             bool calibration, struct sequences *out, char name[STORE_NAME], struct error *error)
{
    struct data_source source;
    const struct model_config *config = &inputs->model->config;
    if (use->sequence_length > config->maximum_positions)
        return error_set(error, STATUS_INVALID,
                         "sequence_length %lld is above the model's %lld positions: give a smaller one",
                         (long long)use->sequence_length, (long long)config->maximum_positions);
    enum status status = data_source_open(context, use->dataset, &source, error);
    if (status != STATUS_OK) return status;
    if (name != NULL) (void)snprintf(name, STORE_NAME, "%s", source.row.name);
    if (data_source_is_text(&source.source)) status = inputs_open_tokenizer(inputs, error);
    const struct dataset_use how = {
        .packing = (enum dataset_packing)use->packing,
        .sequence_length = use->sequence_length,
        .longest = calibration ? config->maximum_positions : 0,
        .max_sequences = use->max_sequences,
        .vocabulary_size = config->vocabulary_size,
        .most_tokens = context->planning ? PLANNED_TOKENS : 0,
        .add_special_tokens = source.add_special_tokens < 0 ? calibration : source.add_special_tokens == 1,
    };
    if (status == STATUS_OK)
        status = dataset_load(&source.source, &how, inputs->tokenizer, context->monitor, out, error);
    if (status == STATUS_TOO_LARGE && context->planning && context->too_long != NULL) {
        *context->too_long = true;
        status = error_set(error, STATUS_TOO_LARGE,
                           "a dry run reads at most %d tokens of \"%.100s\" (64 MiB of text), which has more: give"
                           " max_sequences, or post the run",
                           PLANNED_TOKENS, source.row.name);
    }
    if (status == STATUS_OK && calibration && (inputs->calibrates_on_heads = only_heads(&source.source, use, out)))
        monitor_log(context->monitor, "%s: " INPUTS_HEADS, source.row.name, (long long)out->count);
    data_source_reset(&source);
    return status;
}

json_t *inputs_pinned(const struct checkpoint *row)
{
    return json_sprintf("%s@%s%s%s", row->repo, row->commit, row->files[0] != '\0' ? " " : "", row->files);
}

static enum status add_pinned_tokenizer(struct run_request *request, const struct checkpoint *row, struct error *error)
{
    json_t *text = inputs_pinned(row);
    return text != NULL && json_object_set_new(request->identity, "tokenizer", text) == 0
               ? STATUS_OK
               : error_set(error, STATUS_NO_MEMORY, "no memory for a run");
}

/* Hashes the bytes of a tokenizer.json, or the tokenizer.json that the metadata of a GGUF file becomes, because its
 * weights do not matter. */
static enum status hash_tokenizer(const char *path, char sha256[HASH_TEXT], struct error *error)
{
    struct hash *hash = NULL;
    struct text text = {0};
    enum status status = hash_new(&hash, error);
    if (status != STATUS_OK) return status;
    if (tokenizer_gguf_is(path)) {
        if ((status = tokenizer_gguf_text(path, &text, error)) == STATUS_OK) hash_add(hash, text.bytes, text.size);
    } else {
        status = hash_add_small_file(hash, path, TOKENIZER_FILE_LIMIT, error);
    }
    text_free(&text);
    if (status == STATUS_OK) return hash_finish(hash, sha256, error);
    hash_free(hash);
    return status;
}

static enum status add_tokenizer(struct run_request *request, const struct checkpoint *row, const char *pointer,
                                 struct error *error)
{
    char path[PATH_MAX], sha256[HASH_TEXT];
    struct checkpoint_place place = {0};
    if (row->repo[0] != '\0') return add_pinned_tokenizer(request, row, error);
    enum status status = checkpoint_place_find(request->roots, request->data_directory, row, pointer, &place, error);
    if (status == STATUS_OK) status = find_tokenizer(request->roots, place.path, pointer, path, error);
    checkpoint_place_close(&place);
    if (status == STATUS_OK) status = hash_tokenizer(path, sha256, error);
    if (status == STATUS_UNSUPPORTED && error->pointer[0] == '\0')
        (void)snprintf(error->pointer, sizeof error->pointer, "%s", pointer);
    if (status == STATUS_OK && json_object_set_new(request->identity, "tokenizer", json_string(sha256)) != 0)
        status = error_set(error, STATUS_NO_MEMORY, "no memory for a run");
    return status;
}

/* The object at "direction/calibration". Lent; NULL when there is none. */
static json_t *object_at(const json_t *from, const char *path)
{
    const char *slash = strchr(path, '/');
    char key[64];
    if (slash == NULL) return json_object_get(from, path);
    (void)snprintf(key, sizeof key, "%.*s", (int)(slash - path), path);
    return object_at(json_object_get(from, key), slash + 1);
}

/* Replaces a default length in the parameters `object` by `length` (taken). Clients generated from openapi.yaml send
 * defaults, so a default that is sent must mean the same as a missing one. */
static enum status complete_length(const struct run_request *request, const char *object, json_t *length,
                                   struct error *error)
{
    json_t *params = object != NULL ? object_at(request->params, object) : request->params;
    const json_t *given = json_object_get(params, "sequence_length");
    if (!json_is_integer(given) || json_integer_value(given) != DATA_SOURCE_LENGTH) {
        json_decref(length);
        return STATUS_OK;
    }
    return json_object_set_new(params, "sequence_length", length) == 0
               ? STATUS_OK
               : error_set(error, STATUS_NO_MEMORY, "no memory for a run");
}

/* The positions of a checkpoint whose config.json can be read at once; 0: not known until its weights are opened. */
static int64_t known_positions(const struct run_request *request, const struct checkpoint *row)
{
    char path[PATH_MAX], *text = NULL, *all = NULL;
    const char *given = checkpoint_config(row);
    struct config_text said[2];
    struct model_config config;
    struct error ignored;
    size_t size = 0, all_size = 0;
    int count = 0;
    if (row->path[0] == '\0' || roots_resolve(request->roots, row->path, "", path, sizeof path, &ignored) != STATUS_OK)
        return 0;
    if (snprintf(path, sizeof path, "%s/config.json", row->path) >= (int)sizeof path) return 0;
    if (file_read_all(AT_FDCWD, path, CONFIG_BYTES, &text, &size, &ignored) != STATUS_OK) return 0;
    if (given != NULL) said[count++] = (struct config_text){"source.config", given, strlen(given)};
    said[count++] = (struct config_text){"config.json", text, size};
    const bool read = config_text_merge(said, count, &all, &all_size, &ignored) == STATUS_OK &&
                      config_parse("config.json", all, all_size, &config, &ignored) == STATUS_OK;
    memory_free(text);
    memory_free(all);
    return read ? config.maximum_positions : 0;
}

/* Checks the length of sequences as far as possible without the data, and bounds the default by the model's positions.
 * `object` as for inputs_check_use. */
static enum status check_length(const struct run_request *request, const struct checkpoint *row, const char *object,
                                bool text, struct error *error)
{
    const json_t *use = object != NULL ? object_at(request->params, object) : request->params;
    const json_t *length = json_object_get(use, "sequence_length"), *packing = json_object_get(use, "packing");
    char pointer[80];
    (void)snprintf(pointer, sizeof pointer, "/params%s%s/sequence_length", object != NULL ? "/" : "",
                   object != NULL ? object : "");
    if (text && json_is_null(length) && json_is_string(packing) && strcmp(json_string_value(packing), "blocks") == 0)
        return error_set_at(error, STATUS_INVALID, pointer, "text packed as blocks needs a length");
    if (!json_is_integer(length)) return STATUS_OK;
    const int64_t positions = known_positions(request, row);
    if (positions > 0 && positions < DATA_SOURCE_LENGTH && json_integer_value(length) == DATA_SOURCE_LENGTH)
        return complete_length(request, object, json_integer(positions), error);
    if (positions == 0 || json_integer_value(length) <= positions) return STATUS_OK;
    return error_set_at(error, STATUS_INVALID, pointer, "%lld is above the model's %lld positions: give a smaller one",
                        (long long)json_integer_value(length), (long long)positions);
}

enum status inputs_check_tokenizer(struct run_request *request, const char *checkpoint, const char *pointer,
                                   struct error *error)
{
    struct checkpoint *row = malloc(sizeof *row);
    enum status status = row == NULL ? error_set(error, STATUS_NO_MEMORY, "no memory for a run")
                                     : checkpoint_find(request->connection, checkpoint, row, error);
    if (status == STATUS_OK) status = add_tokenizer(request, row, pointer, error);
    free(row);
    return status;
}

enum status inputs_check_use(struct run_request *request, const char *checkpoint, const char *dataset,
                             const char *object, struct error *error)
{
    struct dataset found = {0};
    struct checkpoint *row = malloc(sizeof *row);
    char pointer[80];
    enum status status = row == NULL ? error_set(error, STATUS_NO_MEMORY, "no memory for a run")
                                     : checkpoint_find(request->connection, checkpoint, row, error);
    if (status == STATUS_OK) status = dataset_find(request->connection, dataset, &found, error);
    if (status != STATUS_OK) goto done;
    (void)snprintf(pointer, sizeof pointer, "/params%s%s/dataset", object != NULL ? "/" : "",
                   object != NULL ? object : "");
    const bool text =
        !found.inline_sequences && (strcmp(found.format, "text") == 0 || strcmp(found.format, "jsonl") == 0);
    /* Sequences given inline are used as they are. */
    if (found.inline_sequences) status = complete_length(request, object, json_null(), error);
    if (text) status = add_tokenizer(request, row, pointer, error);
    if (status == STATUS_OK) status = check_length(request, row, object, text, error);
done:
    dataset_reset(&found);
    free(row);
    return status;
}

json_t *inputs_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}
