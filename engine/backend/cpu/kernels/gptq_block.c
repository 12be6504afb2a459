/* gptq_block.c: the column loop of GPTQ (backend/codes.h), written for the receiving column: the running column stays
 * in registers for many rows at once, and each U[i, j] is one broadcast. */
#include "backend/cpu/kernels/all.h"

#include <string.h>

/* Vectors as wide as a register of the instruction set. */
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

static void tile_load(struct tile *tile, const struct gptq_block_args *block, int64_t first, int64_t count)
{
    if (count < GPTQ_ROW_TILE) memset(tile->weights, 0, sizeof tile->weights);
    for (int64_t r = 0; r < count; r++) {
        const float *row = float_row(block->weights, first + r);
        for (int64_t j = 0; j < block->weights.columns; j++) tile->weights[j][r] = row[j];
    }
}

/* weights[j] = W[:, j] - sum_{i<j} E[:, i] U[i, j]. `column` has U[0 … j, j]. Two partial sums, so that an addition
 * need not wait for the previous one. */
static void tile_update(struct tile *tile, const float *column, int64_t j)
{
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

static void tile_quantize(struct tile *tile, const struct gptq_block_args *block, float divisor, int64_t j,
                          int64_t first)
{
    const int64_t at = (block->position + j) / block->coding.group_size * block->grids.stride + first;
    const double *scales = block->grids.scales + at, *zeros = block->grids.zeros + at;
    const double top = coding_top(block->coding);
    const float *weights = tile->weights[j];
    float *errors = tile->errors[j];
    uint8_t *codes = tile->codes[j];
#pragma omp simd
    for (int r = 0; r < GPTQ_ROW_TILE; r++) {
        const double code = coding_step(weights[r], scales[r], zeros[r], top);
        errors[r] = (weights[r] - (float)(code - zeros[r]) * (float)scales[r]) / divisor;
        codes[r] = (uint8_t)(int32_t)code;
    }
}

/* tile_quantize for a table, which has no zero points. */
static void tile_look_up(struct tile *tile, const struct gptq_block_args *block, const double *values, float divisor,
                         int64_t j, int64_t first)
{
    const int64_t group = (block->position + j) / block->coding.group_size;
    const double *scales = block->grids.scales + group * block->grids.stride + first;
    for (int r = 0; r < GPTQ_ROW_TILE; r++) {
        const float weight = tile->weights[j][r], scale = (float)scales[r];
        const int code = coding_look_up(block->coding, values, weight, scales[r]);
        tile->errors[j][r] = (weight - coding_value(block->coding, code, 0) * scale) / divisor;
        tile->codes[j][r] = (uint8_t)code;
    }
}

static void tile_store(const struct tile *tile, const struct gptq_block_args *block, int64_t first, int64_t count)
{
    for (int64_t r = 0; r < count; r++) {
        uint8_t *row = block->codes + (first + r) * block->codes_stride;
        for (int64_t j = 0; j < block->weights.columns; j++) row[block->from[j]] = tile->codes[j][r];
    }
    for (int64_t j = 0; j < block->weights.columns; j++)
        memcpy(float_row(block->errors, j) + first, tile->errors[j], sizeof tile->errors[j]);
}

void KERNEL(gptq_tile)(const struct gptq_block_args *block, const float *upper, int64_t index)
{
    struct tile tile;
    const int64_t first = index * GPTQ_ROW_TILE, left = block->weights.rows - first;
    const int64_t count = left < GPTQ_ROW_TILE ? left : GPTQ_ROW_TILE;
    double values[CODING_VALUES];
    coding_table(block->coding, values);
    tile_load(&tile, block, first, count);
    for (int64_t j = 0; j < block->weights.columns; j++) {
        const float *column = upper + j * GPTQ_BLOCK;
        tile_update(&tile, column, j);
        if (block->coding.values != NULL)
            tile_look_up(&tile, block, values, column[j], j, first);
        else
            tile_quantize(&tile, block, column[j], j, first);
    }
    tile_store(&tile, block, first, count);
}
