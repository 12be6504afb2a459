#include "quant/coded.h"

#include "base/integer.h"
#include "quant/export_format.h"
#include "tensor/dtype.h"

#include <math.h>

enum { ALIGNMENT = 256 }; /* alignment of the arrays in a block, in bytes */
/* Rows measured at a time, and the number of parts of their columns: sizes that fit a processor's caches, and sizes
 * that keep a device's multiprocessors busy with one product. */
enum { HOST_SLAB = 256, HOST_PARTS = 8, DEVICE_SLAB = 1024, DEVICE_PARTS = 4 };

enum part { PART_CODES, PART_SCALES, PART_ZEROS, PART_GROUPS, PART_TABLE, PART_COLUMNS, PARTS };

/* Lists the parts of a layer, and the bytes of each. */
static void list_parts(const struct quantized_layer *layer, const void *from[PARTS], size_t bytes[PARTS])
{
    const size_t scales = (size_t)quantized_layer_scales(layer), columns = (size_t)layer->columns;
    const void *const all[PARTS] = {layer->codes,         layer->scales,
                                    layer->zeros,         layer->ordered ? layer->g_idx : NULL,
                                    layer->coding.values, layer->column_scales};
    const size_t sizes[PARTS] = {(size_t)layer->rows * columns,
                                 scales * sizeof(float),
                                 scales,
                                 columns * sizeof(int32_t),
                                 (size_t)layer->coding.count * sizeof(float),
                                 columns * sizeof(float)};
    for (int i = 0; i < PARTS; i++) {
        from[i] = all[i];
        bytes[i] = all[i] != NULL ? sizes[i] : 0;
    }
}

static void *block_at(const struct coded *coded, enum part part)
{
    return coded->offsets[part] == 0 ? NULL : (char *)coded->block + coded->offsets[part];
}

enum status coded_init(struct coded *coded, struct backend *backend, struct quantized_layer *layer, uint8_t *codes,
                       struct error *error)
{
    const void *from[PARTS];
    size_t bytes[PARTS], next = ALIGNMENT; /* offset 0 means: not in the block */
    *coded = (struct coded){.backend = backend, .layer = layer};
    coded->at = (struct codes){.coding = layer->coding,
                               .rows = layer->rows,
                               .columns = layer->columns,
                               .groups = layer->groups,
                               .codes = layer->codes,
                               .scales = layer->scales,
                               .zeros = layer->zeros,
                               .g_idx = layer->ordered ? layer->g_idx : NULL,
                               .column_scales = layer->column_scales};
    if (backend->ops->host) return STATUS_OK;
    list_parts(layer, from, bytes);
    for (int i = codes != NULL ? PART_SCALES : PART_CODES; i < PARTS; i++) {
        coded->offsets[i] = bytes[i] > 0 ? next : 0;
        next += (bytes[i] + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    const enum status status =
        backend->ops->allocate(backend, backend_elements(backend, (int64_t)next), "codes", &coded->block, error);
    if (status != STATUS_OK) return status;
    coded->at.codes = codes != NULL ? codes : block_at(coded, PART_CODES);
    coded->at.scales = block_at(coded, PART_SCALES);
    coded->at.zeros = block_at(coded, PART_ZEROS);
    coded->at.g_idx = block_at(coded, PART_GROUPS);
    coded->at.coding.values = block_at(coded, PART_TABLE);
    coded->at.column_scales = block_at(coded, PART_COLUMNS);
    return STATUS_OK;
}

void coded_reset(struct coded *coded)
{
    if (coded->block != NULL) coded->backend->ops->release(coded->backend, coded->block);
    *coded = (struct coded){0};
}

void coded_push(struct coded *coded)
{
    const void *from[PARTS];
    size_t bytes[PARTS];
    list_parts(coded->layer, from, bytes);
    for (int i = PART_SCALES; i < PARTS && coded->block != NULL; i++)
        if (bytes[i] > 0)
            coded->backend->ops->write_bytes(coded->backend, block_at(coded, (enum part)i), from[i], bytes[i]);
}

/* Rounds the codes of a group to a scale that is larger than its own. */
static void raise_scale(struct quantized_layer *layer, int64_t group, float scale)
{
    const double ratio = (double)layer->scales[group] / (double)scale;
    const int zero = layer->zeros[group];
    uint8_t *codes = layer->codes + group / layer->groups * layer->columns;
    for (int64_t c = 0; c < layer->columns; c++)
        if (layer->g_idx[c] == group % layer->groups) codes[c] = (uint8_t)(zero + lrint((codes[c] - zero) * ratio));
    layer->scales[group] = scale;
}

enum status coded_round_scales(struct coded *coded, const char *name, struct error *error)
{
    static const float smallest = 0x1p-24F; /* of float16; half of it becomes 0 */
    struct quantized_layer *layer = coded->layer;
    struct backend *backend = coded->backend;
    struct error cause;
    bool raised = false;
    uint16_t half;
    if (layer->zeros == NULL) return STATUS_OK;
    for (int64_t i = 0; i < quantized_layer_scales(layer); i++) {
        if (layer->scales[i] > 0 && layer->scales[i] <= smallest / 2) {
            raise_scale(layer, i, smallest);
            raised = true;
        }
        const enum status status = export_format_half("scale", layer->scales[i], &half, &cause);
        if (status != STATUS_OK) return error_set(error, status, "%s: %s", name, cause.detail);
        dtype_info(DTYPE_F16)->to_f32(&half, &layer->scales[i], 1);
    }
    coded_push(coded);
    if (raised && !backend->ops->host)
        backend->ops->write_bytes(backend, coded->at.codes, layer->codes, (size_t)(layer->rows * layer->columns));
    return STATUS_OK;
}

enum status coded_pull_scales(struct coded *coded, struct error *error)
{
    struct backend *backend = coded->backend;
    const void *from[PARTS];
    size_t bytes[PARTS];
    if (coded->block == NULL) return STATUS_OK;
    list_parts(coded->layer, from, bytes);
    backend->ops->read_bytes(backend, coded->at.scales, coded->layer->scales, bytes[PART_SCALES]);
    return backend->ops->sync(backend, error);
}

enum status coded_pull(struct coded *coded, struct error *error)
{
    struct backend *backend = coded->backend;
    struct quantized_layer *layer = coded->layer;
    const void *from[PARTS];
    size_t bytes[PARTS];
    if (coded->block == NULL) return STATUS_OK;
    list_parts(layer, from, bytes);
    backend->ops->read_bytes(backend, coded->at.codes, layer->codes, bytes[PART_CODES]);
    backend->ops->read_bytes(backend, coded->at.zeros, layer->zeros, bytes[PART_ZEROS]);
    return coded_pull_scales(coded, error);
}

void coded_encode(struct coded *coded, struct matrix weight)
{
    coded->backend->ops->encode(coded->backend, weight, &coded->at);
}

void coded_decode(const struct coded *coded, struct matrix weight)
{
    coded->backend->ops->decode(coded->backend, &coded->at, 0, weight, (struct matrix){0});
}

int64_t coded_slab_rows(const struct backend *backend)
{
    return backend->ops->host ? HOST_SLAB : DEVICE_SLAB;
}

/* H is symmetric, so products with blocks above the diagonal count twice and those below are skipped: little more than
 * half the work. */
double coded_energy(struct backend *backend, struct matrix a, struct matrix hessian, struct matrix product)
{
    if (hessian.data == NULL) return backend->ops->dot(backend, a, a);
    const int64_t parts = backend->ops->host ? HOST_PARTS : DEVICE_PARTS;
    const int64_t part = (a.columns / parts + 63) / 64 * 64, width = part < 128 ? 128 : part;
    for (int64_t first = 0; first < a.columns; first += width) {
        const int64_t count = a.columns - first < width ? a.columns - first : width;
        const struct matrix columns = matrix_columns(hessian, first, count), c = matrix_columns(product, first, count);
        const struct gemm_args diagonal = {.a = matrix_columns(a, first, count),
                                           .b = matrix_rows(columns, first, count),
                                           .c = c,
                                           .alpha = 1,
                                           .exact = true};
        const struct gemm_args above = {.a = matrix_columns(a, 0, first),
                                        .b = matrix_rows(columns, 0, first),
                                        .c = c,
                                        .alpha = 2,
                                        .beta = 1,
                                        .exact = true};
        backend->ops->gemm(backend, &diagonal);
        if (first > 0) backend->ops->gemm(backend, &above);
    }
    return backend->ops->dot(backend, a, product);
}

/* Sums the energies of W - Q and, unless `whole` is NULL, of W. */
static enum status sum_energies(const struct coded *coded, const char *name, struct matrix weight,
                                struct matrix hessian, double *proxy, double *whole, struct error *error)
{
    struct backend *backend = coded->backend;
    const int64_t rows = coded->at.rows, columns = coded->at.columns, slab = smaller(rows, coded_slab_rows(backend));
    void *difference = NULL, *product = NULL;
    enum status status;
    *proxy = 0;
    if (whole != NULL) *whole = 0;
    if ((status = backend->ops->allocate(backend, slab * columns, "quantization error", &difference, error)) !=
        STATUS_OK)
        goto done;
    status = backend->ops->allocate(backend, slab * columns, "quantization error", &product, error);
    if (status != STATUS_OK) goto done;
    for (int64_t first = 0; first < rows; first += slab) {
        const int64_t count = rows - first < slab ? rows - first : slab;
        const struct matrix d = matrix_of(difference, count, columns, backend->ops->element),
                            w = matrix_rows(weight, first, count);
        const struct matrix scratch = matrix_of(product, count, columns, backend->ops->element);
        backend->ops->decode(backend, &coded->at, first, d, w);
        *proxy += coded_energy(backend, d, hessian, scratch);
        if (whole != NULL) *whole += coded_energy(backend, w, hessian, scratch);
    }
    if ((status = backend->ops->sync(backend, error)) != STATUS_OK) goto done;
    if (!isfinite(*proxy) || (whole != NULL && !isfinite(*whole)))
        status =
            error_set(error, STATUS_NOT_FINITE,
                      "%s: quantization error is not finite: weights or activations are too large for float", name);
    /* H is positive semidefinite: a negative energy is a rounding error */
    if (*proxy < 0) *proxy = 0;
done:
    if (product != NULL) backend->ops->release(backend, product);
    if (difference != NULL) backend->ops->release(backend, difference);
    return status;
}

enum status coded_error(const struct coded *coded, const char *name, struct matrix weight, struct matrix hessian,
                        double *out, struct error *error)
{
    return sum_energies(coded, name, weight, hessian, out, NULL, error);
}

enum status coded_measure(struct coded *coded, const char *name, struct matrix weight, struct matrix hessian,
                          struct error *error)
{
    double whole;
    const enum status status = sum_energies(coded, name, weight, hessian, &coded->layer->proxy_error, &whole, error);
    if (status == STATUS_OK) coded->layer->relative_error = whole > 0 ? coded->layer->proxy_error / whole : 0;
    return status;
}
