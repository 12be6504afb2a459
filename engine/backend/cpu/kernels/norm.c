/* norm.c: the norms of reference/norm.c on rows of floats. A segment's sums run in as many lanes as a vector has: the error of a
 * sum of N terms is at most (N / lanes + lanes) u times the sum of their sizes. */
#include "backend/cpu/kernels/all.h"

#include <math.h>

struct statistics {
    float mean, scale;
};

static inline struct statistics segment_statistics(const struct norm_args *args, const float *restrict x, int64_t count)
{
    float mean = 0, squares = 0;
    if (args->kind == NORM_LAYER) {
#pragma omp simd reduction(+ : mean)
        for (int64_t i = 0; i < count; i++) mean += x[i];
        mean /= (float)count;
    }
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < count; i++) squares += (x[i] - mean) * (x[i] - mean);
    return (struct statistics){mean, (float)(1 / sqrt((double)squares / (double)count + args->epsilon))};
}

/* The part of a [1, C] or [1, C / G] parameter that belongs to segment `group`. */
static inline const float *segment_of(struct matrix parameter, int64_t group, int64_t count)
{
    if (parameter.data == NULL) return NULL;
    return (const float *)parameter.data + (parameter.columns == count ? 0 : group * count);
}

static void segment_forward(const struct norm_args *args, int64_t t, int64_t group, int64_t count)
{
    const float *x = float_row(args->x, t) + group * count, *weight = segment_of(args->weight, group, count);
    const float *bias = segment_of(args->bias, group, count);
    float *y = float_row(args->y, t) + group * count;
    const struct statistics s = segment_statistics(args, x, count);
    if (bias) {
#pragma omp simd
        for (int64_t i = 0; i < count; i++) y[i] = (x[i] - s.mean) * s.scale * weight[i] + bias[i];
    } else {
#pragma omp simd
        for (int64_t i = 0; i < count; i++) y[i] = (x[i] - s.mean) * s.scale * weight[i];
    }
}

void KERNEL(norm_forward)(const struct norm_args *args, int64_t first, int64_t end)
{
    const int64_t count = args->x.columns / args->groups;
    for (int64_t t = first; t < end; t++)
        for (int64_t group = 0; group < args->groups; group++) segment_forward(args, t, group, count);
}

static void parameter_sums(const float *restrict x, const float *restrict dy, struct statistics s, float *restrict dweight,
                           float *restrict dbias, int64_t count)
{
    if (dweight) {
#pragma omp simd
        for (int64_t i = 0; i < count; i++) dweight[i] += dy[i] * ((x[i] - s.mean) * s.scale);
    }
    if (dbias) {
#pragma omp simd
        for (int64_t i = 0; i < count; i++) dbias[i] += dy[i];
    }
}

static void segment_backward(const struct norm_args *args, int64_t t, int64_t group, int64_t count, float *dweight, float *dbias)
{
    const float *x = float_row(args->x, t) + group * count, *dy = float_row(args->dy, t) + group * count;
    const float *weight = segment_of(args->weight, group, count);
    float *dx = float_row(args->dx, t) + group * count;
    const struct statistics s = segment_statistics(args, x, count);
    parameter_sums(x, dy, s, dweight, dbias, count);
    float mean_g = 0, mean_gn = 0;
#pragma omp simd reduction(+ : mean_g, mean_gn)
    for (int64_t i = 0; i < count; i++) {
        const float g = dy[i] * weight[i];
        mean_g += g;
        mean_gn += g * ((x[i] - s.mean) * s.scale);
    }
    mean_g = args->kind == NORM_RMS ? 0 : mean_g / (float)count;
    mean_gn /= (float)count;
    if (args->accumulate) {
#pragma omp simd
        for (int64_t i = 0; i < count; i++) dx[i] += s.scale * (dy[i] * weight[i] - mean_g - (x[i] - s.mean) * s.scale * mean_gn);
    } else {
#pragma omp simd
        for (int64_t i = 0; i < count; i++) dx[i] = s.scale * (dy[i] * weight[i] - mean_g - (x[i] - s.mean) * s.scale * mean_gn);
    }
}

void KERNEL(norm_backward)(const struct norm_args *args, int64_t first, int64_t end, float *dweight, float *dbias)
{
    const int64_t count = args->x.columns / args->groups;
    const int64_t weight_step = args->weight.columns == count ? 0 : count;
    const int64_t bias_step = args->bias.columns == count ? 0 : count;
    for (int64_t t = first; t < end; t++)
        for (int64_t group = 0; group < args->groups; group++)
            segment_backward(args, t, group, count, dweight ? dweight + group * weight_step : NULL,
                             dbias ? dbias + group * bias_step : NULL);
}
