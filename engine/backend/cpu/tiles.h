/* tiles.h: products of single-precision matrices on the tile units of some x86-64 processors (AMX-BF16), which multiply
 * numbers of 8 significant bits and add up in single precision. A float is exactly the sum of three such numbers, high
 * + middle + low, each the truncation of the rest. Of the nine products of two triples the three smallest, under 2^-23
 * of the whole, are left out. The five corrections are added up first and the product of the high parts last, so that
 * the sum is rounded as often as an ordinary one. The error is under that of an ordinary single-precision product (root
 * mean square at depth 4096, in units of u sum |a||b|: 0.04 to 0.13 for numbers of both signs, 1.1 to 1.8 for positive
 * ones, of which 0.6 is the truncation's bias). Six products, each at a sixteenth of the cost, still give 5 times the
 * rate of the vector units (Henry, Tang and Heinecke, ARITH 2019). Numbers under 2^-110 lose bits, because the units
 * treat subnormal numbers as zero. An infinite operand gives NaN, never something finite.
 *
 * Operands are packed: a strip holds 32 rows of the left operand, or 32 columns of the right one, over a stretch of the
 * depth. */
#ifndef BACKEND_CPU_TILES_H
#define BACKEND_CPU_TILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TILES_STRIP = 32, TILES_DEPTH = 32, TILES_CHUNK_BYTES = 3 * 2 * 1024 /* planes, halves of 16 lines, a tile */ };
enum tiles_side { TILES_LEFT, TILES_RIGHT };

/* Whether the processor has the units and the kernel lets this process use them (this asks it to; Linux 5.16). */
bool tiles_available(void);

static inline size_t tiles_strip_bytes(int64_t depth)
{
    return (size_t)((depth + TILES_DEPTH - 1) / TILES_DEPTH) * TILES_CHUNK_BYTES;
}

/* Packs `lines` (rows of the left operand or columns of the right, at most TILES_STRIP; the rest is zero) of `depth`
 * numbers each. `along`: a line's numbers are contiguous and lines are `stride` apart; otherwise the other way round.
 * `strip` is aligned to 64. */
void tiles_pack(enum tiles_side side, void *strip, const float *from, int64_t stride, bool along, int64_t lines,
                int64_t depth);

/* Called on a thread before and after its calls of tiles_multiply. */
void tiles_begin(void);
void tiles_end(void);

/* sums [32, 32], aligned to 64: the product of a left and a right strip of the same depth. */
void tiles_multiply(const void *left, const void *right, int64_t depth, float *sums);

/* Prefetches rows of c before the product that writes them. */
void tiles_fetch(const float *c, int64_t stride, int64_t rows);
/* c [rows, columns] = alpha sums + beta c; c is not read when beta is 0. Only the first `reach` + i columns of row i
 * are written. */
void tiles_put(const float *sums, float *c, int64_t stride, int64_t rows, int64_t columns, int64_t reach, float alpha,
               float beta);

#endif
