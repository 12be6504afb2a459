#include "quant/quantized_layer.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

enum { SLAB = 256 }; /* rows measured at a time */

enum status quantized_layer_init(struct quantized_layer *layer, int64_t rows, int64_t columns, int64_t bits, int64_t group_size,
                                 bool sym, struct error *error)
{
    enum status status;
    *layer =
        (struct quantized_layer){.rows = rows, .columns = columns, .bits = (int)bits, .sym = sym, .scale_bits = 16, .alpha = NAN};
    layer->group_size = group_size == -1 ? columns : group_size;
    layer->groups = columns / layer->group_size + (columns % layer->group_size != 0);
    if ((status = memory_new(rows * columns, sizeof *layer->codes, "quantized codes", &layer->codes, error)) != STATUS_OK ||
        (status = memory_new(rows * layer->groups, sizeof *layer->scales, "scales", &layer->scales, error)) != STATUS_OK ||
        (status = memory_new(rows * layer->groups, sizeof *layer->zeros, "zero points", &layer->zeros, error)) != STATUS_OK ||
        (status = memory_new(columns, sizeof *layer->g_idx, "group indices", &layer->g_idx, error)) != STATUS_OK)
        return status;
    for (int64_t c = 0; c < columns; c++) layer->g_idx[c] = (int32_t)(c / layer->group_size);
    return STATUS_OK;
}

enum status quantized_layer_init_codebook(struct quantized_layer *layer, int64_t rows, int64_t columns, int64_t block_size,
                                          const float *codebook, struct error *error)
{
    enum status status;
    *layer = (struct quantized_layer){.rows = rows,
                                      .columns = columns,
                                      .group_size = block_size,
                                      .bits = 4,
                                      .sym = true,
                                      .codebook = codebook,
                                      .scale_bits = 32,
                                      .alpha = NAN};
    layer->groups = (rows * columns + block_size - 1) / block_size;
    if ((status = memory_new(rows * columns, sizeof *layer->codes, "quantized codes", &layer->codes, error)) != STATUS_OK)
        return status;
    return memory_new(layer->groups, sizeof *layer->scales, "scales", &layer->scales, error);
}

void quantized_layer_reset(struct quantized_layer *layer)
{
    memory_free(layer->codes);
    memory_free(layer->scales);
    memory_free(layer->zeros);
    memory_free(layer->g_idx);
    memory_free(layer->column_scales);
    memory_free(layer->original);
    memory_free(layer->kept_columns);
    *layer = (struct quantized_layer){0};
}

int64_t quantized_layer_bits(const struct quantized_layer *layer)
{
    const int64_t groups = layer->codebook != NULL ? layer->groups : layer->rows * layer->groups;
    const int64_t column_bits = (layer->ordered ? 32 : 0) + (layer->column_scales != NULL ? 16 : 0);
    if (layer->skipped) return layer->rows * layer->columns * 16;
    return layer->kept * (16 * layer->rows + 32) + layer->rows * layer->columns * layer->bits +
           groups * (layer->scale_bits + (layer->sym ? 0 : layer->bits)) + layer->columns * column_bits + layer->extra_bits;
}

struct encode_job {
    struct quantized_layer *layer;
    struct grid grid;
    struct matrix weight;
};

static void encode_row(void *context, int64_t row, int thread)
{
    (void)thread;
    const struct encode_job *job = context;
    const struct quantized_layer *layer = job->layer;
    const float *weight = (const float *)job->weight.data + row * job->weight.stride;
    for (int64_t g = 0; g < layer->groups; g++) {
        const int64_t first = g * layer->group_size, left = layer->columns - first;
        const int64_t count = left < layer->group_size ? left : layer->group_size;
        double scale;
        uint8_t zero;
        grid_find(job->grid, weight + first, count, &scale, &zero);
        grid_encode(job->grid, weight + first, count, scale, zero, layer->codes + row * layer->columns + first);
        layer->scales[row * layer->groups + g] = (float)scale;
        layer->zeros[row * layer->groups + g] = zero;
    }
}

void quantized_layer_encode(struct quantized_layer *layer, struct team *team, struct grid grid, struct matrix weight)
{
    struct encode_job job = {layer, grid, weight};
    team_run(team, layer->rows, encode_row, &job);
}

static void look_up_row(const struct quantized_layer *layer, int64_t row, float *out)
{
    const uint8_t *codes = layer->codes + row * layer->columns;
    for (int64_t c = 0; c < layer->columns;) {
        const int64_t block = (row * layer->columns + c) / layer->group_size,
                      end = (block + 1) * layer->group_size - row * layer->columns;
        const float scale = layer->scales[block];
        for (; c < end && c < layer->columns; c++) out[c] = layer->codebook[codes[c]] * scale;
    }
}

static void grid_row(const struct quantized_layer *layer, int64_t row, float *out)
{
    const uint8_t *codes = layer->codes + row * layer->columns, *zeros = layer->zeros + row * layer->groups;
    const float *scales = layer->scales + row * layer->groups;
    const int32_t *g_idx = layer->g_idx;
    if (layer->ordered) {
        for (int64_t c = 0; c < layer->columns; c++) out[c] = (float)(codes[c] - zeros[g_idx[c]]) * scales[g_idx[c]];
        return;
    }
    for (int64_t g = 0, c = 0; g < layer->groups; g++) {
        const int64_t end = c + layer->group_size < layer->columns ? c + layer->group_size : layer->columns;
        const float scale = scales[g];
        const int zero = zeros[g];
#pragma omp simd
        for (int64_t i = c; i < end; i++) out[i] = (float)(codes[i] - zero) * scale;
        c = end;
    }
}

static void dequantize_row(const struct quantized_layer *layer, int64_t row, float *out)
{
    if (layer->codebook != NULL)
        look_up_row(layer, row, out);
    else
        grid_row(layer, row, out);
    if (layer->column_scales == NULL) return;
#pragma omp simd
    for (int64_t c = 0; c < layer->columns; c++) out[c] /= layer->column_scales[c];
}

struct rows_job {
    const struct quantized_layer *layer;
    struct matrix weight, to; /* difference_row: original rows [first, …) and where W - Q goes */
    int64_t first;
};

static void dequantize_task(void *context, int64_t i, int thread)
{
    (void)thread;
    const struct rows_job *job = context;
    dequantize_row(job->layer, i, (float *)job->to.data + i * job->to.stride);
}

void quantized_layer_dequantize(const struct quantized_layer *layer, struct team *team, struct matrix weight)
{
    struct rows_job job = {.layer = layer, .to = weight};
    team_run(team, layer->rows, dequantize_task, &job);
}

static void difference_task(void *context, int64_t i, int thread)
{
    (void)thread;
    const struct rows_job *job = context;
    const float *weight = (const float *)job->weight.data + i * job->weight.stride;
    float *to = (float *)job->to.data + i * job->to.stride;
    dequantize_row(job->layer, job->first + i, to);
#pragma omp simd
    for (int64_t c = 0; c < job->layer->columns; c++) to[c] = weight[c] - to[c];
}

/* H is symmetric, so the products with what lies above its diagonal blocks count twice and those below are not done: little more
 * than half the work. */
double quantized_layer_energy(struct backend *backend, struct matrix a, struct matrix hessian, struct matrix product)
{
    if (hessian.data == NULL) return backend->ops->dot(backend, a, a);
    const int64_t eighth = (a.columns / 8 + 63) / 64 * 64, width = eighth < 128 ? 128 : eighth;
    for (int64_t first = 0; first < a.columns; first += width) {
        const int64_t count = a.columns - first < width ? a.columns - first : width;
        const struct matrix columns = matrix_columns(hessian, first, count), c = matrix_columns(product, first, count);
        const struct gemm_args diagonal = {
            .a = matrix_columns(a, first, count), .b = matrix_rows(columns, first, count), .c = c, .alpha = 1};
        const struct gemm_args above = {
            .a = matrix_columns(a, 0, first), .b = matrix_rows(columns, 0, first), .c = c, .alpha = 2, .beta = 1};
        backend->ops->gemm(backend, &diagonal);
        if (first > 0) backend->ops->gemm(backend, &above);
    }
    return backend->ops->dot(backend, a, product);
}

/* Sums of energies of W - Q and, where `whole` is wanted, of W. */
static enum status sum_energies(const struct quantized_layer *layer, struct backend *backend, struct matrix weight,
                                struct matrix hessian, double *proxy, double *whole, struct error *error)
{
    enum status status;
    float *difference = NULL, *product = NULL;
    const int64_t slab = layer->rows < SLAB ? layer->rows : SLAB, columns = layer->columns;
    *proxy = 0;
    if (whole != NULL) *whole = 0;
    if ((status = memory_new(slab * columns, sizeof *difference, "quantization error", &difference, error)) != STATUS_OK) goto done;
    if ((status = memory_new(slab * columns, sizeof *product, "quantization error", &product, error)) != STATUS_OK) goto done;
    for (int64_t first = 0; first < layer->rows; first += slab) {
        const int64_t count = layer->rows - first < slab ? layer->rows - first : slab;
        const struct matrix scratch = matrix_of(product, count, columns, sizeof(float));
        struct rows_job job = {layer, matrix_rows(weight, first, count), matrix_of(difference, count, columns, sizeof(float)),
                               first};
        team_run(backend->team, count, difference_task, &job);
        *proxy += quantized_layer_energy(backend, job.to, hessian, scratch);
        if (whole != NULL) *whole += quantized_layer_energy(backend, job.weight, hessian, scratch);
    }
    if (!isfinite(*proxy) || (whole != NULL && !isfinite(*whole)))
        status =
            error_set(error, STATUS_NOT_FINITE, "quantization error is not finite: weights or activations are too large for float");
    /* H is positive semidefinite: below zero is rounding */
    if (*proxy < 0) *proxy = 0;
done:
    memory_free(product);
    memory_free(difference);
    return status;
}

enum status quantized_layer_error(const struct quantized_layer *layer, struct backend *backend, struct matrix weight,
                                  struct matrix hessian, double *out, struct error *error)
{
    return sum_energies(layer, backend, weight, hessian, out, NULL, error);
}

enum status quantized_layer_measure(struct quantized_layer *layer, struct backend *backend, struct matrix weight,
                                    struct matrix hessian, struct error *error)
{
    double whole;
    const enum status status = sum_energies(layer, backend, weight, hessian, &layer->proxy_error, &whole, error);
    if (status == STATUS_OK) layer->relative_error = whole > 0 ? layer->proxy_error / whole : 0;
    return status;
}
