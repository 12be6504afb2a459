#include "quant/packing.h"

int64_t packing_words(int64_t count, int bits)
{
    return (count * bits + 31) / 32;
}

void packing_pack(const uint8_t *codes, int64_t stride, int64_t count, int bits, uint32_t *words, int64_t word_stride)
{
    uint64_t held = 0;
    int filled = 0;
    int64_t word = 0;
    for (int64_t i = 0; i < count; i++) {
        held |= (uint64_t)codes[i * stride] << filled;
        filled += bits;
        if (filled < 32) continue;
        words[word++ * word_stride] = (uint32_t)held;
        held >>= 32;
        filled -= 32;
    }
    if (filled > 0) words[word * word_stride] = (uint32_t)held;
}
