/* runs.c: elementwise work on runs of floats, and AdamW. Sums over a whole matrix are doubles. */
#include "backend/cpu/kernels/all.h"

#include <math.h>

void KERNEL(fill)(float *to, int64_t count, float value)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++) to[i] = value;
}

void KERNEL(add)(float *to, const float *from, int64_t count, float alpha, float beta)
{
    if (beta == 0) {
#pragma omp simd
        for (int64_t i = 0; i < count; i++) to[i] = alpha * from[i];
    } else if (alpha == 1 && beta == 1) {
#pragma omp simd
        for (int64_t i = 0; i < count; i++) to[i] += from[i];
    } else {
#pragma omp simd
        for (int64_t i = 0; i < count; i++) to[i] = alpha * from[i] + beta * to[i];
    }
}

void KERNEL(scale_by_magnitude)(float *to, const float *by, int64_t count, float offset)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++) to[i] *= fabsf(by[i]) + offset;
}

double KERNEL(dot)(const float *a, const float *b, int64_t count)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

/* An exponent of all ones marks infinity and NaN. */
bool KERNEL(finite)(const float *a, int64_t count)
{
    uint32_t bad = 0;
#pragma omp simd reduction(| : bad)
    for (int64_t i = 0; i < count; i++) bad |= (uint32_t)((bits_of(a[i]) & 0x7f800000u) == 0x7f800000u);
    return bad == 0;
}

/* The equations are in reference/adamw.c. Constants are combined in double; the loop is in float. */
void KERNEL(adamw)(const struct adamw_args *args, int64_t first, int64_t end)
{
    float *restrict parameter = args->parameter, *restrict moment1 = args->moment1, *restrict moment2 = args->moment2;
    const float *restrict gradient = args->gradient;
    const float beta1 = (float)args->beta1, gain1 = (float)((1 - args->beta1) * args->gradient_scale);
    const float beta2 = (float)args->beta2;
    const float gain2 = (float)((1 - args->beta2) * args->gradient_scale * args->gradient_scale);
    const float inverse_root2 = (float)(1 / sqrt(args->correction2)), epsilon = (float)args->epsilon;
    const float rate = (float)(args->rate / args->correction1), keep = (float)(args->rate * args->weight_decay);
#pragma omp simd
    for (int64_t i = first; i < end; i++) {
        const float g = gradient[i], p = parameter[i];
        const float m = beta1 * moment1[i] + gain1 * g, v = beta2 * moment2[i] + gain2 * g * g;
        moment1[i] = m;
        moment2[i] = v;
        parameter[i] = p - (rate * m / (sqrtf(v) * inverse_root2 + epsilon) + keep * p);
    }
}
