/* lanes.h: vectors as values, for loops with a recurrence from row to row, which the vectoriser cannot handle. */
#ifndef BACKEND_CPU_KERNELS_LANES_H
#define BACKEND_CPU_KERNELS_LANES_H

#include "backend/cpu/kernels/level.h"

typedef uint32_t lane_bits __attribute__((vector_size(LANES * sizeof(uint32_t)), aligned(4), may_alias));

static inline lanes lanes_of(float value)
{
    return value - (lanes){0};
}

/* `width` floats, padded with zeros. */
static inline lanes lanes_load(const float *from, int64_t width)
{
    if (width == LANES) return *(const lanes *)from;
    float part[LANES] = {0};
    memcpy(part, from, (size_t)width * sizeof *part);
    return *(const lanes *)part;
}

static inline void lanes_store(float *to, lanes value, int64_t width)
{
    if (width == LANES)
        *(lanes *)to = value;
    else
        memcpy(to, &value, (size_t)width * sizeof *to);
}

static inline lanes lanes_where(lane_bits mask, lanes yes, lanes no)
{
    return (lanes)(((lane_bits)yes & mask) | ((lane_bits)no & ~mask));
}

/* exp_below of level.h. */
static inline lanes lanes_exp_below(lanes x)
{
    const lanes y = lanes_where((lane_bits)(x < -88.0f), lanes_of(-88.0f), x);
    const lanes shifted = y * 0x1.715476p0f + 0x1.8p23f, n = shifted - 0x1.8p23f;
    const lanes r = (y - n * 0x1.62ep-1f) - n * 0x1.0bfbe8p-15f;
    const lanes tail = 0.49999994f + r * (0.16666521f + r * (0.04166839f + r * (0.008368716f + r * 0.0013814602f)));
    const lanes power = (lanes)(((lane_bits)shifted << 23) + 0x3f800000u);
    return (1 + (r + r * r * tail)) * power;
}

static inline lanes lanes_exp(lanes x)
{
    return lanes_exp_below(lanes_where((lane_bits)(x > 88.0f), lanes_of(88.0f), x));
}

/* softplus(z) = max(z, 0) + log(1 + e^-|z|) and its first two derivatives, to 8u relative. With s = e / (2 + e) <= 1/3
 * the logarithm is 2 artanh(s), whose series ends below u after s^15. */
struct softplus {
    lanes value, slope, curve;
};

static inline struct softplus softplus_of(lanes z)
{
    const lane_bits negative = (lane_bits)(z < 0.0f);
    const lanes e = lanes_exp_below(lanes_where(negative, z, -z)), s = e / (2 + e), q = s * s, share = 1 / (1 + e);
    const lanes high = 1 / 9.0f + q * (1 / 11.0f + q * (1 / 13.0f + q * (1 / 15.0f)));
    const lanes series = 1 + q * (1 / 3.0f + q * (1 / 5.0f + q * (1 / 7.0f + q * high)));
    const lanes above = lanes_where(negative, lanes_of(0), z);
    return (struct softplus){above + 2 * s * series, lanes_where(negative, e * share, share), e * share * share};
}

#endif
