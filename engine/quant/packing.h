/* packing.h: codes of a few bits in words of 32, the lowest bits first, one after another without gaps: a code may
 * begin in one word and end in the next, except with 2, 4 or 8 bits. */
#ifndef QUANT_PACKING_H
#define QUANT_PACKING_H

#include <stdint.h>

/* Words that `count` codes take. */
int64_t packing_words(int64_t count, int bits);

/* Packs codes[0], codes[stride] … [count], each below 2^bits, into words[0], words[word_stride] … The rest of the last
 * word is zero. */
void packing_pack(const uint8_t *codes, int64_t stride, int64_t count, int bits, uint32_t *words, int64_t word_stride);

#endif
