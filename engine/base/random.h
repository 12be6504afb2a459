/* random.h: counter-based random numbers: Philox4x32-10 (Salmon et al., SC 2011, "Parallel random numbers: as easy as
 * 1, 2, 3"). The i-th number of a (seed, stream) is a pure function of the three, so any part can be drawn in any
 * order. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stdint.h>

/* 64 random bits at position `index` of (seed, stream). */
uint64_t random_bits(uint64_t seed, uint64_t stream, uint64_t index);
/* Uniform in [0, 1), 53 bits. */
double random_uniform(uint64_t seed, uint64_t stream, uint64_t index);
/* Standard normal (Box-Muller on the 128 bits at `index`). */
double random_normal(uint64_t seed, uint64_t stream, uint64_t index);
/* Uniform in [0, bound) without modulo bias beyond 2^-64; bound > 0. */
uint64_t random_below(uint64_t seed, uint64_t stream, uint64_t index, uint64_t bound);

#endif
