#include "jobs/export.h"

#include "base/memory.h"
#include "formats/file_writer.h"
#include "jobs/companions.h"
#include "jobs/export_fold.h"
#include "jobs/weights_copy.h"
#include "model/architecture.h"
#include "model/gguf_names.h"
#include "quant/overrides.h"
#include "train/checkpoint.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* What becomes of a tensor of the original. */
struct item {
    const struct parameter *layer; /* quantized; NULL: copied */
    int64_t first;                 /* entry; -1: left out, nobody reads it */
    int64_t head_rows;             /* of GGUF: rows are interleaved within heads of so many; 0: they are not */
    char name[GGUF_NAMES_SIZE];    /* in GGUF; "" elsewhere, and where it has none */
    bool written;
};

struct export_job {
    const struct export_format *format;
    const struct quantize_method *method;
    const struct model *model;
    struct backend *backend;
    struct export_grid grid;
    char directory[PATH_MAX];
    struct item *items; /* [tensors of the original] */
    int64_t entry_count, skipped_count;
    struct safetensors_entry *entries;
    char (*names)[PARAMETER_NAME + 24]; /* [entry_count] of tensors that take a layer's place */
    int64_t (*shapes)[2];
    char (*skipped)[PARAMETER_NAME]; /* modules */
    struct gguf_metadata metadata;
    struct export_fold *fold; /* NULL: layers have no scales of columns, or values are stored */
    struct weights_writer *writer;
    bool finished;
};

/* ---- whether it can be ---- */

static const char *module_of(const char *name, char out[PARAMETER_NAME])
{
    static const char ending[] = ".weight";
    const size_t length = strlen(name), tail = sizeof ending - 1;
    const bool cut = length > tail && strcmp(name + length - tail, ending) == 0;
    (void)snprintf(out, PARAMETER_NAME, "%.*s", (int)(cut ? length - tail : length), name);
    return out;
}

/* Calls `each` with every linear; `skipped`: an override leaves it as it is. */
static enum status each_linear(const struct model *model, const struct quantize_method *method,
                               enum status (*each)(void *, const struct parameter *, bool, struct error *), void *owner,
                               struct error *error)
{
    struct overrides *overrides = NULL;
    enum status status = overrides_new(method, &overrides, error);
    for (int64_t layer = 0; layer < model->config.layers && status == STATUS_OK; layer++) {
        const struct program *program = &model->programs[layer];
        for (int i = 0; i < program->parameter_count && status == STATUS_OK; i++) {
            const struct parameter *parameter = &program->parameters[i];
            struct quantize_method applied;
            int64_t index = OVERRIDES_NONE;
            if (!parameter->linear) continue;
            if ((status = overrides_find(overrides, parameter->name, &index, error)) == STATUS_OK)
                status = each(owner, parameter, overrides_apply(overrides, index, &applied), error);
        }
    }
    overrides_free(overrides);
    return status;
}

struct fitting {
    const struct export_format *format;
    struct export_grid grid;
};

static enum status fits(void *owner, const struct parameter *parameter, bool skipped, struct error *error)
{
    const struct fitting *fitting = owner;
    char module[PARAMETER_NAME];
    if (skipped) return STATUS_OK;
    return fitting->format->fits(&fitting->grid, module_of(parameter->name, module), parameter->rows, parameter->columns, error);
}

/* Loaders of packed layers know linear modules with weights [out, in], not those of a mixture that the model fuses. */
static enum status check_architecture(const struct export_format *format, const struct model *model, struct error *error)
{
    const struct architecture *architecture = model->config.architecture;
    if (format->describe != NULL) {
        const enum status status = gguf_names_check(model, error);
        return status == STATUS_OK ? status : error_set_at(error, status, "/export", "%s", error->detail);
    }
    if (architecture->block == BLOCK_ATTENTION && !architecture->transposed && architecture->names[ROLE_ROUTER] == NULL)
        return STATUS_OK;
    return error_set_at(error, STATUS_UNSUPPORTED, "/export", "layers of %s are not packed as \"%s\": use \"dequantized\"",
                        architecture->model_type, format->name);
}

struct skipping {
    const struct model *model;
    bool *skipped; /* [tensors] */
};

static enum status note_skipped(void *owner, const struct parameter *parameter, bool skipped, struct error *error)
{
    const struct skipping *skipping = owner;
    const int64_t tensor = weights_find(skipping->model->weights, parameter->name);
    if (tensor < 0) return error_set(error, STATUS_INTERNAL, "tensor \"%s\" is not there", parameter->name);
    skipping->skipped[tensor] = skipped;
    return STATUS_OK;
}

static enum status fold_new(const struct model *model, const struct quantize_method *method, struct export_fold **out,
                            struct error *error)
{
    struct skipping skipping = {.model = model};
    *out = NULL;
    enum status status = memory_new(weights_count(model->weights), sizeof(bool), "tensor list", &skipping.skipped, error);
    if (status == STATUS_OK) status = each_linear(model, method, note_skipped, &skipping, error);
    if (status == STATUS_OK) status = export_fold_new(model, skipping.skipped, out, error);
    memory_free(skipping.skipped);
    return status;
}

enum status export_check(int id, const struct quantize_method *method, const struct model *model, struct error *error)
{
    struct fitting fitting = {.format = export_format_by_id(id)};
    enum status status = export_format_check(fitting.format, method, &fitting.grid, error);
    if (status != STATUS_OK || fitting.format->fits == NULL) return status;
    if ((status = check_architecture(fitting.format, model, error)) != STATUS_OK) return status;
    if ((status = each_linear(model, method, fits, &fitting, error)) != STATUS_OK || !fitting.grid.column_scales) return status;
    struct export_fold *fold;
    status = fold_new(model, method, &fold, error);
    export_fold_free(fold);
    return status;
}

/* ---- the plan ---- */

static enum status find_layers(void *owner, const struct parameter *parameter, bool skipped, struct error *error)
{
    struct export_job *job = owner;
    const int64_t index = weights_find(job->model->weights, parameter->name);
    if (index < 0) return error_set(error, STATUS_INTERNAL, "tensor \"%s\" is not there", parameter->name);
    if (skipped)
        (void)module_of(parameter->name, job->skipped[job->skipped_count++]);
    else
        job->items[index].layer = parameter;
    return STATUS_OK;
}

static void find_name(void *owner, int64_t tensor, const char *name, int64_t head_rows)
{
    struct item *item = &((struct export_job *)owner)->items[tensor];
    (void)snprintf(item->name, sizeof item->name, "%s", name);
    item->head_rows = head_rows;
}

/* As others read it: no 64 bits, no blocks; what is divided, and the vectors of GGUF, wide. */
static enum dtype stored_dtype(const struct export_job *job, int64_t index, const struct weights_tensor *tensor)
{
    const bool divided = job->fold != NULL && export_fold_divides(job->fold, index);
    const bool vector = job->format->describe != NULL && tensor->rank == 1;
    const bool wide = tensor->dtype == DTYPE_F64 || dtype_info(tensor->dtype)->block > 1;
    return job->format->write == NULL || divided || vector || wide ? DTYPE_F32 : tensor->dtype;
}

static void plan_layer(struct export_job *job, struct item *item, const char *name)
{
    struct export_tensor parts[EXPORT_TENSORS];
    char module[PARAMETER_NAME];
    const int count = job->format->tensors(&job->grid, item->layer->rows, item->layer->columns, parts);
    for (int i = 0; i < count; i++) {
        const int64_t at = job->entry_count++;
        (void)snprintf(job->names[at], sizeof job->names[at], "%s.%s", module_of(name, module), parts[i].suffix);
        memcpy(job->shapes[at], parts[i].shape, sizeof parts[i].shape);
        job->entries[at] = (struct safetensors_entry){job->names[at], parts[i].dtype, parts[i].rank, job->shapes[at]};
    }
}

static void plan_tensor(struct export_job *job, int64_t index)
{
    struct item *item = &job->items[index];
    struct weights_tensor tensor;
    weights_tensor(job->model->weights, index, &tensor);
    const bool named = job->format->describe == NULL || item->name[0] != '\0';
    item->first = dtype_info(tensor.dtype)->to_f32 == NULL || !named ? -1 : job->entry_count;
    if (item->first < 0) return;
    const char *name = item->name[0] != '\0' ? item->name : tensor.name;
    if (item->layer != NULL && job->format->write != NULL)
        plan_layer(job, item, name);
    else
        job->entries[job->entry_count++] =
            (struct safetensors_entry){name, stored_dtype(job, index, &tensor), tensor.rank, tensor.shape};
}

static enum status plan(struct export_job *job, struct error *error)
{
    const int64_t tensors = weights_count(job->model->weights), most = tensors * EXPORT_TENSORS + 1;
    enum status status;
    if ((status = memory_new(tensors, sizeof *job->items, "tensor list", &job->items, error)) != STATUS_OK ||
        (status = memory_new(most, sizeof *job->entries, "tensor list", &job->entries, error)) != STATUS_OK ||
        (status = memory_new(most, sizeof *job->names, "tensor list", &job->names, error)) != STATUS_OK ||
        (status = memory_new(most, sizeof *job->shapes, "tensor list", &job->shapes, error)) != STATUS_OK ||
        (status = memory_new(tensors, sizeof *job->skipped, "tensor list", &job->skipped, error)) != STATUS_OK)
        return status;
    if ((status = each_linear(job->model, job->method, find_layers, job, error)) != STATUS_OK) return status;
    if (job->format->describe != NULL) gguf_names_each(job->model, find_name, job);
    for (int64_t i = 0; i < tensors; i++) plan_tensor(job, i);
    return STATUS_OK;
}

/* The writer. GGUF has metadata, and what scaled rotary frequencies are divided by as one more tensor. */
static enum status begin(struct export_job *job, struct error *error)
{
    float divisors[GGUF_NAMES_DIVISORS];
    const bool gguf = job->format->describe != NULL;
    const int64_t extra = gguf ? gguf_names_divisors(job->model, divisors) : 0, index = job->entry_count;
    const struct weights_writer_target target = {job->directory, WEIGHTS_WRITER_SHARD_BYTES, gguf ? &job->metadata : NULL};
    if (gguf) {
        gguf_names_describe(job->model, &job->metadata);
        job->format->describe(&job->grid, &job->metadata);
    }
    if (extra > 0) job->entries[job->entry_count++] = (struct safetensors_entry){"rope_freqs.weight", DTYPE_F32, 1, &extra};
    const enum status status = weights_writer_open(&target, job->entries, job->entry_count, &job->writer, error);
    return status == STATUS_OK && extra > 0 ? weights_writer_f32(job->writer, index, divisors, extra, error) : status;
}

/* ---- writing ---- */

static enum status path_in(const struct export_job *job, const char *name, char out[PATH_MAX], struct error *error)
{
    if (snprintf(out, PATH_MAX, "%s/%s", job->directory, name) < PATH_MAX) return STATUS_OK;
    return error_set(error, STATUS_INVALID, "an export's path is too long");
}

/* The quantization's configuration as a JSON object; the caller frees it (free). */
static enum status configuration(const struct export_job *job, char **out, struct error *error)
{
    char output[PARAMETER_NAME];
    const char **names = NULL;
    size_t size = 0;
    enum status status = memory_new(job->skipped_count + 1, sizeof *names, "names of modules", &names, error);
    FILE *stream = status == STATUS_OK ? open_memstream(out, &size) : NULL;
    if (status == STATUS_OK && stream == NULL) status = error_set(error, STATUS_NO_MEMORY, "no memory for a configuration");
    if (stream != NULL) {
        for (int64_t i = 0; i < job->skipped_count; i++) names[i] = job->skipped[i];
        const char *given = job->model->config.architecture->names[ROLE_OUTPUT];
        (void)snprintf(output, sizeof output, "%s", given != NULL ? given : "lm_head");
        const struct export_skipped skipped = {names, job->skipped_count, output};
        job->format->configure(&job->grid, &skipped, stream);
        if (fclose(stream) != 0) status = error_set(error, STATUS_NO_MEMORY, "no memory for a configuration");
    }
    memory_free(names);
    return status;
}

static enum status write_companions(const struct export_job *job, struct error *error)
{
    static const char plain[] = "{\"torch_dtype\": \"float32\", \"dtype\": \"float32\"}";
    char path[PATH_MAX], *text = NULL, *config = NULL;
    enum status status;
    if (job->format->configure == NULL)
        return companions_write(job->model->weights, job->directory, job->format->write == NULL ? plain : NULL, error);
    if ((status = configuration(job, &text, error)) != STATUS_OK) goto done;
    const size_t size = strlen(text) + 64;
    if ((status = memory_new((int64_t)size, 1, "configuration", &config, error)) != STATUS_OK) goto done;
    (void)snprintf(config, size, "{\"quantization_config\": %s}", text);
    if ((status = companions_write(job->model->weights, job->directory, config, error)) != STATUS_OK) goto done;
    if (job->format->configuration == NULL) goto done;
    if ((status = path_in(job, job->format->configuration, path, error)) != STATUS_OK) goto done;
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
    if ((status = export_check(id, method, model, error)) != STATUS_OK) return status;
    if ((status = memory_new(1, sizeof *job, "export", &job, error)) != STATUS_OK) return status;
    job->format = export_format_by_id(id);
    job->method = method;
    job->model = model;
    if ((status = export_format_check(job->format, method, &job->grid, error)) != STATUS_OK) goto done;
    if (job->grid.column_scales && (status = fold_new(model, method, &job->fold, error)) != STATUS_OK) goto done;
    job->grid.stored = weights_dtype(model->weights, NULL);
    if (snprintf(job->directory, sizeof job->directory, "%s", directory) >= PATH_MAX) {
        status = error_set(error, STATUS_INVALID, "an export's path is too long");
        goto done;
    }
    checkpoint_remove(directory);
    if (mkdir(directory, 0700) != 0) {
        status = error_set_errno(error, "cannot make a directory for an export");
        goto done;
    }
    if ((status = plan(job, error)) != STATUS_OK) goto done;
    if ((status = write_companions(job, error)) != STATUS_OK) goto done;
    if ((status = begin(job, error)) != STATUS_OK) goto done;
    *out = job;
    job = NULL;
done:
    export_close(job);
    return status;
}

static enum status note_layer(void *owner, const char *name, const struct quantized_layer *layer, struct matrix weight,
                              struct error *error)
{
    struct export_job *job = owner;
    char full[PARAMETER_NAME + 8];
    (void)snprintf(full, sizeof full, "%s.weight", name);
    const int64_t index = weights_find(job->model->weights, full);
    if (index < 0) return error_set(error, STATUS_INTERNAL, "a quantized layer \"%s\" is not among the tensors", name);
    struct item *item = &job->items[index];
    if (layer->skipped) return STATUS_OK; /* copied with the rest */
    if (item->layer == NULL || item->written) return error_set(error, STATUS_INTERNAL, "layer \"%s\" was not to be written", name);
    if (job->format->write == NULL) {
        item->written = true;
        return weights_copy_matrix(job->writer, item->first, job->backend, weight, item->layer->transposed, error);
    }
    struct export_fold_ready ready = {1, {index}, {layer}};
    enum status status = job->fold == NULL ? STATUS_OK : export_fold_layer(job->fold, index, layer, &ready, error);
    for (int i = 0; i < ready.count && status == STATUS_OK; i++) {
        struct item *due = &job->items[ready.tensors[i]];
        const struct export_place place = {job->writer, due->first, due->head_rows};
        due->written = true;
        status = job->format->write(&job->grid, ready.layers[i], &place, error);
    }
    return status;
}

struct sequential_hook export_hook(struct export_job *job, struct backend *backend)
{
    job->backend = backend;
    return (struct sequential_hook){job, note_layer};
}

/* Rows in GGUF's order, one at a time. */
static enum status copy_interleaved(const struct export_job *job, int64_t tensor, const struct item *item, struct error *error)
{
    const struct weights *weights = job->model->weights;
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
static enum status copy_divided(const struct export_job *job, int64_t tensor, const float *divisors, struct error *error)
{
    const struct weights *weights = job->model->weights;
    struct weights_tensor from;
    float *values = NULL;
    weights_tensor(weights, tensor, &from);
    enum status status = memory_new(from.elements, sizeof *values, "vector to copy", &values, error);
    if (status == STATUS_OK) status = weights_read_f32(weights, tensor, 0, from.elements, values, error);
    for (int64_t i = 0; i < from.elements && status == STATUS_OK; i++) values[i] /= divisors[i];
    if (status == STATUS_OK) status = weights_writer_f32(job->writer, job->items[tensor].first, values, from.elements, error);
    memory_free(values);
    return status;
}

static enum status copy_tensor(const struct export_job *job, int64_t tensor, struct error *error)
{
    const struct item *item = &job->items[tensor];
    if (item->first < 0) return STATUS_OK;
    const float *divisors = job->fold == NULL ? NULL : export_fold_divisors(job->fold, tensor);
    if (divisors != NULL) return copy_divided(job, tensor, divisors, error);
    if (item->head_rows > 0) return copy_interleaved(job, tensor, item, error);
    return weights_copy_tensor(job->model->weights, tensor, job->writer, item->first, error);
}

enum status export_finish(struct export_job *job, const struct monitor *monitor, struct error *error)
{
    const struct weights *weights = job->model->weights;
    enum status status;
    for (int64_t i = 0; i < weights_count(weights); i++) {
        const struct item *item = &job->items[i];
        if (item->layer != NULL && !item->written)
            return error_set(error, STATUS_INTERNAL, "layer \"%s\" was not quantized", item->layer->name);
        if (item->layer == NULL && (status = copy_tensor(job, i, error)) != STATUS_OK) return status;
        if ((status = monitor_check(monitor, error)) != STATUS_OK) return status;
    }
    if ((status = weights_check_unchanged(weights, error)) != STATUS_OK) return status;
    if ((status = weights_writer_commit(job->writer, error)) != STATUS_OK) return status;
    job->finished = true;
    return STATUS_OK;
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
    export_fold_free(job->fold);
    if (!job->finished && job->directory[0] != '\0') checkpoint_remove(job->directory);
    memory_free(job->items);
    memory_free(job->entries);
    memory_free(job->names);
    memory_free(job->shapes);
    memory_free(job->skipped);
    memory_free(job);
}

void export_remove(const char *directory)
{
    checkpoint_remove(directory);
}
