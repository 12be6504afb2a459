#include "base/random.h"

#include <math.h>

struct block {
    uint32_t word[4];
};

static struct block philox(uint64_t seed, uint64_t stream, uint64_t index)
{
    struct block x = {{(uint32_t)index, (uint32_t)(index >> 32), (uint32_t)stream, (uint32_t)(stream >> 32)}};
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)0xD2511F53u * x.word[0], b = (uint64_t)0xCD9E8D57u * x.word[2];
        const struct block next = {
            {(uint32_t)(b >> 32) ^ x.word[1] ^ key0, (uint32_t)b, (uint32_t)(a >> 32) ^ x.word[3] ^ key1, (uint32_t)a}};
        x = next;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return x;
}

static uint64_t high_bits(struct block x)
{
    return (uint64_t)x.word[1] << 32 | x.word[0];
}

static uint64_t low_bits(struct block x)
{
    return (uint64_t)x.word[3] << 32 | x.word[2];
}

static double unit(uint64_t bits)
{
    return (double)(bits >> 11) * 0x1p-53;
}

uint64_t random_bits(uint64_t seed, uint64_t stream, uint64_t index)
{
    return high_bits(philox(seed, stream, index));
}

double random_uniform(uint64_t seed, uint64_t stream, uint64_t index)
{
    return unit(random_bits(seed, stream, index));
}

double random_normal(uint64_t seed, uint64_t stream, uint64_t index)
{
    const struct block x = philox(seed, stream, index);
    const double u = 1.0 - unit(high_bits(x)); /* in (0, 1]: the logarithm is finite */
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * unit(low_bits(x)));
}

uint64_t random_below(uint64_t seed, uint64_t stream, uint64_t index, uint64_t bound)
{
    return (uint64_t)(((unsigned __int128)random_bits(seed, stream, index) * bound) >> 64);
}
