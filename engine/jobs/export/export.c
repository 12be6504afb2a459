#include "jobs/export/export.h"

#include "base/directory.h"
#include "base/memory.h"
#include "files/file_writer.h"
#include "jobs/config_files.h"
#include "jobs/export/export_plan.h"
#include "jobs/weights_copy.h"
#include "model/gguf_names.h"
#include "tokenizer/tokenizer_gguf_writer.h"
#include "tokenizer/tokenizer_place.h"
#include "train/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct export_job {
    struct export_plan plan;
    struct backend *backend; /* lent */
    char directory[PATH_MAX];
    struct gguf_metadata metadata;
    struct weights_writer *writer;
    int64_t divisor_count; /* divisors of rotary frequencies, the last entry; 0: none */
    float divisors[GGUF_NAMES_DIVISORS];
};

/* Adds the checkpoint's tokenizer, if it has one, to the metadata of a GGUF file. */
static enum status describe_tokenizer(const struct model *model, struct gguf_metadata *metadata, struct error *error)
{
    struct weights_file file;
    struct tokenizer *tokenizer = NULL;
    struct error cause;
    char weights[PATH_MAX], path[PATH_MAX];
    if (weights_file_count(model->weights) == 0) return STATUS_OK;
    weights_file(model->weights, 0, &file);
    enum status status =
        directory_path(weights_directory(model->weights), file.name, "a checkpoint's path is too long", weights, error);
    if (status != STATUS_OK) return status;
    if (!tokenizer_place_find(weights, path, sizeof path, NULL)) return STATUS_OK;
    status = tokenizer_open(path, &tokenizer, &cause);
    if (status == STATUS_OK) status = tokenizer_gguf_write(tokenizer, model->config.vocabulary_size, metadata, &cause);
    tokenizer_close(tokenizer);
    return status == STATUS_OK ? status
                               : error_set_at(error, status, "/export", "%s; take another format", cause.detail);
}

enum status export_check(int id, const struct quantize_method *method, const struct model *model, struct error *error)
{
    struct gguf_metadata metadata = {0};
    enum status status = export_plan_check(id, method, model, error);
    if (status != STATUS_OK || export_format_by_id(id)->describe == NULL) return status;
    status = describe_tokenizer(model, &metadata, error);
    gguf_metadata_reset(&metadata);
    return status;
}

/* Opens the writer. GGUF also has metadata, and the divisors of scaled rotary frequencies as one more tensor. */
static enum status begin(struct export_job *job, struct error *error)
{
    struct export_plan *plan = &job->plan;
    const bool gguf = plan->format->describe != NULL;
    const struct weights_writer_target target = {.directory = job->directory,
                                                 .shard_bytes = WEIGHTS_WRITER_SHARD_BYTES,
                                                 .gguf = gguf ? &job->metadata : NULL,
                                                 .kept = true};
    if (gguf) {
        job->divisor_count = gguf_names_divisors(plan->model, job->divisors);
        gguf_names_describe(plan->model, &job->metadata);
        plan->format->describe(&plan->grid, &job->metadata);
        const enum status status = describe_tokenizer(plan->model, &job->metadata, error);
        if (status != STATUS_OK) return status;
    }
    if (job->divisor_count > 0)
        plan->entries[plan->entry_count++] =
            (struct safetensors_entry){"rope_freqs.weight", DTYPE_F32, 1, &job->divisor_count};
    return weights_writer_open(&target, plan->entries, plan->entry_count, &job->writer, error);
}

/* ---- writing ---- */

static enum status write_config_files(const struct export_job *job, struct error *error)
{
    static const char plain[] = "{\"torch_dtype\": \"float32\", \"dtype\": \"float32\"}";
    char path[PATH_MAX], *text = NULL, *config = NULL;
    enum status status;
    if (job->plan.format->configure == NULL)
        return config_files_write(job->plan.model->weights, job->directory,
                                  job->plan.format->write == NULL ? plain : NULL, error);
    if ((status = export_plan_configuration(&job->plan, &text, error)) != STATUS_OK) goto done;
    const size_t size = strlen(text) + 64;
    if ((status = memory_new((int64_t)size, 1, "configuration", &config, error)) != STATUS_OK) goto done;
    (void)snprintf(config, size, "{\"quantization_config\": %s}", text);
    if ((status = config_files_write(job->plan.model->weights, job->directory, config, error)) != STATUS_OK) goto done;
    if (job->plan.format->configuration == NULL) goto done;
    if ((status = directory_path(job->directory, job->plan.format->configuration, "an export's path is too long", path,
                                 error)) != STATUS_OK)
        goto done;
    status = file_writer_put(path, text, strlen(text), error);
done:
    memory_free(config);
    free(text);
    return status;
}

enum status export_open(int id, const struct quantize_method *method, const struct model *model, const char *directory,
                        struct export_job **out, struct error *error)
{
    struct export_job *job = NULL;
    enum status status;
    *out = NULL;
    if ((status = memory_new(1, sizeof *job, "export", &job, error)) != STATUS_OK) return status;
    if ((status = export_plan_init(&job->plan, id, method, model, error)) != STATUS_OK) goto done;
    if (snprintf(job->directory, sizeof job->directory, "%s", directory) >= PATH_MAX) {
        status = error_set(error, STATUS_INVALID, "an export's path is too long");
        goto done;
    }
    if (mkdir(directory, 0700) != 0 && errno != EEXIST) {
        status = error_set_errno(error, "cannot make a directory for an export");
        goto done;
    }
    if ((status = write_config_files(job, error)) != STATUS_OK) goto done;
    if ((status = begin(job, error)) != STATUS_OK) goto done;
    *out = job;
    job = NULL;
done:
    export_close(job);
    return status;
}

static void rewind_item(const struct export_job *job, const struct export_item *item)
{
    for (int64_t i = 0; i < item->count; i++) weights_writer_rewind(job->writer, item->first + i);
}

static bool is_full(const struct export_job *job, const struct export_item *item)
{
    for (int64_t i = 0; i < item->count && item->first >= 0; i++)
        if (!weights_writer_full(job->writer, item->first + i)) return false;
    return true;
}

/* Names the layer that a format refused to write. */
static enum status name_refusal(const struct export_job *job, int64_t index, enum status status, struct error *error)
{
    const struct error cause = *error;
    struct weights_tensor tensor;
    if (status != STATUS_UNSUPPORTED) return status;
    weights_tensor(job->plan.model->weights, index, &tensor);
    return error_set_at(error, status, cause.pointer, "%s: %s", tensor.name, cause.detail);
}

/* Layers that a killed attempt wrote after it last saved its streams are written again, with the same bytes. */
static enum status note_layer(void *owner, const char *name, const struct quantized_layer *layer, struct matrix weight,
                              struct error *error)
{
    struct export_job *job = owner;
    char full[PARAMETER_NAME + 8];
    (void)snprintf(full, sizeof full, "%s.weight", name);
    const int64_t index = weights_find(job->plan.model->weights, full);
    if (index < 0) return error_set(error, STATUS_INTERNAL, "a quantized layer \"%s\" is not among the tensors", name);
    struct export_item *item = &job->plan.items[index];
    if (layer->skipped) return STATUS_OK; /* copied with the other tensors */
    if (item->layer == NULL || item->written)
        return error_set(error, STATUS_INTERNAL, "layer \"%s\" was not to be written", name);
    if (job->plan.format->write == NULL) {
        item->written = true;
        rewind_item(job, item);
        return weights_copy_matrix(job->writer, item->first, job->backend, weight, item->layer->transposed, error);
    }
    struct export_fold_ready ready = {1, {index}, {layer}};
    enum status status =
        job->plan.fold == NULL ? STATUS_OK : export_fold_layer(job->plan.fold, index, layer, &ready, error);
    for (int i = 0; i < ready.count && status == STATUS_OK; i++) {
        struct export_item *due = &job->plan.items[ready.tensors[i]];
        const struct export_place place = {job->writer, due->first, due->head_rows};
        due->written = true;
        rewind_item(job, due);
        status = job->plan.format->write(&due->grid, ready.layers[i], &place, error);
        if (status != STATUS_OK) return name_refusal(job, ready.tensors[i], status, error);
    }
    return status;
}

struct sequential_hook export_hook(struct export_job *job, struct backend *backend)
{
    job->backend = backend;
    return (struct sequential_hook){job, note_layer};
}

/* True if all layers of the blocks before `block` were written, and the tensors that take their scales (keep_all). With
 * block 0 all entries begin again. */
static bool begin_at(void *owner, int64_t block)
{
    struct export_job *job = owner;
    struct export_plan *plan = &job->plan;
    for (int64_t i = 0; i < plan->tensors && block > 0; i++) {
        const bool divided =
            plan->fold != NULL && export_fold_divides(plan->fold, i) && export_fold_block(plan->fold, i) < block;
        const bool before = plan->items[i].layer != NULL && plan->items[i].block < block;
        if ((before || divided) && !is_full(job, &plan->items[i])) return false;
    }
    for (int64_t i = 0; i < plan->tensors; i++)
        plan->items[i].written = plan->items[i].layer != NULL && plan->items[i].block < block;
    for (int64_t i = 0; i < plan->entry_count && block == 0; i++) weights_writer_rewind(job->writer, i);
    return true;
}

static enum status copy_tensor(const struct export_job *job, int64_t tensor, struct error *error);

static enum status keep_all(void *owner, struct error *error)
{
    struct export_job *job = owner;
    enum status status = STATUS_OK;
    for (int64_t i = 0; i < job->plan.tensors && job->plan.fold != NULL && status == STATUS_OK; i++)
        if (export_fold_is_noted(job->plan.fold, i)) status = copy_tensor(job, i, error);
    return status == STATUS_OK ? weights_writer_save(job->writer, error) : status;
}

bool export_half_scales(const struct export_job *job)
{
    const struct export_plan *plan = &job->plan;
    return plan->format->scales != NULL && plan->format->scales(&plan->grid) == DTYPE_F16;
}

struct quantize_saver export_saver(struct export_job *job)
{
    return (struct quantize_saver){job, begin_at, keep_all};
}

/* Rows in GGUF's order, one at a time. */
static enum status copy_interleaved(const struct export_job *job, int64_t tensor, const struct export_item *item,
                                    struct error *error)
{
    const struct weights *weights = job->plan.model->weights;
    struct weights_tensor from;
    float *row = NULL;
    weights_tensor(weights, tensor, &from);
    const int64_t rows = from.shape[0], columns = from.elements / rows;
    enum status status = memory_new(columns, sizeof *row, "row to copy", &row, error);
    for (int64_t r = 0; r < rows && status == STATUS_OK; r++) {
        status = weights_read_f32(weights, tensor, gguf_names_row(r, item->head_rows) * columns, columns, row, error);
        if (status == STATUS_OK) status = weights_writer_f32(job->writer, item->first, row, columns, error);
    }
    memory_free(row);
    return status;
}

/* A vector, with AWQ's scales divided out of it. */
static enum status copy_divided(const struct export_job *job, int64_t tensor, const float *divisors,
                                struct error *error)
{
    const struct weights *weights = job->plan.model->weights;
    struct weights_tensor from;
    float *values = NULL;
    weights_tensor(weights, tensor, &from);
    enum status status = memory_new(from.elements, sizeof *values, "vector to copy", &values, error);
    if (status == STATUS_OK) status = weights_read_f32(weights, tensor, 0, from.elements, values, error);
    for (int64_t i = 0; i < from.elements && status == STATUS_OK; i++) values[i] /= divisors[i];
    if (status == STATUS_OK)
        status = weights_writer_f32(job->writer, job->plan.items[tensor].first, values, from.elements, error);
    memory_free(values);
    return status;
}

static enum status copy_tensor(const struct export_job *job, int64_t tensor, struct error *error)
{
    const struct export_item *item = &job->plan.items[tensor];
    if (is_full(job, item)) return STATUS_OK;
    rewind_item(job, item);
    const float *divisors = job->plan.fold == NULL ? NULL : export_fold_divisors(job->plan.fold, tensor);
    if (divisors != NULL) return copy_divided(job, tensor, divisors, error);
    if (item->head_rows > 0) return copy_interleaved(job, tensor, item, error);
    return weights_copy_tensor(job->plan.model->weights, tensor, job->writer, item->first, error);
}

enum status export_finish(struct export_job *job, const struct monitor *monitor, struct error *error)
{
    const struct weights *weights = job->plan.model->weights;
    enum status status;
    for (int64_t i = 0; i < weights_count(weights); i++) {
        const struct export_item *item = &job->plan.items[i];
        if (item->layer != NULL && !item->written)
            return error_set(error, STATUS_INTERNAL, "layer \"%s\" was not quantized", item->layer->name);
        if (item->layer == NULL && (status = copy_tensor(job, i, error)) != STATUS_OK) return status;
        if ((status = monitor_check(monitor, error)) != STATUS_OK) return status;
    }
    if (job->divisor_count > 0) {
        weights_writer_rewind(job->writer, job->plan.entry_count - 1);
        status = weights_writer_f32(job->writer, job->plan.entry_count - 1, job->divisors, job->divisor_count, error);
        if (status != STATUS_OK) return status;
    }
    if ((status = weights_check_unchanged(weights, error)) != STATUS_OK) return status;
    return weights_writer_commit(job->writer, error);
}

const char *export_weights_name(const struct export_job *job)
{
    return weights_writer_name(job->writer);
}

void export_close(struct export_job *job)
{
    if (job == NULL) return;
    weights_writer_close(job->writer);
    gguf_metadata_reset(&job->metadata);
    export_plan_reset(&job->plan);
    memory_free(job);
}

void export_tidy(const char *directory)
{
    static const char hidden[] = ".deltaq-";
    DIR *stream = opendir(directory);
    for (const struct dirent *entry; stream != NULL && (entry = readdir(stream)) != NULL;)
        if (strncmp(entry->d_name, hidden, sizeof hidden - 1) == 0) (void)unlinkat(dirfd(stream), entry->d_name, 0);
    if (stream != NULL) (void)closedir(stream);
}

void export_remove(const char *directory)
{
    checkpoint_remove(directory);
}

enum status export_publish(const char *directory, const char *to, struct error *error)
{
    return checkpoint_publish(directory, to, error);
}
