/* gptq_block.c: the column loop of gptq_block.h, compiled for three levels of x86-64 as the kernels of the cpu backend are. */
#include "quant/gptq_block.h"

#include "quant/grid.h"

#include <string.h>

/* KERNEL_LEVEL is v2, v3 or v4. */
#define JOIN(name, level)    name##_##level
#define NAME_AT(name, level) JOIN(name, level)

/* As many floats as the instruction set holds in one register. */
#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif
typedef float vector __attribute__((vector_size(VECTOR_BYTES), may_alias));
enum { VECTOR = VECTOR_BYTES / sizeof(float), PARTS = GPTQ_ROW_TILE / VECTOR };

struct tile {
    _Alignas(64) float weights[GPTQ_BLOCK][GPTQ_ROW_TILE];
    _Alignas(64) float errors[GPTQ_BLOCK][GPTQ_ROW_TILE];
    uint8_t codes[GPTQ_BLOCK][GPTQ_ROW_TILE];
};

static void tile_load(struct tile *tile, const struct gptq_block *block, int64_t first, int64_t count)
{
    if (count < GPTQ_ROW_TILE) memset(tile->weights, 0, sizeof tile->weights);
    for (int64_t r = 0; r < count; r++) {
        const float *row = block->weights + (first + r) * block->weights_stride;
        for (int64_t j = 0; j < block->width; j++) tile->weights[j][r] = row[j];
    }
}

/* W[:, j] - sum_{i<j} E[:, i] U[i, j], left in weights[j]. Two sums, so that one addition need not wait for the last. */
static void tile_update(struct tile *tile, const struct gptq_block *block, int64_t j)
{
    const float *column = block->upper + j * GPTQ_BLOCK;
    vector even[PARTS], odd[PARTS] = {0};
    memcpy(even, tile->weights[j], sizeof even);
    for (int64_t i = 0; i + 1 < j; i += 2) {
        const vector *error = (const vector *)(const void *)tile->errors[i];
#pragma GCC unroll 8
        for (int p = 0; p < PARTS; p++) {
            even[p] -= error[p] * column[i];
            odd[p] -= error[PARTS + p] * column[i + 1];
        }
    }
    if (j % 2 != 0) {
        const vector *error = (const vector *)(const void *)tile->errors[j - 1];
        for (int p = 0; p < PARTS; p++) even[p] -= error[p] * column[j - 1];
    }
    for (int p = 0; p < PARTS; p++) even[p] += odd[p];
    memcpy(tile->weights[j], even, sizeof even);
}

static void tile_quantize(struct tile *tile, const struct gptq_block *block, int64_t j, int64_t first)
{
    const int64_t run = (block->position + j) / block->group_size;
    const double *scales = block->scales + run * block->padded + first, *zeros = block->zeros + run * block->padded + first;
    const float divisor = block->upper[j * GPTQ_BLOCK + j];
    const double top = block->top;
    const float *weights = tile->weights[j];
    float *errors = tile->errors[j];
    uint8_t *codes = tile->codes[j];
#pragma omp simd
    for (int r = 0; r < GPTQ_ROW_TILE; r++) {
        const double code = grid_code(weights[r], scales[r], zeros[r], top);
        errors[r] = (weights[r] - (float)(code - zeros[r]) * (float)scales[r]) / divisor;
        codes[r] = (uint8_t)(int32_t)code;
    }
}

static void tile_store(const struct tile *tile, const struct gptq_block *block, int64_t first, int64_t count)
{
    for (int64_t r = 0; r < count; r++) {
        uint8_t *row = block->codes + (first + r) * block->codes_stride;
        for (int64_t j = 0; j < block->width; j++) row[block->from[j]] = tile->codes[j][r];
    }
    for (int64_t j = 0; j < block->width; j++)
        memcpy(block->errors + j * block->padded + first, tile->errors[j], sizeof tile->errors[j]);
}

void NAME_AT(gptq_block_solve, KERNEL_LEVEL)(const struct gptq_block *block, int64_t index)
{
    struct tile tile;
    const int64_t first = index * GPTQ_ROW_TILE, left = block->rows - first;
    const int64_t count = left < GPTQ_ROW_TILE ? left : GPTQ_ROW_TILE;
    tile_load(&tile, block, first, count);
    for (int64_t j = 0; j < block->width; j++) {
        tile_update(&tile, block, j);
        tile_quantize(&tile, block, j, first);
    }
    tile_store(&tile, block, first, count);
}
