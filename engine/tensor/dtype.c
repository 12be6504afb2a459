#include "tensor/dtype.h"

#include "tensor/blocks.h"

#include <assert.h>
#include <string.h>

static float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static void f32_copy_to(const void *from, float *to, int64_t count)
{
    memcpy(to, from, (size_t)count * sizeof *to);
}

static void f32_copy_from(const float *from, void *to, int64_t count)
{
    memcpy(to, from, (size_t)count * sizeof *from);
}

/* The loops below have no branches, so that they vectorise: the disk then limits the reading of a checkpoint. The more
 * expensive ones are also compiled for AVX2, with bit-for-bit identical results. */
#define LOOP static inline __attribute__((always_inline)) void
#if defined(__x86_64__)
#define WITH_AVX2(name, from_type, to_type)                                                            \
    __attribute__((target("avx2"))) static void name##_avx2(from_type from, to_type to, int64_t count) \
    {                                                                                                  \
        name##_loop(from, to, count);                                                                  \
    }                                                                                                  \
    static void name(from_type from, to_type to, int64_t count)                                        \
    {                                                                                                  \
        if (__builtin_cpu_supports("avx2"))                                                            \
            name##_avx2(from, to, count);                                                              \
        else                                                                                           \
            name##_loop(from, to, count);                                                              \
    }
#else
#define WITH_AVX2(name, from_type, to_type)                     \
    static void name(from_type from, to_type to, int64_t count) \
    {                                                           \
        name##_loop(from, to, count);                           \
    }
#endif

static void bf16_to_f32(const void *from, float *to, int64_t count)
{
    const uint16_t *in = from;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) to[i] = float_of_bits((uint32_t)in[i] << 16);
}

LOOP bf16_from_f32_loop(const float *from, void *to, int64_t count)
{
    uint16_t *out = to;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        const uint32_t bits = bits_of_float(from[i]);
        const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
        const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
        out[i] = (uint16_t)(nan ? (bits >> 16 | 0x40u) : rounded);
    }
}
WITH_AVX2(bf16_from_f32, const float *, void *)

static inline uint32_t choose(bool condition, uint32_t yes, uint32_t no)
{
    const uint32_t mask = 0u - (uint32_t)condition;
    return (yes & mask) | (no & ~mask);
}

static inline float half_to_float(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000u) << 16, magnitude = half & 0x7fffu;
    const uint32_t normal = (magnitude << 13) + 0x38000000u, special = 0x7f800000u | (magnitude & 0x3ffu) << 13;
    /* A subnormal half has the spacing of the floats from 0.5 on, 2^-24: put its bits there and subtract 0.5. */
    const uint32_t subnormal = bits_of_float(float_of_bits(magnitude | 0x3f000000u) - 0.5f);
    return float_of_bits(sign | choose(magnitude >= 0x7c00u, special, choose(magnitude < 0x400u, subnormal, normal)));
}

static inline uint16_t half_from_float(float value)
{
    const uint32_t bits = bits_of_float(value), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    const uint32_t nan = 0x7e00u | (magnitude >> 13 & 0x3ffu);
    /* Below 2^-14: add 0.5, whose ulp is 2^-24, and let the addition round. */
    const uint32_t small =
        bits_of_float(float_of_bits(choose(magnitude < 0x38800000u, magnitude, 0)) + 0.5f) - 0x3f000000u;
    const uint32_t normal = (magnitude + 0xfffu + (magnitude >> 13 & 1u) - 0x38000000u) >> 13;
    const uint32_t finite = choose(magnitude < 0x38800000u, small, normal);
    /* 65520 and above round to infinity. */
    return (uint16_t)(sign | choose(magnitude > 0x7f800000u, nan, choose(magnitude >= 0x477ff000u, 0x7c00u, finite)));
}

LOOP f16_to_f32_loop(const void *from, float *to, int64_t count)
{
    const uint16_t *in = from;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) to[i] = half_to_float(in[i]);
}
WITH_AVX2(f16_to_f32, const void *, float *)

LOOP f16_from_f32_loop(const float *from, void *to, int64_t count)
{
    uint16_t *out = to;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) out[i] = half_from_float(from[i]);
}
WITH_AVX2(f16_from_f32, const float *, void *)

static void f64_to_f32(const void *from, float *to, int64_t count)
{
    const double *in = from;
    for (int64_t i = 0; i < count; i++) to[i] = (float)in[i];
}

static void f64_from_f32(const float *from, void *to, int64_t count)
{
    double *out = to;
    for (int64_t i = 0; i < count; i++) out[i] = (double)from[i];
}

static const struct dtype_info infos[] = {
    [DTYPE_F32] = {"F32", 32, 1, f32_copy_to, f32_copy_from},
    [DTYPE_F16] = {"F16", 16, 1, f16_to_f32, f16_from_f32},
    [DTYPE_BF16] = {"BF16", 16, 1, bf16_to_f32, bf16_from_f32},
    [DTYPE_F64] = {"F64", 64, 1, f64_to_f32, f64_from_f32},
    [DTYPE_I64] = {"I64", 64, 1, NULL, NULL},
    [DTYPE_I32] = {"I32", 32, 1, NULL, NULL},
    [DTYPE_I16] = {"I16", 16, 1, NULL, NULL},
    [DTYPE_I8] = {"I8", 8, 1, NULL, NULL},
    [DTYPE_U8] = {"U8", 8, 1, NULL, NULL},
    [DTYPE_BOOL] = {"BOOL", 8, 1, NULL, NULL},
    [DTYPE_U16] = {"U16", 16, 1, NULL, NULL},
    [DTYPE_U32] = {"U32", 32, 1, NULL, NULL},
    [DTYPE_U64] = {"U64", 64, 1, NULL, NULL},
    [DTYPE_F8_E4M3] = {"F8_E4M3", 8, 1, NULL, NULL},
    [DTYPE_F8_E5M2] = {"F8_E5M2", 8, 1, NULL, NULL},
    [DTYPE_Q8_0] = {"Q8_0", 8 * 34, 32, blocks_q8_0_to_f32, NULL},
    [DTYPE_Q4_0] = {"Q4_0", 8 * 18, 32, blocks_q4_0_to_f32, NULL},
    [DTYPE_Q4_1] = {"Q4_1", 8 * 20, 32, blocks_q4_1_to_f32, NULL},
    [DTYPE_Q4_K] = {"Q4_K", 8 * 144, 256, blocks_q4_k_to_f32, NULL},
    [DTYPE_Q6_K] = {"Q6_K", 8 * 210, 256, blocks_q6_k_to_f32, NULL},
};
static_assert(sizeof infos / sizeof infos[0] == DTYPE_COUNT, "a row for every dtype");

const struct dtype_info *dtype_info(enum dtype dtype)
{
    assert(dtype >= 0 && dtype < DTYPE_COUNT);
    return &infos[dtype];
}

bool dtype_find(const char *name, enum dtype *out)
{
    for (int i = 0; i < DTYPE_COUNT; i++) {
        if (strcmp(infos[i].name, name) != 0) continue;
        *out = (enum dtype)i;
        return true;
    }
    return false;
}
