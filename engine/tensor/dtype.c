#include "tensor/dtype.h"

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

static void bf16_to_f32(const void *from, float *to, int64_t count)
{
    const uint16_t *in = from;
    for (int64_t i = 0; i < count; i++) to[i] = float_of_bits((uint32_t)in[i] << 16);
}

static void bf16_from_f32(const float *from, void *to, int64_t count)
{
    uint16_t *out = to;
    for (int64_t i = 0; i < count; i++) {
        const uint32_t bits = bits_of_float(from[i]);
        const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
        const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
        out[i] = (uint16_t)(nan ? (bits >> 16 | 0x40u) : rounded);
    }
}

/* Subnormal halves are multiples of 2^-24: exact in float32, so one multiplication normalises them. */
static float half_to_float(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000u) << 16, magnitude = half & 0x7fffu;
    if (magnitude >= 0x7c00u) return float_of_bits(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
    if (magnitude < 0x400u) {
        const float value = (float)magnitude * 0x1p-24f;
        return sign ? -value : value;
    }
    return float_of_bits(sign | ((magnitude << 13) + 0x38000000u));
}

static uint16_t half_from_float(float value)
{
    const uint32_t bits = bits_of_float(value), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
    if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and above round to infinity */
    if (magnitude < 0x38800000u) { /* below 2^-14: add 0.5, whose ulp is 2^-24, and let the addition round */
        const uint32_t sum = bits_of_float(float_of_bits(magnitude) + 0.5f);
        return (uint16_t)(sign | (sum - 0x3f000000u));
    }
    const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
    return (uint16_t)(sign | ((rounded - 0x38000000u) >> 13));
}

static void f16_to_f32(const void *from, float *to, int64_t count)
{
    const uint16_t *in = from;
    for (int64_t i = 0; i < count; i++) to[i] = half_to_float(in[i]);
}

static void f16_from_f32(const float *from, void *to, int64_t count)
{
    uint16_t *out = to;
    for (int64_t i = 0; i < count; i++) out[i] = half_from_float(from[i]);
}

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
    [DTYPE_F32] = {"F32", 32, f32_copy_to, f32_copy_from},
    [DTYPE_F16] = {"F16", 16, f16_to_f32, f16_from_f32},
    [DTYPE_BF16] = {"BF16", 16, bf16_to_f32, bf16_from_f32},
    [DTYPE_F64] = {"F64", 64, f64_to_f32, f64_from_f32},
    [DTYPE_I64] = {"I64", 64, NULL, NULL},
    [DTYPE_I32] = {"I32", 32, NULL, NULL},
    [DTYPE_I16] = {"I16", 16, NULL, NULL},
    [DTYPE_I8] = {"I8", 8, NULL, NULL},
    [DTYPE_U8] = {"U8", 8, NULL, NULL},
    [DTYPE_BOOL] = {"BOOL", 8, NULL, NULL},
    [DTYPE_U16] = {"U16", 16, NULL, NULL},
    [DTYPE_U32] = {"U32", 32, NULL, NULL},
    [DTYPE_U64] = {"U64", 64, NULL, NULL},
    [DTYPE_F8_E4M3] = {"F8_E4M3", 8, NULL, NULL},
    [DTYPE_F8_E5M2] = {"F8_E5M2", 8, NULL, NULL},
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
