#include "base/checksum.h"

#include <string.h>

/* Each lane is multiplied and folded by every eighth-of-a-block it takes; the constants are odd and have about half
 * their bits set. */
#define MULTIPLIER UINT64_C(0x9E3779B97F4A7C15)
#define FINISHER   UINT64_C(0xD6E8FEB86659FD93)

static uint64_t fold(uint64_t x)
{
    x ^= x >> 32;
    x *= FINISHER;
    x ^= x >> 29;
    return x;
}

static void take_block(struct checksum *sum, const uint8_t *block)
{
    uint64_t word[4];
    memcpy(word, block, sizeof word);
    for (int i = 0; i < 4; i++) {
        const uint64_t mixed = (sum->lane[i] ^ word[i]) * MULTIPLIER;
        sum->lane[i] = mixed ^ mixed >> 29;
    }
}

void checksum_init(struct checksum *sum)
{
    *sum = (struct checksum){.lane = {1, 2, 3, 4}};
}

void checksum_add(struct checksum *sum, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    sum->bytes += size;
    if (sum->held > 0) {
        const size_t space = sizeof sum->rest - sum->held, taken = size < space ? size : space;
        memcpy(sum->rest + sum->held, at, taken);
        sum->held += taken;
        at += taken;
        size -= taken;
        if (sum->held < sizeof sum->rest) return;
        take_block(sum, sum->rest);
        sum->held = 0;
    }
    for (; size >= sizeof sum->rest; at += sizeof sum->rest, size -= sizeof sum->rest) take_block(sum, at);
    if (size > 0) memcpy(sum->rest, at, size);
    sum->held = size;
}

uint64_t checksum_value(const struct checksum *sum)
{
    struct checksum last = *sum;
    memset(last.rest + last.held, 0, sizeof last.rest - last.held);
    take_block(&last, last.rest);
    uint64_t value = fold(last.bytes);
    for (int i = 0; i < 4; i++) value = fold(value ^ last.lane[i]) * MULTIPLIER;
    return value;
}
