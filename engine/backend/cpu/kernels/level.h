/* level.h: shared by the kernel files: names by level, and functions of one float that vectorise. Branch-free, a
 * handful of fused multiply-adds each. u = 2^-24 is the unit roundoff. */
#ifndef BACKEND_CPU_KERNELS_LEVEL_H
#define BACKEND_CPU_KERNELS_LEVEL_H

#include "backend/cpu/kernels/kernels.h"

#include <string.h>

#define KERNEL_PASTE_(name, level) kernel_##name##_##level
#define KERNEL_PASTE(name, level)  KERNEL_PASTE_(name, level)
#define KERNEL(name)               KERNEL_PASTE(name, KERNEL_LEVEL) /* kernel_rope_v4 */

static inline uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* One vector of the level, for loops whose sums need an efficient end: a `reduction` adds the lanes one by one, in
 * order, which costs more than a short row itself. Unaligned loads and stores. With SVE the vectors of plain loops are
 * as wide as the processor's, but these have the 128 bits of NEON. */
#if defined(__AVX512F__)
enum { LANES = 16 };
#elif defined(__AVX__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif
typedef float lanes __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));

/* Sums the lanes by halves. */
static inline float lanes_sum(lanes v)
{
    float part[LANES];
    memcpy(part, &v, sizeof part);
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++) part[i] += part[i + half];
    return part[0];
}

/* e^x for x <= 88, within 3u relative down to -87 and 0 from -88 on (the true value is under 2^-125 there); NaN stays.
 * x = n ln 2 + r with |r| <= ln 2 / 2; adding 1.5 * 2^23 rounds x / ln 2 to the integer n and leaves n in the low bits,
 * where a shift makes it the exponent: -127, for x = -88, makes the number 0. The polynomial is a minimax fit of (e^r -
 * 1 - r) / r^2 with error 3e-9 in e^r. */
static inline float exp_below(float x)
{
    const float magic = 0x1.8p23f, y = x < -88.0f ? -88.0f : x;
    const float shifted = y * 0x1.715476p0f + magic, n = shifted - magic;
    const float r = (y - n * 0x1.62ep-1f) - n * 0x1.0bfbe8p-15f; /* ln 2 in two parts: n times the first is exact */
    const float tail = 0.49999994f + r * (0.16666521f + r * (0.04166839f + r * (0.008368716f + r * 0.0013814602f)));
    const float power = float_of((bits_of(shifted) << 23) + 0x3f800000u);
    return (1 + (r + r * r * tail)) * power;
}

/* e^88 above 88. */
static inline float exp_of(float x)
{
    return exp_below(x > 88.0f ? 88.0f : x);
}

static inline float sigmoid_of(float x)
{
    return 1 / (1 + exp_of(-x));
}

/* The normal distribution function Φ(x), to 10u max(1, x²) relative, and e^(-x²/2), which its derivative needs. erfc(z)
 * = e^(-z²) erfcx(z); erfcx(z) = t P(t), t = 1 / (1 + 0.35 z), P a minimax fit on z in [0, 9.3] with error 7e-9. */
struct normal {
    float below, bell;
};

static inline struct normal normal_of(float x)
{
    const float size = x < 0 ? -x : x, near = size > 13.0f ? 13.0f : size;
    const float t = 1 / (1 + near * (0.35f * 0.70710678f));
    const float low =
        0.15691939f +
        t * (0.067810595f + t * (-0.005701325f + t * (0.16566665f + t * (-0.1524717f + t * 0.037253983f))));
    const float p = 0.19749033f + t * (0.1970204f + t * (0.18881488f + t * (0.14719678f + t * low)));
    const float bell = exp_below(-0.5f * near * near), half = 0.5f * bell * t * p;
    return (struct normal){x > 0 ? 1 - half : half, bell};
}

#endif
