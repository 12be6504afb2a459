#include "tensor/blocks.h"

#include "tensor/dtype.h"

#include <assert.h>

enum { SMALL = 32, LARGE = 256 }; /* elements of a block */

struct q8_0 {
    uint16_t scale; /* scales and minima are halves */
    int8_t codes[SMALL];
};

/* Two codes per byte: the low halves of the bytes are the block's first elements, the high halves its last. */
struct q4_0 {
    uint16_t scale;
    uint8_t codes[SMALL / 2];
};

struct q4_1 {
    uint16_t scale, minimum;
    uint8_t codes[SMALL / 2];
};

/* Eight groups of 32, each with a scale and a minimum of 6 bits. */
struct q4_k {
    uint16_t scale, minimum;
    uint8_t scales[12];
    uint8_t codes[LARGE / 2];
};

/* Sixteen groups of 16, each with a scale of 8 bits; codes of 6 bits in two parts. */
struct q6_k {
    uint8_t low[LARGE / 2], high[LARGE / 4];
    int8_t scales[LARGE / 16];
    uint16_t scale;
};

static_assert(sizeof(struct q8_0) == 34 && sizeof(struct q4_0) == 18 && sizeof(struct q4_1) == 20,
              "as they lie in files");
static_assert(sizeof(struct q4_k) == 144 && sizeof(struct q6_k) == 210, "as they lie in files");

static float half(uint16_t bits)
{
    float value;
    dtype_info(DTYPE_F16)->to_f32(&bits, &value, 1);
    return value;
}

void blocks_q8_0_to_f32(const void *from, float *to, int64_t count)
{
    for (const struct q8_0 *block = from; count > 0; block++, to += SMALL, count -= SMALL) {
        const float scale = half(block->scale);
        for (int i = 0; i < SMALL; i++) to[i] = (float)block->codes[i] * scale;
    }
}

void blocks_q4_0_to_f32(const void *from, float *to, int64_t count)
{
    for (const struct q4_0 *block = from; count > 0; block++, to += SMALL, count -= SMALL) {
        const float scale = half(block->scale);
        for (int i = 0; i < SMALL / 2; i++) {
            to[i] = (float)((block->codes[i] & 15) - 8) * scale;
            to[i + SMALL / 2] = (float)((block->codes[i] >> 4) - 8) * scale;
        }
    }
}

void blocks_q4_1_to_f32(const void *from, float *to, int64_t count)
{
    for (const struct q4_1 *block = from; count > 0; block++, to += SMALL, count -= SMALL) {
        const float scale = half(block->scale), minimum = half(block->minimum);
        for (int i = 0; i < SMALL / 2; i++) {
            to[i] = (float)(block->codes[i] & 15) * scale + minimum;
            to[i + SMALL / 2] = (float)(block->codes[i] >> 4) * scale + minimum;
        }
    }
}

void blocks_q4_k_to_f32(const void *from, float *to, int64_t count)
{
    for (const struct q4_k *block = from; count > 0; block++, count -= LARGE) {
        const uint8_t *packed = block->scales;
        const float scale = half(block->scale), minimum = half(block->minimum);
        for (int group = 0; group < LARGE / SMALL; group++, to += SMALL) {
            /* The first four groups have their six bits in one byte; the later groups have their high two bits in the
             * spare bits of the first four. */
            const int low = group < 4 ? packed[group] & 63 : (packed[group + 4] & 15) | (packed[group - 4] >> 6) << 4;
            const int shift = group < 4 ? packed[group + 4] & 63 : packed[group + 4] >> 4 | (packed[group] >> 6) << 4;
            const float step = scale * (float)low, offset = minimum * (float)shift;
            const uint8_t *codes = block->codes + group / 2 * SMALL;
            for (int i = 0; i < SMALL; i++) to[i] = step * (float)(group % 2 ? codes[i] >> 4 : codes[i] & 15) - offset;
        }
    }
}

void blocks_q6_k_to_f32(const void *from, float *to, int64_t count)
{
    for (const struct q6_k *block = from; count > 0; block++, to += LARGE, count -= LARGE) {
        const float scale = half(block->scale);
        for (int i = 0; i < LARGE; i++) {
            /* A block is two halves of 128, each of four rows of 32. Rows 0 and 1 take the low halves of their bytes,
             * rows 2 and 3 the high halves; all four share the bytes of the high bits, two bits each. */
            const int part = i / 128, row = i % 128 / 32, column = i % 32;
            const int low = block->low[part * 64 + row % 2 * 32 + column] >> (row / 2 * 4) & 15;
            const int high = block->high[part * 32 + column] >> (row * 2) & 3;
            to[i] = scale * (float)block->scales[i / 16] * (float)((low | high << 4) - 32);
        }
    }
}
