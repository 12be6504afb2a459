#include "tasks/sampler.h"

#include <assert.h>
#include <stdbool.h>

enum { SHIFT = 397, LIST_MAX = 21 + 256 };

static void seed_plain(struct sampler *sampler, uint32_t seed)
{
    sampler->state[0] = seed;
    for (uint32_t i = 1; i < SAMPLER_WORDS; i++) {
        const uint32_t before = sampler->state[i - 1];
        sampler->state[i] = 1812433253u * (before ^ (before >> 30)) + i;
    }
    sampler->at = SAMPLER_WORDS;
}

void sampler_seed(struct sampler *sampler, uint64_t seed)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t words = key[1] != 0 ? 2 : 1;
    uint32_t *state = sampler->state, i = 1, j = 0;
    seed_plain(sampler, 19650218u);
    for (int k = SAMPLER_WORDS; k > 0; k--) {
        state[i] = (state[i] ^ ((state[i - 1] ^ (state[i - 1] >> 30)) * 1664525u)) + key[j] + j;
        j = (j + 1) % words;
        if (++i == SAMPLER_WORDS) {
            state[0] = state[SAMPLER_WORDS - 1];
            i = 1;
        }
    }
    for (int k = SAMPLER_WORDS - 1; k > 0; k--) {
        state[i] = (state[i] ^ ((state[i - 1] ^ (state[i - 1] >> 30)) * 1566083941u)) - i;
        if (++i == SAMPLER_WORDS) {
            state[0] = state[SAMPLER_WORDS - 1];
            i = 1;
        }
    }
    state[0] = 0x80000000u;
}

static void turn(struct sampler *sampler)
{
    uint32_t *state = sampler->state;
    for (int i = 0; i < SAMPLER_WORDS; i++) {
        const uint32_t y = (state[i] & 0x80000000u) | (state[(i + 1) % SAMPLER_WORDS] & 0x7fffffffu);
        state[i] = state[(i + SHIFT) % SAMPLER_WORDS] ^ (y >> 1) ^ ((y & 1) != 0 ? 0x9908b0dfu : 0);
    }
    sampler->at = 0;
}

uint32_t sampler_word(struct sampler *sampler)
{
    if (sampler->at == SAMPLER_WORDS) turn(sampler);
    uint32_t y = sampler->state[sampler->at++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

/* _randbelow; bound > 0. */
static uint32_t below(struct sampler *sampler, uint32_t bound)
{
    int bits = 0;
    while (bits < 32 && bound >> bits != 0) bits++;
    uint32_t drawn = sampler_word(sampler) >> (32 - bits);
    while (drawn >= bound) drawn = sampler_word(sampler) >> (32 - bits);
    return drawn;
}

static void draw_from_list(struct sampler *sampler, uint32_t population, int count, uint32_t *out)
{
    uint32_t list[LIST_MAX];
    for (uint32_t i = 0; i < population; i++) list[i] = i;
    for (int i = 0; i < count; i++) {
        const uint32_t left = population - (uint32_t)i, j = below(sampler, left);
        out[i] = list[j];
        list[j] = list[left - 1];
    }
}

static bool taken(const uint32_t *drawn, int count, uint32_t j)
{
    for (int i = 0; i < count; i++)
        if (drawn[i] == j) return true;
    return false;
}

void sampler_draw(struct sampler *sampler, uint32_t population, int count, uint32_t *out)
{
    uint32_t list_up_to = 21, power = 4;
    assert(count <= SAMPLER_DRAWS_MAX && (uint32_t)count <= population);
    while (power < 3 * (uint32_t)count) power *= 4; /* 4 to the ceiling of log4(3 count), which is never whole */
    if (count > 5) list_up_to += power;
    if (population <= list_up_to) {
        draw_from_list(sampler, population, count, out);
        return;
    }
    for (int i = 0; i < count; i++) {
        uint32_t j = below(sampler, population);
        while (taken(out, i, j)) j = below(sampler, population);
        out[i] = j;
    }
}
