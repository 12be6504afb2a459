#include "model/model.h"

#include "base/integer.h"
#include "base/memory.h"
#include "model/architecture.h"
#include "model/recognise.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum status parameter_check(const struct model *model, const struct parameter *parameter, bool *used,
                                   struct error *error)
{
    const int64_t index = weights_find(model->weights, parameter->name);
    struct weights_tensor tensor;
    if (index < 0 && parameter->constant) return STATUS_OK; /* the architecture defines its value */
    if (index < 0)
        return error_set(error, STATUS_INVALID, "the checkpoint has no tensor \"%s\", which its %s architecture needs",
                         parameter->name, model->config.architecture->model_type);
    weights_tensor(model->weights, index, &tensor);
    const int64_t rows = parameter->transposed ? parameter->columns : parameter->rows;
    const int64_t columns = parameter->transposed ? parameter->rows : parameter->columns;
    const bool scalar = parameter->constant && tensor.elements == 1 && tensor.rank <= 1;
    const bool vector = rows == 1 && tensor.rank == 1 && tensor.shape[0] == columns;
    const bool matrix = tensor.rank == 2 && tensor.shape[0] == rows && tensor.shape[1] == columns;
    const bool kernel = parameter->depthwise && tensor.rank == 3 && tensor.shape[0] == parameter->rows &&
                        tensor.shape[1] == 1 && tensor.shape[2] == parameter->columns;
    if (!scalar && !vector && !matrix && !kernel)
        return error_set(error, STATUS_INVALID,
                         "tensor \"%s\" has %lld elements in %d dimensions; config.json asks for [%lld, %lld]",
                         parameter->name, (long long)tensor.elements, tensor.rank, (long long)rows, (long long)columns);
    if (dtype_info(tensor.dtype)->to_f32 == NULL)
        return error_set(error, STATUS_UNSUPPORTED, "tensor \"%s\" is %s; weights must be F32, F16, BF16 or F64",
                         parameter->name, dtype_info(tensor.dtype)->name);
    used[index] = true;
    return STATUS_OK;
}

static bool ends_with(const char *text, const char *ending)
{
    const size_t a = strlen(text), b = strlen(ending);
    return a >= b && strcmp(text + a - b, ending) == 0;
}

static bool tensor_ignorable(const struct model *model, const char *name)
{
    const struct architecture *row = model->config.architecture;
    for (size_t i = 0; i < sizeof row->ignored / sizeof row->ignored[0] && row->ignored[i] != NULL; i++)
        if (ends_with(name, row->ignored[i])) return true;
    const char *outputs[] = {row->names[ROLE_OUTPUT], row->output_alias};
    for (int i = 0; model->config.tied && i < 2; i++) { /* redundant when tied */
        const size_t length = outputs[i] == NULL ? 0 : strlen(outputs[i]);
        if (length > 0 && strncmp(name, outputs[i], length) == 0 && strcmp(name + length, ".weight") == 0) return true;
    }
    return false;
}

static enum status unused_refuse(const struct model *model, const bool *used, struct error *error)
{
    struct weights_tensor tensor;
    for (int64_t i = 0; i < weights_count(model->weights); i++) {
        weights_tensor(model->weights, i, &tensor);
        if (used[i] || tensor_ignorable(model, tensor.name)) continue;
        return error_set(
            error, STATUS_UNSUPPORTED,
            "tensor \"%.200s\" is not part of the %s architecture as config.json describes it; leaving it out would"
            " give "
            "another model",
            tensor.name, model->config.architecture->model_type);
    }
    return STATUS_OK;
}

/* Some files omit the prefix that others give to every name. */
static void find_prefix(struct model *model)
{
    const struct architecture *row = model->config.architecture;
    char name[PARAMETER_NAME];
    if (row->prefix == NULL) return;
    (void)snprintf(name, sizeof name, "%s.weight", row->names[ROLE_EMBEDDING]);
    model->config.bare_names =
        weights_find(model->weights, name) < 0 && weights_find(model->weights, name + strlen(row->prefix)) >= 0;
}

/* Embedding and output matrix have one of two names in published files. */
static void complete_name(const struct model *model, const char *alias, struct parameter *parameter)
{
    char name[PARAMETER_NAME];
    if (alias == NULL || weights_find(model->weights, parameter->name) >= 0) return;
    (void)snprintf(name, sizeof name, "%s.weight", alias);
    if (weights_find(model->weights, name) >= 0) memcpy(parameter->name, name, sizeof name);
}

static enum status tensors_check(struct model *model, struct error *error)
{
    bool *used = NULL;
    enum status status = memory_new(weights_count(model->weights), sizeof *used, "tensor list", &used, error);
    if (status != STATUS_OK) return status;
    complete_name(model, model->config.architecture->embedding_alias, &model->ends.embedding);
    if (model->config.tied)
        model->ends.output = model->ends.embedding;
    else
        complete_name(model, model->config.architecture->output_alias, &model->ends.output);
    const struct parameter *ends[DECODER_ENDS];
    const int end_count = decoder_ends_list(&model->ends, model->config.tied, ends);
    for (int i = 0; i < end_count; i++) {
        if ((status = parameter_check(model, ends[i], used, error)) != STATUS_OK) goto done;
        model->parameters += ends[i]->rows * ends[i]->columns;
    }
    for (int64_t layer = 0; layer < model->config.layers; layer++)
        for (int i = 0; i < model->programs[layer].parameter_count; i++) {
            const struct parameter *parameter = &model->programs[layer].parameters[i];
            if ((status = parameter_check(model, parameter, used, error)) != STATUS_OK) goto done;
            if (!parameter->constant) model->parameters += parameter->rows * parameter->columns;
        }
    status = unused_refuse(model, used, error);
done:
    memory_free(used);
    return status;
}

enum status model_open(const char *path, struct model **out, struct error *error)
{
    return model_open_as(path, NULL, out, error);
}

enum status model_open_as(const char *path, const char *config, struct model **out, struct error *error)
{
    struct weights *weights = NULL;
    enum status status = weights_open(path, &weights, error);
    *out = NULL;
    if (status == STATUS_OK && config != NULL && (status = weights_give_config(weights, config, error)) != STATUS_OK) {
        weights_close(weights);
        return status;
    }
    return status == STATUS_OK ? model_of_weights(weights, out, error) : status;
}

/* Fills in everything but the weights and the configuration, which are set already. */
static enum status complete_model(struct model *model, struct error *error)
{
    enum status status;
    find_prefix(model);
    if ((status = memory_new(model->config.layers, sizeof *model->programs, "block programs", &model->programs,
                             error)) != STATUS_OK)
        return status;
    for (int64_t layer = 0; layer < model->config.layers; layer++)
        decoder_block(&model->config, layer, &model->programs[layer]);
    decoder_ends(&model->config, &model->ends);
    return tensors_check(model, error);
}

enum status model_fits(const struct weights *weights, const struct model_config *config, struct error *error)
{
    union { /* a model owns its weights; this one only looks at them */
        const struct weights *lent;
        struct weights *held;
    } looked_at = {weights};
    struct model *model = NULL;
    enum status status = memory_new(1, sizeof *model, "model", &model, error);
    if (status != STATUS_OK) return status;
    model->weights = looked_at.held;
    model->config = *config;
    status = complete_model(model, error);
    model->weights = NULL;
    model_close(model);
    return status;
}

enum status model_of_weights(struct weights *weights, struct model **out, struct error *error)
{
    struct model *model = NULL;
    enum status status = memory_new(1, sizeof *model, "model", &model, error);
    *out = NULL;
    if (status != STATUS_OK) {
        weights_close(weights);
        return status;
    }
    model->weights = weights;
    if ((status = recognise_config(weights, &model->config, error)) != STATUS_OK) goto done;
    if ((status = complete_model(model, error)) != STATUS_OK) goto done;
    *out = model;
    model = NULL;
done:
    model_close(model);
    return status;
}

void model_close(struct model *model)
{
    if (model == NULL) return;
    memory_free(model->programs);
    weights_close(model->weights);
    memory_free(model);
}

/* A tensor is read in parts, which tasks of a team share; what a part is does not show in the numbers. */
enum { READ_PART = 1 << 16, READ_SLAB = 1 << 22 }; /* elements */

struct reading {
    const struct model *model;
    const struct parameter *parameter;
    enum dtype dtype;                  /* of `values`: F32, or as stored */
    int64_t index, first, count, part; /* elements of the tensor in row-major order; of a part */
    char *values;
    pthread_mutex_t mutex;
    int64_t failed; /* the first part that failed, whichever was noticed first */
    struct error error;
};

static int64_t width_of(enum dtype dtype)
{
    return (int64_t)dtype_info(dtype)->bits / 8;
}

static bool floats_finite(const void *values, int64_t count)
{
    uint32_t bad = 0;
#pragma omp simd reduction(| : bad)
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, (const char *)values + i * (int64_t)sizeof bits, sizeof bits);
        bad |= (bits & 0x7f800000u) == 0x7f800000u;
    }
    return bad == 0;
}

/* Whether no number of 16 bits has all bits of its exponent. */
static bool shorts_finite(const void *values, int64_t count, uint16_t exponent)
{
    uint16_t bad = 0;
#pragma omp simd reduction(| : bad)
    for (int64_t i = 0; i < count; i++) {
        uint16_t bits;
        memcpy(&bits, (const char *)values + i * (int64_t)sizeof bits, sizeof bits);
        bad |= (uint16_t)((bits & exponent) == exponent);
    }
    return bad == 0;
}

/* `values` are those from element `first` on. */
static enum status finite_check(const struct parameter *parameter, enum dtype dtype, const char *values, int64_t first,
                                int64_t count, struct error *error)
{
    const int64_t columns = parameter->transposed ? parameter->rows : parameter->columns; /* as in the file */
    const bool finite = dtype == DTYPE_F32 ? floats_finite(values, count)
                                           : shorts_finite(values, count, dtype == DTYPE_F16 ? 0x7c00u : 0x7f80u);
    float value = 0;
    int64_t i = -1;
    if (finite) return STATUS_OK;
    while (isfinite(value)) dtype_info(dtype)->to_f32(values + ++i * width_of(dtype), &value, 1);
    return error_set(error, STATUS_NOT_FINITE, "tensor \"%s\" is not finite: element [%lld, %lld] is %s",
                     parameter->name, (long long)((first + i) / columns), (long long)((first + i) % columns),
                     isnan(value) ? "NaN" : "infinite");
}

/* Elements [first, first + count) of the tensor. */
static enum status read_span(const struct reading *r, int64_t first, int64_t count, char *to, struct error *error)
{
    const int64_t width = width_of(r->dtype);
    if (r->dtype == DTYPE_F32)
        return weights_read_f32(r->model->weights, r->index, first, count, (float *)(void *)to, error);
    return weights_read_bytes(r->model->weights, r->index, first * width, count * width, to, error);
}

static void read_part(void *context, int64_t i, int thread)
{
    struct reading *r = context;
    struct error error;
    const int64_t at = i * r->part, count = smaller(r->part, r->count - at);
    char *to = r->values + at * width_of(r->dtype);
    (void)thread;
    enum status status = read_span(r, r->first + at, count, to, &error);
    if (status == STATUS_OK) status = finite_check(r->parameter, r->dtype, to, r->first + at, count, &error);
    if (status == STATUS_OK) return;
    pthread_mutex_lock(&r->mutex);
    if (i < r->failed) r->failed = i, r->error = error;
    pthread_mutex_unlock(&r->mutex);
}

/* Small parts of a scattered tensor would be read a few numbers at a time. */
static bool is_scattered(const struct model *model, int64_t index)
{
    struct weights_tensor tensor;
    weights_tensor(model->weights, index, &tensor);
    return tensor.scattered;
}

enum dtype model_stored_dtype(const struct model *model, const struct parameter *parameter)
{
    const int64_t index = weights_find(model->weights, parameter->name);
    struct weights_tensor tensor = {.plain = false};
    if (index >= 0) weights_tensor(model->weights, index, &tensor);
    const bool is_short = tensor.dtype == DTYPE_BF16 || tensor.dtype == DTYPE_F16;
    return is_short && tensor.plain && !parameter->transposed ? tensor.dtype : DTYPE_F32;
}

/* Elements [first, first + count) of a tensor of the file, as F32 or as stored. */
static enum status read_values(const struct model *model, const struct parameter *parameter, enum dtype dtype,
                               int64_t first, int64_t count, void *values, struct team *team, struct error *error)
{
    const int64_t index = weights_find(model->weights, parameter->name);
    struct reading reading = {.model = model,
                              .parameter = parameter,
                              .dtype = dtype,
                              .index = index,
                              .first = first,
                              .count = count,
                              .part = is_scattered(model, index) ? count / team_size(team) + 1 : READ_PART,
                              .values = values,
                              .failed = INT64_MAX};
    pthread_mutex_init(&reading.mutex, NULL);
    team_run(team, ceil_divide(count, reading.part), read_part, &reading);
    pthread_mutex_destroy(&reading.mutex);
    if (reading.failed == INT64_MAX) return STATUS_OK;
    *error = reading.error;
    return error->status;
}

/* to = fromᵀ, from [columns of `to`, rows of `to`], in tiles that stay in the cache. */
static void transpose(struct matrix to, const float *from)
{
    enum { TILE = 32 };
    float *out = to.data;
    for (int64_t r = 0; r < to.rows; r += TILE)
        for (int64_t c = 0; c < to.columns; c += TILE)
            for (int64_t i = r; i < to.rows && i < r + TILE; i++)
                for (int64_t j = c; j < to.columns && j < c + TILE; j++) out[i * to.stride + j] = from[j * to.rows + i];
}

static bool is_constant(const struct model *model, const struct parameter *parameter)
{
    return parameter->constant && weights_find(model->weights, parameter->name) < 0;
}

enum status model_read_dense(const struct model *model, const struct parameter *parameter, float *to, float *scratch,
                             struct team *team, struct error *error)
{
    const int64_t count = parameter->rows * parameter->columns;
    float *own = NULL, *values = parameter->transposed ? scratch : to;
    enum status status = STATUS_OK;
    if (is_constant(model, parameter)) {
        for (int64_t i = 0; i < count; i++) to[i] = (float)parameter->initial;
        return STATUS_OK;
    }
    if (values == NULL) {
        if ((status = memory_new(count, sizeof *own, parameter->name, &own, error)) != STATUS_OK) return status;
        values = own;
    }
    status = read_values(model, parameter, DTYPE_F32, 0, count, values, team, error);
    if (status == STATUS_OK && parameter->transposed)
        transpose(matrix_of(to, parameter->rows, parameter->columns, sizeof *to), values);
    memory_free(own);
    return status;
}

enum status model_read_stored(const struct model *model, const struct parameter *parameter, void *to, struct team *team,
                              struct error *error)
{
    const enum dtype dtype = model_stored_dtype(model, parameter);
    if (dtype == DTYPE_F32) return model_read_dense(model, parameter, to, NULL, team, error);
    return read_values(model, parameter, dtype, 0, parameter->rows * parameter->columns, to, team, error);
}

enum status model_read(const struct model *model, struct backend *backend, const struct parameter *parameter,
                       struct matrix to, float *staging, struct error *error)
{
    float *own = NULL;
    if (backend->ops->host && backend->ops->element == sizeof(float) && to.stride == to.columns)
        return model_read_dense(model, parameter, to.data, staging, NULL, error);
    enum status status =
        staging != NULL ? STATUS_OK
                        : memory_new(parameter->rows * parameter->columns, sizeof *own, parameter->name, &own, error);
    if (staging == NULL) staging = own;
    if (status == STATUS_OK) status = model_read_dense(model, parameter, staging, NULL, NULL, error);
    if (status == STATUS_OK) backend->ops->upload(backend, to, staging, DTYPE_F32);
    memory_free(own);
    return status;
}

/* To a device by slabs of rows (a scattered tensor whole): one is read while the device still copies the one before. */
static enum status load_slabs(const struct model *model, struct backend *backend, const struct parameter *parameter,
                              struct matrix to, struct error *error)
{
    const bool scattered = is_scattered(model, weights_find(model->weights, parameter->name));
    const int64_t fitting = scattered ? parameter->rows : larger(READ_SLAB / larger(parameter->columns, 1), 1);
    const int64_t rows = smaller(parameter->rows, fitting);
    const enum dtype dtype = model_stored_dtype(model, parameter);
    void *slab = NULL;
    enum status status = memory_new(rows * parameter->columns, (size_t)width_of(dtype), parameter->name, &slab, error);
    for (int64_t row = 0; row < parameter->rows && status == STATUS_OK; row += rows) {
        const int64_t count = smaller(rows, parameter->rows - row);
        status = read_values(model, parameter, dtype, row * parameter->columns, count * parameter->columns, slab,
                             backend->team, error);
        if (status == STATUS_OK) backend->ops->upload(backend, matrix_rows(to, row, count), slab, dtype);
    }
    memory_free(slab);
    return status;
}

enum status model_load(const struct model *model, struct backend *backend, const struct parameter *parameter,
                       struct matrix *to, struct error *error)
{
    enum status status = matrix_new(backend, parameter->rows, parameter->columns, parameter->name, to, error);
    if (status == STATUS_OK)
        status = backend->ops->host || parameter->transposed || is_constant(model, parameter)
                     ? model_read(model, backend, parameter, *to, NULL, error)
                     : load_slabs(model, backend, parameter, *to, error);
    if (status != STATUS_OK) matrix_release(backend, to);
    return status;
}

enum status model_rope_tables(const struct model_config *config, struct backend *backend, int64_t positions,
                              struct matrix *cosine, struct matrix *sine, struct error *error)
{
    const int64_t half = config_rotary(config) / 2;
    double *host = NULL, *frequencies = NULL;
    void *data = NULL;
    enum status status;
    if ((status = memory_new(half + 1, sizeof *frequencies, "rotary frequencies", &frequencies, error)) != STATUS_OK)
        goto done;
    if ((status = memory_new(2 * positions * half, sizeof *host, "rotary tables", &host, error)) != STATUS_OK)
        goto done;
    if ((status = backend->ops->allocate(backend, 2 * positions * half + 1, "rotary tables", &data, error)) !=
        STATUS_OK)
        goto done;
    config_rope_frequencies(config, frequencies);
    for (int64_t p = 0; p < positions; p++)
        for (int64_t j = 0; j < half; j++) {
            host[p * half + j] = cos((double)p * frequencies[j]);
            host[(positions + p) * half + j] = sin((double)p * frequencies[j]);
        }
    *cosine = matrix_of(data, positions, half, backend->ops->element);
    *sine = matrix_of((char *)data + (size_t)(positions * half) * backend->ops->element, positions, half,
                      backend->ops->element);
    backend->ops->upload(backend, *cosine, host, DTYPE_F64);
    backend->ops->upload(backend, *sine, host + positions * half, DTYPE_F64);
done:
    memory_free(frequencies);
    memory_free(host);
    return status;
}

int64_t model_rope_bytes(const struct model_config *config, const struct backend *backend, int64_t positions)
{
    return (2 * positions * (config_rotary(config) / 2) + 1) * (int64_t)backend->ops->element;
}

int64_t model_rope_making_bytes(const struct model_config *config, int64_t positions)
{
    return 2 * positions * (config_rotary(config) / 2) * (int64_t)sizeof(double);
}
