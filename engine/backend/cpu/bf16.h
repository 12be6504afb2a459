/* bf16.h: products whose factors are rounded to bfloat16 (to nearest, ties to even) and whose sums are single
 * precision, by the instructions of some x86-64 processors: AVX512-BF16, or AMX. On other processors the kernel
 * multiply_rounded computes the same product of rounded floats.
 *
 * Products of two factors are exact. The three ways differ in the order of a sum, and the instructions treat subnormal
 * numbers (under 2^-126) as zero. A factor beyond the largest bfloat16 number, 3.3895e38, becomes infinite.
 *
 * Factors are packed: a strip holds 32 rows of the left factor, or 32 columns of the right one, over a stretch of the
 * depth, in chunks of 32 of the depth. A chunk is two halves of 16 lines by 16 pairs of numbers adjacent along the
 * depth. Pairs of the left factor are stored line by line, those of the right factor pair by pair. */
#ifndef BACKEND_CPU_BF16_H
#define BACKEND_CPU_BF16_H

#include "backend/backend.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BF16_STRIP = 32, BF16_CHUNK_DEPTH = 32, BF16_CHUNK_BYTES = BF16_STRIP * BF16_CHUNK_DEPTH * 2 };
enum bf16_side { BF16_LEFT, BF16_RIGHT };

/* The output: c = alpha sums + beta c. c is not read when beta is 0. */
struct bf16_block {
    float *c;
    int64_t stride, rows, columns; /* at most BF16_STRIP rows and columns */
    float alpha, beta;
};

struct bf16_unit {
    const char *name;
    bool (*available)(void);
    /* Called on a thread before and after its calls of `multiply`. */
    void (*begin)(void);
    void (*end)(void);
    /* Multiplies a left and a right strip of the same depth, aligned to 64. */
    void (*multiply)(const void *left, const void *right, int64_t depth, const struct bf16_block *to);
};

static inline size_t bf16_strip_bytes(int64_t depth)
{
    return (size_t)((depth + BF16_CHUNK_DEPTH - 1) / BF16_CHUNK_DEPTH) * BF16_CHUNK_BYTES;
}

/* bf16.c: like backend.h's gemm, on one thread, with scratch on its stack. */
void bf16_multiply(const struct bf16_unit *unit, const struct gemm_args *args);

/* bf16_units.c: the units, the fastest first; ends with NULL. Empty on other processors. */
extern const struct bf16_unit *const bf16_units[];

/* Packs `lines` (rows of the left factor or columns of the right, at most BF16_STRIP; the rest is zero) of `depth`
 * numbers each. `along`: a line's numbers are contiguous and lines are `stride` apart; otherwise the other way round.
 * `strip` is aligned to 64. Needs an available unit. */
void bf16_pack(enum bf16_side side, void *strip, const float *from, int64_t stride, bool along, int64_t lines,
               int64_t depth);

#endif
