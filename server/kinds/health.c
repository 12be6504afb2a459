#include "base/hex.h"
#include "health/reading.h"

#include "base/memory.h"
#include "inputs/hash.h"
#include "inputs/inputs.h"
#include "kinds/health_report.h"
#include "kinds/kind.h"
#include "kinds/measure.h"
#include "schema/result_render.h"
#include "store/health.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct health_params {
    const char *checkpoint, *previous;
};

static const struct param health_params[] = {
    {.name = "checkpoint",
     .type = PARAM_CHECKPOINT,
     .offset = offsetof(struct health_params, checkpoint),
     .help = "Id, name or TRAJECTORY/NAME of the checkpoint"},
    {.name = "previous",
     .type = PARAM_CHECKPOINT,
     .offset = offsetof(struct health_params, previous),
     .fallback = "null",
     .nullable = true,
     .absent_differs = true,
     .help = "The checkpoint it is compared with; left out: the one before it in its trajectory; null: none"},
    {0},
};

/* A reading belongs to this checkpoint and not to its content: two checkpoints of the same content have two readings,
 * and comparing these shows that they are identical. */
static enum status check(struct run_request *request, const void *filled, struct error *error)
{
    const struct health_params *params = filled;
    struct store_id previous = {""};
    enum status status = STATUS_OK;
    if (json_object_get(request->posted, "previous") != NULL)
        (void)snprintf(previous.text, sizeof previous.text, "%s", params->previous != NULL ? params->previous : "");
    else
        status = checkpoint_before(request->connection, params->checkpoint, &previous, error);
    if (status != STATUS_OK) return status;
    if (strcmp(previous.text, params->checkpoint) == 0)
        return error_set_at(error, STATUS_INVALID, "/params/previous",
                            "is the checkpoint itself: give another one, or null");
    if (previous.text[0] != '\0') status = run_request_uses_checkpoint(request, &previous, error);
    if (status != STATUS_OK) return status;
    json_t *value = previous.text[0] != '\0' ? json_string(previous.text) : json_null();
    const bool good = json_object_set_new(request->identity, "checkpoint_id", json_string(params->checkpoint)) == 0 &&
                      json_object_set(request->identity, "previous_id", value) == 0 &&
                      json_object_set(request->params, "previous", value) == 0;
    json_decref(value);
    return good ? STATUS_OK : error_no_memory(error, "a reading of weights");
}

/* ---- SHA-256 for the engine ---- */

struct digester {
    struct hash *hash;
};

static enum status digest_begin(void *owner, struct error *error)
{
    struct digester *digester = owner;
    return hash_new(&digester->hash, error);
}

static enum status digest_add(void *owner, const void *bytes, size_t size, struct error *error)
{
    const struct digester *digester = owner;
    (void)error;
    hash_add(digester->hash, bytes, size);
    return STATUS_OK;
}

static enum status digest_finish(void *owner, unsigned char digest[READING_DIGEST], struct error *error)
{
    struct digester *digester = owner;
    struct hash *hash = digester->hash;
    digester->hash = NULL;
    return hash_finish_bytes(hash, digest, error);
}

/* Hashes names and digests of the tensors for which `file` is the file (-1: all). */
static enum status hash_tensors(const struct reading *reading, int64_t first, int64_t count, int file,
                                unsigned char out[32], struct error *error)
{
    struct hash *hash = NULL;
    const enum status status = hash_new(&hash, error);
    if (status != STATUS_OK) return status;
    for (int64_t i = first; i < first + count; i++) {
        const struct tensor_reading *tensor = &reading->tensors[i];
        if (file >= 0 && tensor->file != file) continue;
        hash_add(hash, tensor->name, strlen(tensor->name) + 1);
        hash_add(hash, tensor->digest, sizeof tensor->digest);
    }
    return hash_finish_bytes(hash, out, error);
}

static uint64_t key_of(const unsigned char digest[32])
{
    uint64_t key;
    memcpy(&key, digest, sizeof key);
    return key;
}

/* ---- rendering ---- */

static enum status fill_blocks(const struct reading *reading, struct health_report *report, struct error *error)
{
    report->block_count = reading_layers(reading);
    const enum status status =
        memory_new(report->block_count, sizeof *report->blocks, "a result", &report->blocks, error);
    for (int64_t layer = 0; layer < report->block_count && status == STATUS_OK; layer++)
        report->blocks[layer] = (struct health_block){layer, health_report_numbers(reading, (int)layer)};
    return status;
}

static void file_name(const struct weights *weights, int file, char out[256])
{
    struct weights_file found = {.name = ""};
    if (file < weights_file_count(weights)) weights_file(weights, file, &found);
    (void)snprintf(out, 256, "%s", found.name);
}

static enum status render_tensor(const struct tensor_reading *tensor, const struct weights *weights, json_t **out,
                                 struct error *error)
{
    const struct moments *moments = &tensor->moments;
    struct health_tensor filled = {
        .name = tensor->name,
        .dtype = dtype_info(tensor->dtype)->name,
        .layer = tensor->layer,
        .in_layer = tensor->layer >= 0,
        .elements = tensor->elements,
        .nan = moments->nan,
        .infinite = moments->infinite,
        .l1 = moments->l1,
        .l2 = moments_l2(moments),
        .linf = moments->linf,
        .mean = moments->mean,
        .kurtosis = moments_kurtosis(moments),
        .outliers = tensor->outliers,
        .relative = tensor->compared ? distance_relative(&tensor->distance) : NAN,
        .cosine = tensor->compared ? distance_cosine(&tensor->distance) : NAN,
    };
    hex_write(tensor->digest, sizeof tensor->digest, filled.sha256);
    file_name(weights, tensor->file, filled.file);
    return result_render(&health_report_tensor, &filled, out, error);
}

/* Adds a row for the store: what the API shows of a tensor, its place, and which of the matrices it is (-1: none). */
static enum status add_tensor(json_t *rows, const struct tensor_reading *tensor, const struct weights *weights,
                              int64_t matrix, struct error *error)
{
    json_t *row = NULL;
    const json_int_t place = (json_int_t)json_array_size(rows);
    const enum status status = render_tensor(tensor, weights, &row, error);
    if (status != STATUS_OK) return status;
    int bad = json_object_set_new(row, "place", json_integer(place));
    bad |= json_object_set_new(row, "matrix", matrix >= 0 ? json_integer((json_int_t)matrix) : json_null());
    bad |= json_array_append_new(rows, row);
    return bad == 0 ? STATUS_OK : error_no_memory(error, "a reading of weights");
}

/* False for a file without tensors, such as an index. */
static bool fill_file(const struct reading *reading, const struct weights *weights, int file, struct health_file *out)
{
    struct distance distance = {0};
    *out = (struct health_file){.file = file};
    for (int64_t i = 0; i < reading->count; i++) {
        if (reading->tensors[i].file != file) continue;
        out->tensors++;
        if (reading->tensors[i].compared) distance_merge(&distance, &reading->tensors[i].distance);
    }
    file_name(weights, file, out->name);
    out->relative = distance_relative(&distance);
    return out->tensors > 0;
}

static enum status fill_files(const struct reading *reading, const struct weights *weights,
                              struct health_report *report, struct error *error)
{
    const int count = weights_file_count(weights);
    enum status status = memory_new(count, sizeof *report->files, "a result", &report->files, error);
    for (int file = 0; file < count && status == STATUS_OK; file++) {
        struct health_file *filled = &report->files[report->file_count];
        unsigned char digest[32];
        if (!fill_file(reading, weights, file, filled)) continue;
        if ((status = hash_tensors(reading, 0, reading->count, file, digest, error)) != STATUS_OK) break;
        hex_write(digest, sizeof digest, filled->sha256);
        report->file_count++;
    }
    return status;
}

/* The document of the whole checkpoint: the run's result, and the row in the store. */
static enum status render(const struct reading *reading, const struct weights *weights, const char *previous,
                          json_t **out, struct error *error)
{
    struct health_report report = {
        .tensor_count = reading->count, .previous = previous, .all = health_report_numbers(reading, READING_ALL)};
    unsigned char digest[32];
    enum status status = fill_blocks(reading, &report, error);
    if (status == STATUS_OK) status = hash_tensors(reading, 0, reading->count, -1, digest, error);
    if (status == STATUS_OK) status = fill_files(reading, weights, &report, error);
    if (status == STATUS_OK) {
        hex_write(digest, sizeof digest, report.sha256);
        status = result_render(&health_report_shape, &report, out, error);
    }
    memory_free(report.files);
    memory_free(report.blocks);
    return status;
}

/* ---- what goes into the database ---- */

static enum status save(const struct run_context *context, const char *checkpoint, const struct reading *reading,
                        const struct weights *weights, const json_t *document, struct error *error)
{
    uint64_t *keys = NULL;
    int32_t *homes = NULL;
    int64_t matrices = 0;
    unsigned char digest[32];
    json_t *tensors = json_array();
    enum status status = tensors == NULL ? error_no_memory(error, "a reading of weights") : STATUS_OK;
    if (status == STATUS_OK) status = memory_new(reading->count, sizeof *keys, "keys", &keys, error);
    if (status == STATUS_OK) status = memory_new(reading->count, sizeof *homes, "keys", &homes, error);
    for (int64_t i = 0; i < reading->count && status == STATUS_OK; i++) {
        const struct tensor_reading *tensor = &reading->tensors[i];
        const int64_t matrix = tensor->rank >= 2 ? matrices++ : -1;
        status = add_tensor(tensors, tensor, weights, matrix, error);
        if (status == STATUS_OK && matrix >= 0 &&
            (status = hash_tensors(reading, i, 1, -1, digest, error)) == STATUS_OK) {
            keys[matrix] = key_of(digest);
            homes[matrix] = tensor->file;
        }
    }
    const struct health_new new = {.checkpoint = checkpoint,
                                   .document = document,
                                   .tensors = tensors,
                                   .matrices = matrices,
                                   .keys = keys,
                                   .homes = homes};
    if (status == STATUS_OK) status = health_save(context->connection, &new, error);
    json_decref(tensors);
    memory_free(keys);
    memory_free(homes);
    return status;
}

static enum status measure(const struct store_id *checkpoint, const struct reading *reading, struct measurements *out,
                           struct error *error)
{
    const struct health_report report = {.all = health_report_numbers(reading, READING_ALL)};
    const struct measurement series = measure_series(checkpoint, "", "", NULL);
    return measure_result(&health_report_shape, &report, &series, out, error);
}

/* The previous checkpoint is optional: its files may have gone since the run was posted, and this checkpoint's own
 * health is still worth having. The result says so. */
static enum status open_previous(const struct run_context *context, const char *id, struct inputs *out, char note[240],
                                 struct error *error)
{
    struct error cause;
    note[0] = '\0';
    if (id == NULL) return STATUS_OK;
    const enum status status = inputs_open(context, id, PRECISION_F32, out, &cause);
    if (status == STATUS_OK) return STATUS_OK;
    if (status != STATUS_NOT_FOUND && status != STATUS_INPUT_CHANGED) {
        *error = cause;
        return status;
    }
    (void)snprintf(note, 240, "not compared: the checkpoint before it cannot be read (%.150s)", cause.detail);
    monitor_log(context->monitor, "%s", note);
    return STATUS_OK;
}

/* No text passes through a model, so the time depends on the bytes that are read. */
static void plan_fill(const struct inputs *inputs, const struct inputs *previous, int threads, struct run_plan *out)
{
    *out = (struct run_plan){.flops = 0};
    plan_take(out, PLAN_HOST, PLAN_SMALL_BYTES);
    reading_plan(inputs->model->weights, previous->model != NULL ? previous->model->weights : NULL, threads, out);
}

static enum status health_run_plan(const struct run_context *context, const void *filled, struct plan_budget *budget,
                                   struct run_plan *out, struct error *error)
{
    const struct health_params *params = filled;
    struct inputs inputs = {0}, previous = {0};
    char note[240];
    enum status status = inputs_open(context, params->checkpoint, PRECISION_F32, &inputs, error);
    if (status == STATUS_OK) status = open_previous(context, params->previous, &previous, note, error);
    if (status == STATUS_OK) {
        *budget = backend_budget(inputs.backend, context->work_directory);
        plan_fill(&inputs, &previous, team_threads(context->threads), out);
    }
    inputs_reset(&previous);
    inputs_reset(&inputs);
    return status;
}

static enum status execute(const struct run_context *context, const void *filled, json_t **result,
                           struct measurements *out, struct error *error)
{
    const struct health_params *params = filled;
    struct digester digester = {0};
    const struct reading_hash hash = {&digester, digest_begin, digest_add, digest_finish};
    struct inputs inputs = {0}, previous = {0};
    struct reading reading = {0};
    struct run_plan plan;
    char note[240];
    enum status status;
    if ((status = inputs_open(context, params->checkpoint, PRECISION_F32, &inputs, error)) != STATUS_OK) goto done;
    if ((status = open_previous(context, params->previous, &previous, note, error)) != STATUS_OK) goto done;
    const struct weights *weights = inputs.model->weights,
                         *others = previous.model != NULL ? previous.model->weights : NULL;
    const struct reading_request request = {
        .weights = weights, .previous = others, .team = context->team, .hash = &hash, .monitor = context->monitor};
    if ((status = reading_make(&request, &reading, error)) != STATUS_OK) goto done;
    plan_fill(&inputs, &previous, team_size(context->team), &plan);
    run_context_note_work(context, plan_work(&plan));
    if ((status = weights_check_unchanged(weights, error)) != STATUS_OK) goto done;
    if ((status = render(&reading, weights, others != NULL ? params->previous : NULL, result, error)) != STATUS_OK)
        goto done;
    if ((status = save(context, params->checkpoint, &reading, weights, *result, error)) != STATUS_OK) goto done;
    if ((status = measure(&inputs.row.id, &reading, out, error)) != STATUS_OK) goto done;
    if (note[0] != '\0' && json_object_set_new(*result, "note", json_string(note)) != 0)
        status = error_no_memory(error, "a reading of weights");
done:
    hash_free(digester.hash);
    reading_reset(&reading);
    inputs_reset(&previous);
    inputs_reset(&inputs);
    return status;
}

const struct kind health_kind = {
    .name = "health",
    .help = "Hashes, norms, kurtosis, outliers and broken numbers of a checkpoint's weights,"
            " and its distance to the one before",
    .params = health_params,
    .params_size = sizeof(struct health_params),
    .result = &health_report_shape,
    .check = check,
    .execute = execute,
    .plan = health_run_plan,
};
