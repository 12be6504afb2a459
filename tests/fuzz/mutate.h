/* mutate.h: inputs that are nearly those of a corpus, the same for the same seed. No coverage is looked at, as
 * libFuzzer does: it is the short run that every `make check` can afford. */
#ifndef MUTATE_H
#define MUTATE_H

#include "base/random.h"

#include <stdint.h>
#include <string.h>

enum { MUTATE_BYTES = 4096, MUTATE_MOST = 6 };

struct mutate_input {
    size_t size;
    uint8_t bytes[MUTATE_BYTES];
};

/* Where the next random number is. */
struct mutate_dice {
    uint64_t seed, stream, index;
};

static inline size_t mutate_below(struct mutate_dice *dice, size_t bound)
{
    return (size_t)random_below(dice->seed, dice->stream, dice->index++, bound);
}

/* Puts `size` bytes in place of `gone` at `at`, as far as there is room; `bytes` may be the input's own. */
static inline void mutate_splice(struct mutate_input *input, size_t at, size_t gone, const uint8_t *bytes, size_t size)
{
    uint8_t copy[MUTATE_BYTES];
    if (size > MUTATE_BYTES || input->size - gone + size > MUTATE_BYTES) return;
    if (size > 0) memcpy(copy, bytes, size);
    memmove(input->bytes + at + size, input->bytes + at + gone, input->size - at - gone);
    if (size > 0) memcpy(input->bytes + at, copy, size);
    input->size = input->size - gone + size;
}

/* A number that lengths, offsets and counts go wrong at, little endian, of one to eight bytes. */
static inline void mutate_number(struct mutate_input *input, struct mutate_dice *dice)
{
    static const uint64_t numbers[] = {
        0,          1,          2,          7,          31,         32,         64,
        127,        128,        255,        256,        1 << 15,    65535,      65536,
        1 << 24,    1 << 30,    0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff, 1ull << 32,
        1ull << 47, 1ull << 61, 1ull << 62, 1ull << 63, INT64_MAX,  UINT64_MAX, UINT64_MAX - 7};
    const size_t width = (size_t)1 << mutate_below(dice, 4);
    uint64_t number = numbers[mutate_below(dice, sizeof numbers / sizeof numbers[0])];
    uint8_t bytes[8];
    if (mutate_below(dice, 4) == 0) number = input->size - mutate_below(dice, input->size + 1); /* near what is left */
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(number >> 8 * i);
    if (input->size < width) return;
    memcpy(input->bytes + mutate_below(dice, input->size - width + 1), bytes, width);
}

/* One change. `other`: another input, parts of which may be taken over. */
static inline void mutate_once(struct mutate_input *input, const struct mutate_input *other, struct mutate_dice *dice)
{
    const size_t at = mutate_below(dice, input->size + 1), left = input->size - at;
    const size_t some = left > 0 ? 1 + mutate_below(dice, left < 32 ? left : 32) : 0;
    const size_t from = mutate_below(dice, other->size + 1), there = other->size - from;
    const size_t part = there > 0 ? 1 + mutate_below(dice, there < 64 ? there : 64) : 0;
    switch (mutate_below(dice, 9)) {
    case 0: /* a bit */
        if (left > 0) input->bytes[at] ^= (uint8_t)(1u << mutate_below(dice, 8));
        break;
    case 1: /* a byte */
        if (left > 0) input->bytes[at] = (uint8_t)mutate_below(dice, 256);
        break;
    case 2: /* a small step */
        if (left > 0) input->bytes[at] = (uint8_t)(input->bytes[at] + mutate_below(dice, 17) - 8);
        break;
    case 3:
        mutate_number(input, dice);
        break;
    case 4: /* bytes gone */
        mutate_splice(input, at, some, NULL, 0);
        break;
    case 5: /* bytes said twice */
        mutate_splice(input, at, 0, input->bytes + at, some);
        break;
    case 6: /* a part of the other put in, or put over */
        mutate_splice(input, at, mutate_below(dice, 2) == 0 ? 0 : part < left ? part : left, other->bytes + from, part);
        break;
    case 7: /* the rest as the other has it */
        mutate_splice(input, at, left, other->bytes + from, there);
        break;
    default: /* cut short */
        if (mutate_below(dice, 4) == 0) input->size = at;
        break;
    }
}

#endif
