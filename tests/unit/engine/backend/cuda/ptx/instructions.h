/* instructions.h: what PTX's instructions do, as "Parallel Thread Execution ISA" has it, under their own names with _
 * for the dots; translate.py makes calls of them. What the hardware only approximates (ex2.approx, rcp.approx) is exact
 * here to its last bit. */
#ifndef TESTS_CUDA_PTX_INSTRUCTIONS_H
#define TESTS_CUDA_PTX_INSTRUCTIONS_H

#include "engine/backend/cuda/ptx/simulated.h"

#include <math.h>
#include <string.h>

#define OPERATION static inline __attribute__((unused))

/* The bits of one register in another: f 32 and fd 64 bits of float, r and rd the same of integers. */
#define BITS_OF(f, real, r, bits)        \
    OPERATION real f##_of_##r(bits from) \
    {                                    \
        real to;                         \
        memcpy(&to, &from, sizeof to);   \
        return to;                       \
    }                                    \
    OPERATION bits r##_of_##f(real from) \
    {                                    \
        bits to;                         \
        memcpy(&to, &from, sizeof to);   \
        return to;                       \
    }
BITS_OF(f, float, r, uint32_t)
BITS_OF(fd, double, rd, uint64_t)

OPERATION uint64_t halves_rd(uint32_t low, uint32_t high)
{
    return (uint64_t)high << 32 | low;
}

OPERATION double halves_fd(uint32_t low, uint32_t high)
{
    return fd_of_rd(halves_rd(low, high));
}

OPERATION uint32_t low_rd(uint64_t a)
{
    return (uint32_t)a;
}

OPERATION uint32_t high_rd(uint64_t a)
{
    return (uint32_t)(a >> 32);
}

OPERATION uint32_t low_fd(double a)
{
    return low_rd(rd_of_fd(a));
}

OPERATION uint32_t high_fd(double a)
{
    return high_rd(rd_of_fd(a));
}

#define UNARY(name, to, from, expression) \
    OPERATION to name(from a)             \
    {                                     \
        return (to)(expression);          \
    }
#define BINARY(name, to, from, expression) \
    OPERATION to name(from a, from b)      \
    {                                      \
        return (to)(expression);           \
    }
#define TERNARY(name, to, from, expression)   \
    OPERATION to name(from a, from b, from c) \
    {                                         \
        return (to)(expression);              \
    }

/* Integers: division by zero gives all ones and traps nowhere; shifts beyond the width give what is left. */
#define COMPARISONS(type, T)                \
    BINARY(setp_eq_##type, bool, T, a == b) \
    BINARY(setp_lt_##type, bool, T, a < b)  \
    BINARY(setp_le_##type, bool, T, a <= b) \
    BINARY(setp_gt_##type, bool, T, a > b)  \
    BINARY(setp_ge_##type, bool, T, a >= b)
#define INTEGERS(type, T, U)                \
    COMPARISONS(type, T)                    \
    BINARY(setp_ne_##type, bool, U, a != b) \
    BINARY(add_##type, U, U, a + b)         \
    BINARY(sub_##type, U, U, a - b)         \
    BINARY(mul_lo_##type, U, U, a *b)       \
    TERNARY(mad_lo_##type, U, U, a *b + c)  \
    BINARY(min_##type, U, T, a < b ? a : b) \
    BINARY(max_##type, U, T, a > b ? a : b) \
    UNARY(neg_##type, U, U, 0 - a)
#define SIGNED(type, T, U)                                                          \
    INTEGERS(type, T, U)                                                            \
    BINARY(div_##type, U, T, b == 0 ? (U)-1 : b == -1 ? (U)(0 - (U)a) : (U)(a / b)) \
    BINARY(rem_##type, U, T, b == 0 ? a : b == -1 ? 0 : a % b)
#define UNSIGNED(type, U)                            \
    INTEGERS(type, U, U)                             \
    BINARY(div_##type, U, U, b == 0 ? (U)-1 : a / b) \
    BINARY(rem_##type, U, U, b == 0 ? a : a % b)
SIGNED(s16, int16_t, uint16_t)
SIGNED(s32, int32_t, uint32_t)
SIGNED(s64, int64_t, uint64_t)
UNSIGNED(u16, uint16_t)
UNSIGNED(u32, uint32_t)
UNSIGNED(u64, uint64_t)
BINARY(mul_wide_u16, uint32_t, uint16_t, (uint32_t)a *b)
BINARY(mul_wide_s32, uint64_t, int32_t, (int64_t)a *b)
BINARY(mul_wide_u32, uint64_t, uint32_t, (uint64_t)a *b)

#define SELECTION(type, T)                    \
    OPERATION T selp_##type(T a, T b, bool p) \
    {                                         \
        return p ? a : b;                     \
    }
#define BITS(type, T)               \
    SELECTION(type, T)              \
    BINARY(and_##type, T, T, a &b)  \
    BINARY(or_##type, T, T, a | b)  \
    BINARY(xor_##type, T, T, a ^ b) \
    UNARY(not_##type, T, T, ~a)     \
    BINARY(setp_eq_##type, bool, T, a == b)
BITS(b16, uint16_t)
BITS(b32, uint32_t)
BITS(b64, uint64_t)
SELECTION(u16, uint16_t)
SELECTION(u32, uint32_t)
SELECTION(u64, uint64_t)
BINARY(and_pred, bool, bool, a &&b)
BINARY(or_pred, bool, bool, a || b)
BINARY(xor_pred, bool, bool, a != b)
UNARY(not_pred, bool, bool, !a)

/* Each byte of the result is the byte of a (0-3) or b (4-7) that four bits of `which` name, or with the highest of them
 * set its sign eight times. */
OPERATION uint32_t prmt_b32(uint32_t a, uint32_t b, uint32_t which)
{
    const uint64_t bytes = (uint64_t)b << 32 | a;
    uint32_t result = 0;
    for (int i = 0; i < 4; i++) {
        const uint32_t byte = (uint32_t)(bytes >> (which >> 4 * i & 7) * 8) & 0xff;
        result |= ((which >> 4 * i & 8) == 0 ? byte : byte >> 7 ? 0xffu : 0u) << 8 * i;
    }
    return result;
}

#define SHIFTS(width)                                                                 \
    OPERATION uint##width##_t shl_b##width(uint##width##_t a, uint32_t by)            \
    {                                                                                 \
        return by < width ? a << by : 0;                                              \
    }                                                                                 \
    OPERATION uint##width##_t shr_u##width(uint##width##_t a, uint32_t by)            \
    {                                                                                 \
        return by < width ? a >> by : 0;                                              \
    }                                                                                 \
    OPERATION uint##width##_t shr_s##width(uint##width##_t a, uint32_t by)            \
    {                                                                                 \
        return (uint##width##_t)((int##width##_t)a >> (by < width ? by : width - 1)); \
    }
SHIFTS(32)
SHIFTS(64)

/* Floats: comparisons with u hold where either is not a number; minima and maxima prefer numbers; copysign takes the
 * first's sign. */
#define FLOATS(type, T, S)                                   \
    SELECTION(type, T)                                       \
    COMPARISONS(type, T)                                     \
    BINARY(setp_ne_##type, bool, T, a<b || a> b)             \
    BINARY(setp_equ_##type, bool, T, !(a < b || a > b))      \
    BINARY(setp_neu_##type, bool, T, !(a == b))              \
    BINARY(setp_ltu_##type, bool, T, !(a >= b))              \
    BINARY(setp_leu_##type, bool, T, !(a > b))               \
    BINARY(setp_gtu_##type, bool, T, !(a <= b))              \
    BINARY(setp_geu_##type, bool, T, !(a < b))               \
    BINARY(setp_num_##type, bool, T, !isnan(a) && !isnan(b)) \
    BINARY(setp_nan_##type, bool, T, isnan(a) || isnan(b))   \
    BINARY(add_##type, T, T, a + b)                          \
    BINARY(add_rn_##type, T, T, a + b)                       \
    BINARY(sub_##type, T, T, a - b)                          \
    BINARY(sub_rn_##type, T, T, a - b)                       \
    BINARY(mul_##type, T, T, a *b)                           \
    BINARY(mul_rn_##type, T, T, a *b)                        \
    BINARY(div_rn_##type, T, T, a / b)                       \
    BINARY(min_##type, T, T, fmin##S(a, b))                  \
    BINARY(max_##type, T, T, fmax##S(a, b))                  \
    BINARY(copysign_##type, T, T, copysign##S(b, a))         \
    TERNARY(fma_rn_##type, T, T, fma##S(a, b, c))            \
    UNARY(neg_##type, T, T, -a)                              \
    UNARY(abs_##type, T, T, fabs##S(a))                      \
    UNARY(sqrt_rn_##type, T, T, sqrt##S(a))                  \
    UNARY(rcp_rn_##type, T, T, 1 / a)                        \
    UNARY(cvt_rni_##type##_##type, T, T, rint##S(a))         \
    UNARY(cvt_rzi_##type##_##type, T, T, trunc##S(a))
FLOATS(f32, float, f)
FLOATS(f64, double, )

UNARY(cvt_u16_u32, uint16_t, uint32_t, a)
UNARY(cvt_u32_u16, uint32_t, uint16_t, a)
UNARY(cvt_u32_u64, uint32_t, uint64_t, a)
UNARY(cvt_u64_u32, uint64_t, uint32_t, a)
UNARY(cvt_s64_s32, uint64_t, int32_t, (int64_t)a)
UNARY(cvt_f64_f32, double, float, a)
UNARY(cvt_rn_f32_f64, float, double, a)
UNARY(cvt_rn_f32_s64, float, int64_t, a)
UNARY(cvt_rn_f32_s32, float, int32_t, a)
UNARY(cvt_rn_f64_s32, double, int32_t, a)
UNARY(cvt_rn_f64_s16, double, int16_t, a)
UNARY(cvt_rn_f64_u16, double, uint16_t, a)
UNARY(cvt_rn_f64_s64, double, int64_t, a)
UNARY(cvt_sat_f32_f32, float, float, a > 1 ? 1 : a > 0 ? a : 0)
/* To the nearest integer towards zero that the type has; what becomes of NaN hangs on both types. */
#define TRUNCATION(to, from, T, I, least, most, nan) \
    UNARY(cvt_rzi_##to##_##from, u##I, T, (u##I)(isnan(a) ? nan : a <= (T)least ? least : a >= (T)most ? most : (I)a))
TRUNCATION(s32, f32, float, int32_t, INT32_MIN, INT32_MAX, 0)
TRUNCATION(s64, f32, float, int64_t, INT64_MIN, INT64_MAX, INT64_MIN)
TRUNCATION(s32, f64, double, int32_t, INT32_MIN, INT32_MAX, INT32_MIN)
TRUNCATION(s64, f64, double, int64_t, INT64_MIN, INT64_MAX, INT64_MIN)
UNARY(cvt_rzi_u32_f64, uint32_t, double,
      isnan(a)          ? UINT32_MAX / 2 + 1
      : a <= 0          ? 0
      : a >= UINT32_MAX ? UINT32_MAX
                        : (uint32_t)a)

/* Two floats to bfloat16, to nearest, ties to even: the first is the upper half. */
OPERATION uint32_t bf16_bits(float a)
{
    const uint32_t bits = r_of_f(a), half = bits >> 16, rest = bits & 0xffffu;
    if (isnan(a)) return 0x7fffu;
    return half + (rest > 0x8000u || (rest == 0x8000u && (half & 1) != 0));
}
BINARY(cvt_rn_bf16x2_f32, uint32_t, float, bf16_bits(a) << 16 | bf16_bits(b))

/* Rounded down: the sum of the exact product and c, and on which side of it the nearest float lies (Knuth's sum of
 * two). */
OPERATION float fma_rm_f32(float a, float b, float c)
{
    const double product = (double)a * (double)b, sum = product + (double)c, back = sum - product;
    const double rest = (product - (sum - back)) + ((double)c - back);
    const float near = (float)sum;
    return (double)near > sum || ((double)near == sum && rest < 0) ? nextafterf(near, -INFINITY) : near;
}

OPERATION float ex2_approx_ftz_f32(float a)
{
    const float value = exp2f(fabsf(a) < 0x1p-126f ? 0 : a);
    return value < 0x1p-126f ? 0 : value;
}

OPERATION float ex2_approx_f32(float a)
{
    return exp2f(a);
}

/* Numbers below normal are taken for zeros. */
OPERATION float rcp_approx_ftz_f32(float a)
{
    const float reciprocal = 1 / (fabsf(a) < 0x1p-126F ? copysignf(0, a) : a);
    return fabsf(reciprocal) < 0x1p-126F ? copysignf(0, reciprocal) : reciprocal;
}

/* The upper half of the reciprocal's bits; those of numbers below normal are taken for zeros. */
OPERATION double rcp_approx_ftz_f64(double a)
{
    const double value = 1 / (fabs(a) < 0x1p-1022 ? copysign(0, a) : a);
    return fd_of_rd(rd_of_fd(fabs(value) < 0x1p-1022 ? copysign(0, value) : value) & ~(uint64_t)UINT32_MAX);
}

/* Addresses: those of global memory are the host's; the others' windows are where the host has nothing. */
#define WINDOW(space, base)                                   \
    UNARY(cvta_##space##_u64, uint64_t, uint64_t, a + (base)) \
    UNARY(cvta_to_##space##_u64, uint64_t, uint64_t, a - (base))
WINDOW(global, 0)
WINDOW(shared, PTX_SHARED_WINDOW)
WINDOW(local, PTX_LOCAL_WINDOW)
WINDOW(param, PTX_PARAM_WINDOW)

#define MEMORY(type, T)                                                                                       \
    OPERATION T ld_##type(struct ptx_thread *t, enum ptx_space space, uint64_t address, int line)             \
    {                                                                                                         \
        T value;                                                                                              \
        memcpy(&value, ptx_at(t, space, address, sizeof value, NULL, line), sizeof value);                    \
        return value;                                                                                         \
    }                                                                                                         \
    OPERATION void st_##type(struct ptx_thread *t, enum ptx_space space, uint64_t address, T value, int line) \
    {                                                                                                         \
        memcpy(ptx_at(t, space, address, sizeof value, &value, line), &value, sizeof value);                  \
    }
MEMORY(u8, uint8_t)
MEMORY(s8, int8_t)
MEMORY(u16, uint16_t)
MEMORY(u32, uint32_t)
MEMORY(s32, int32_t)
MEMORY(u64, uint64_t)
MEMORY(f32, float)
MEMORY(f64, double)

#endif
