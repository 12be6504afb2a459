/* codebook.c: 4-bit codes for a book of sixteen values in [-1, 1], scaled by the largest magnitude of each block of
 * weights (Dettmers et al., "QLoRA", arXiv 2305.14314, section 3; the books are those of the library that came with
 * it).
 *
 *     nf4   quantiles of a normal distribution
 *     fp4   sign, 2 bits of exponent, 1 of mantissa, over the largest: e2m1; the library's has 1/192 in place of the
 *           smallest, 1/12, and so a hole around zero that costs more than it brings. Both have two zeros.
 *
 * Blocks are runs of the matrix written out row by row, so that they cross rows; the last one may be short. A code is
 * the nearest value after dividing by the block's maximum, the lower one on an exact midpoint; an all-zero block gets
 * the code of 0. double_quant codes the maxima too: their mean is taken away, and blocks of 256 of them are coded with
 * 8 bits by dynamic_map (sign, a run of zeros that picks a power of ten, and the rest a fraction; Dettmers, arXiv
 * 1511.04561). Arithmetic in double. */
#include "base/memory.h"
#include "quant/quantize_each.h"

#include <math.h>
#include <stdlib.h>

enum { VALUES = 16, MAXIMA_BLOCK = 256, MAP_SIZE = 256 };

/* clang-format off */
#define CODEBOOK_PARAMS(method) \
    {.name = "block_size", .type = PARAM_INTEGER, .offset = QUANTIZE_AT(method.block_size), .fallback = "64", \
     .minimum = 1, \
     .maximum = GROUP_SIZE_MAXIMUM, .help = "Weights that share a maximum, counted through the matrix row by row"}, \
    {.name = "double_quant", .type = PARAM_BOOLEAN, .offset = QUANTIZE_AT(method.double_quant), .fallback = "true", \
     .help = "Code the maxima themselves with 8 bits"}
/* clang-format on */

static const char *const fp4_books[] = {"e2m1", "bitsandbytes", NULL};

const struct param nf4_params[] = {CODEBOOK_PARAMS(nf4), QUANTIZE_ACTIVATION_PARAM, QUANTIZE_OPTION_PARAMS, {0}};
const struct param fp4_params[] = {
    CODEBOOK_PARAMS(fp4),
    {.name = "values",
     .type = PARAM_CHOICE,
     .offset = QUANTIZE_AT(fp4.values),
     .fallback = "\"e2m1\"",
     .choices = fp4_books,
     .help = "The book: the plain format, or that of the library, which has 1/192 for its smallest value"},
    QUANTIZE_ACTIVATION_PARAM,
    QUANTIZE_OPTION_PARAMS,
    {0},
};

static const float nf4_values[VALUES] = {
    -1.0f,
    -0.6961928009986877f,
    -0.5250730514526367f,
    -0.39491748809814453f,
    -0.28444138169288635f,
    -0.18477343022823334f,
    -0.09105003625154495f,
    0.0f,
    0.07958029955625534f,
    0.16093020141124725f,
    0.24611230194568634f,
    0.33791524171829224f,
    0.44070982933044434f,
    0.5626170039176941f,
    0.7229568362236023f,
    1.0f,
};

#define FP4(smallest)                                                                                                 \
    {                                                                                                                 \
        -1, -2.0f / 3, -0.5f, -1.0f / 3, -0.25f, -1.0f / 6, -(smallest), 0, 0, (smallest), 1.0f / 6, 0.25f, 1.0f / 3, \
            0.5f, 2.0f / 3, 1                                                                                         \
    }
static const float fp4_values[][VALUES] = {FP4(1.0f / 12), FP4(1.0f / 192)};

static int compare_doubles(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* 2^i midpoints of [0.1, 1] cut into equal parts, times 10^(i - 6), for i = 0 … 6, and their negatives; 0 and 1. */
static void dynamic_map(double map[MAP_SIZE])
{
    static const double powers[] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1};
    int count = 0;
    for (int i = 0; i < 7; i++)
        for (int j = 0; j < 1 << i; j++) {
            const double fraction = 0.1 + 0.9 * (j + 0.5) / (1 << i);
            map[count++] = powers[i] * fraction;
            map[count++] = -powers[i] * fraction;
        }
    map[count++] = 0;
    map[count++] = 1;
    qsort(map, MAP_SIZE, sizeof *map, compare_doubles);
}

static void quantize_maxima(struct quantized_layer *layer)
{
    double map[MAP_SIZE], mean = 0;
    dynamic_map(map);
    for (int64_t i = 0; i < layer->groups; i++) mean += (double)layer->scales[i];
    mean /= (double)layer->groups;
    for (int64_t first = 0; first < layer->groups; first += MAXIMA_BLOCK) {
        const int64_t last = first + MAXIMA_BLOCK < layer->groups ? first + MAXIMA_BLOCK : layer->groups;
        double most = 0;
        for (int64_t i = first; i < last; i++) most = fmax(most, fabs((double)layer->scales[i] - mean));
        for (int64_t i = first; i < last; i++) {
            const double off = (double)layer->scales[i] - mean;
            layer->scales[i] =
                (float)(map[coding_nearest(map, MAP_SIZE, TIES_LOWER, most > 0 ? off / most : 0)] * most + mean);
        }
    }
    /* one code per block, one maximum for each 256 of them, the mean */
    layer->scale_bits = 8;
    layer->extra_bits = 32 * ((layer->groups + MAXIMA_BLOCK - 1) / MAXIMA_BLOCK) + 32;
}

struct codebook {
    const float *values;
    const struct codebook_params *params;
};

static enum status codebook_encode(void *owner, struct backend *backend, const struct quantize_linear *linear,
                                   struct quantized_layer *layer, struct coded *coded, struct error *error)
{
    const struct codebook *book = owner;
    const struct coding coding = {.bits = 4,
                                  .values = book->values,
                                  .count = VALUES,
                                  .rule = SCALE_ABSMAX,
                                  .type = SCALE_TYPE_F32,
                                  .layout = LAYOUT_RUNS,
                                  .group_size = book->params->block_size};
    enum status status = quantize_each_coding(backend, linear, coding, layer, coded, error);
    if (status != STATUS_OK) return status;
    if (!book->params->double_quant) return STATUS_OK;
    if ((status = coded_pull_scales(coded, error)) != STATUS_OK) return status;
    quantize_maxima(layer);
    coded_push(coded);
    return STATUS_OK;
}

static enum status nf4_quantize(struct backend *backend, const struct quantize_method *method,
                                const struct quantize_task *task, struct quantized_layer *out, struct error *error)
{
    struct codebook book = {nf4_values, &method->nf4};
    return quantize_each(backend, task, &book, codebook_encode, out, error);
}

static enum status fp4_quantize(struct backend *backend, const struct quantize_method *method,
                                const struct quantize_task *task, struct quantized_layer *out, struct error *error)
{
    struct codebook book = {fp4_values[method->fp4.values], &method->fp4};
    return quantize_each(backend, task, &book, codebook_encode, out, error);
}

const struct quantizer quantizer_nf4 = {
    .name = "nf4", .params = nf4_params, .bits = 4, .complete = quantize_each_complete, .quantize = nf4_quantize};
const struct quantizer quantizer_fp4 = {
    .name = "fp4", .params = fp4_params, .bits = 4, .complete = quantize_each_complete, .quantize = fp4_quantize};
