/* sampler.h: the draws of CPython's random.Random, bit for bit: lm-evaluation-harness picks its examples with them. The
 * generator is MT19937 (Matsumoto and Nishimura, ACM TOMACS 8, 1998) seeded by its init_by_array. */
#ifndef TASKS_SAMPLER_H
#define TASKS_SAMPLER_H

#include <stdint.h>

enum { SAMPLER_WORDS = 624, SAMPLER_DRAWS_MAX = 64 };

struct sampler {
    uint32_t state[SAMPLER_WORDS];
    int at;
};

void sampler_seed(struct sampler *sampler, uint64_t seed); /* random.Random(seed) */
uint32_t sampler_word(struct sampler *sampler);            /* getrandbits(32) */

/* sample(range(population), count): `count` different indices, in the order drawn. count <= population, <=
 * SAMPLER_DRAWS_MAX. */
void sampler_draw(struct sampler *sampler, uint32_t population, int count, uint32_t *out);

#endif
