/* norm.c: the norms of reference/norm.c on rows of floats. A segment's sums run in as many lanes as a vector has: the
 * error of a sum of N terms is at most (N / lanes + lanes) u times the sum of their sizes. */
#include "backend/cpu/kernels/all.h"

#include <math.h>

struct statistics {
    float mean, scale;
};

/* What a layer norm subtracts; 0 for the others. */
static inline float segment_mean(const struct norm_args *args, const float *restrict x, int64_t count)
{
    float sum = 0;
    if (args->kind != NORM_LAYER) return 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++) sum += x[i];
    return sum / (float)count;
}

static inline struct statistics segment_statistics(const struct norm_args *args, const float *restrict x, int64_t count)
{
    const float mean = segment_mean(args, x, count);
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < count; i++) squares += (x[i] - mean) * (x[i] - mean);
    return (struct statistics){mean, (float)(1 / sqrt((double)squares / (double)count + args->epsilon))};
}

/* The part of a [1, C] or [1, C / G] parameter for segment `group`. */
static inline const float *segment_of(struct matrix parameter, int64_t group, int64_t count)
{
    if (parameter.data == NULL) return NULL;
    return (const float *)parameter.data + (parameter.columns == count ? 0 : group * count);
}

/* The same part of a task's own sums for such a parameter; NULL: it has none. */
static float *sums_of(float *sums, struct matrix parameter, int64_t group, int64_t count)
{
    if (sums == NULL) return NULL;
    return sums + (parameter.columns == count ? 0 : group * count);
}

static void segment_forward(const struct norm_args *args, int64_t t, int64_t group, int64_t count)
{
    const float *x = float_row(args->x, t) + group * count, *weight = segment_of(args->weight, group, count);
    const float *bias = segment_of(args->bias, group, count);
    float *y = float_row(args->y, t) + group * count;
    const struct statistics s = segment_statistics(args, x, count);
    if (bias != NULL) {
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

static void parameter_sums(const float *restrict x, const float *restrict dy, struct statistics s,
                           float *restrict dweight, float *restrict dbias, int64_t count)
{
    if (dweight != NULL) {
#pragma omp simd
        for (int64_t i = 0; i < count; i++) dweight[i] += dy[i] * ((x[i] - s.mean) * s.scale);
    }
    if (dbias != NULL) {
#pragma omp simd
        for (int64_t i = 0; i < count; i++) dbias[i] += dy[i];
    }
}

static void segment_backward(const struct norm_args *args, int64_t t, int64_t group, int64_t count, float *dweight,
                             float *dbias)
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
        for (int64_t i = 0; i < count; i++)
            dx[i] += s.scale * (dy[i] * weight[i] - mean_g - (x[i] - s.mean) * s.scale * mean_gn);
    } else {
#pragma omp simd
        for (int64_t i = 0; i < count; i++)
            dx[i] = s.scale * (dy[i] * weight[i] - mean_g - (x[i] - s.mean) * s.scale * mean_gn);
    }
}

void KERNEL(norm_backward)(const struct norm_args *args, int64_t first, int64_t end, float *dweight, float *dbias)
{
    const int64_t count = args->x.columns / args->groups;
    for (int64_t t = first; t < end; t++)
        for (int64_t group = 0; group < args->groups; group++)
            segment_backward(args, t, group, count, sums_of(dweight, args->weight, group, count),
                             sums_of(dbias, args->bias, group, count));
}

/* A segment with its tangents (reference/norm.c). n and its tangent are recomputed from x and x_t wherever they are
 * needed. */
struct direction {
    const float *x, *x_t, *weight, *weight_t; /* weight_t: NULL for none */
    float mean, scale, mean_t, q;
};

static struct direction segment_direction(const struct norm_args *args, int64_t t, int64_t group, int64_t count)
{
    const float *x = float_row(args->x, t) + group * count, *x_t = float_row(args->x_t, t) + group * count;
    const struct statistics s = segment_statistics(args, x, count);
    const float mean_t = segment_mean(args, x_t, count);
    float q = 0;
#pragma omp simd reduction(+ : q)
    for (int64_t i = 0; i < count; i++) q += (x[i] - s.mean) * s.scale * (x_t[i] - mean_t);
    return (struct direction){.x = x,
                              .x_t = x_t,
                              .weight = segment_of(args->weight, group, count),
                              .weight_t = segment_of(args->weight_t, group, count),
                              .mean = s.mean,
                              .scale = s.scale,
                              .mean_t = mean_t,
                              .q = q / (float)count};
}

#define INLINE static inline __attribute__((always_inline))

/* n and its tangent. */
struct normal_pair {
    float n, n_t;
};

INLINE struct normal_pair pair_of(const struct direction *d, int64_t i)
{
    const float n = (d->x[i] - d->mean) * d->scale;
    return (struct normal_pair){n, d->scale * (d->x_t[i] - d->mean_t - n * d->q)};
}

INLINE void tangent_row(const struct direction d, const float *bias_t, float *restrict y_t, int64_t count,
                        bool weight_moves, bool bias_moves)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        const struct normal_pair p = pair_of(&d, i);
        float sum = p.n_t * d.weight[i];
        if (weight_moves) sum += p.n * d.weight_t[i];
        if (bias_moves) sum += bias_t[i];
        y_t[i] = sum;
    }
}

void KERNEL(norm_tangent)(const struct norm_args *args, int64_t first, int64_t end)
{
    const int64_t count = args->x.columns / args->groups;
    for (int64_t t = first; t < end; t++)
        for (int64_t group = 0; group < args->groups; group++) {
            const struct direction d = segment_direction(args, t, group, count);
            const float *bias_t = segment_of(args->bias_t, group, count);
            float *y_t = float_row(args->y_t, t) + group * count;
            if (d.weight_t != NULL && bias_t != NULL)
                tangent_row(d, bias_t, y_t, count, true, true);
            else if (d.weight_t != NULL)
                tangent_row(d, bias_t, y_t, count, true, false);
            else if (bias_t != NULL)
                tangent_row(d, bias_t, y_t, count, false, true);
            else
                tangent_row(d, bias_t, y_t, count, false, false);
        }
}

/* g = dy w and its tangent. */
INLINE float g_tangent(const struct direction *d, const float *dy, const float *dy_t, int64_t i, bool weight_moves)
{
    const float g_t = dy_t[i] * d->weight[i];
    return weight_moves ? g_t + dy[i] * d->weight_t[i] : g_t;
}

struct gradients {
    const float *dy, *dy_t;
    float *dx, *dx_t; /* may be dy and dy_t */
    int64_t count;
    bool centred; /* NORM_LAYER */
};

INLINE void backward_tangent_row(const struct direction d, const struct gradients *to, bool weight_moves,
                                 bool accumulate)
{
    const float *dy = to->dy, *dy_t = to->dy_t;
    float *dx = to->dx, *dx_t = to->dx_t, g_mean = 0, gn_mean = 0, g_t_mean = 0, gn_t_mean = 0;
#pragma omp simd reduction(+ : g_mean, gn_mean, g_t_mean, gn_t_mean)
    for (int64_t i = 0; i < to->count; i++) {
        const struct normal_pair p = pair_of(&d, i);
        const float g = dy[i] * d.weight[i], g_t = g_tangent(&d, dy, dy_t, i, weight_moves);
        g_mean += g;
        gn_mean += g * p.n;
        g_t_mean += g_t;
        gn_t_mean += g_t * p.n + g * p.n_t;
    }
    const float share = 1 / (float)to->count, rq = d.scale * d.q;
    g_mean = to->centred ? g_mean * share : 0;
    g_t_mean = to->centred ? g_t_mean * share : 0;
    gn_mean *= share;
    gn_t_mean *= share;
#pragma omp simd
    for (int64_t i = 0; i < to->count; i++) {
        const struct normal_pair p = pair_of(&d, i);
        const float h = dy[i] * d.weight[i] - g_mean - p.n * gn_mean;
        const float h_t = g_tangent(&d, dy, dy_t, i, weight_moves) - g_t_mean - p.n_t * gn_mean - p.n * gn_t_mean;
        const float gradient = d.scale * h, tangent = d.scale * (h_t - rq * h);
        dx[i] = accumulate ? dx[i] + gradient : gradient;
        dx_t[i] = accumulate ? dx_t[i] + tangent : tangent;
    }
}

static void parameter_tangent_sums(const struct direction d, const struct gradients *from, float *restrict dweight_t,
                                   float *restrict dbias_t)
{
    const float *dy = from->dy, *dy_t = from->dy_t;
    if (dweight_t != NULL) {
#pragma omp simd
        for (int64_t i = 0; i < from->count; i++) {
            const struct normal_pair p = pair_of(&d, i);
            dweight_t[i] += dy_t[i] * p.n + dy[i] * p.n_t;
        }
    }
    if (dbias_t != NULL) {
#pragma omp simd
        for (int64_t i = 0; i < from->count; i++) dbias_t[i] += dy_t[i];
    }
}

static void segment_backward_tangent(const struct norm_args *args, int64_t t, int64_t group, int64_t count,
                                     float *dweight_t, float *dbias_t)
{
    const struct direction d = segment_direction(args, t, group, count);
    const struct gradients to = {
        .dy = float_row(args->dy, t) + group * count,
        .dy_t = float_row(args->dy_t, t) + group * count,
        .dx = float_row(args->dx, t) + group * count,
        .dx_t = float_row(args->dx_t, t) + group * count,
        .count = count,
        .centred = args->kind == NORM_LAYER,
    };
    parameter_tangent_sums(d, &to, dweight_t, dbias_t);
    if (d.weight_t != NULL && args->accumulate)
        backward_tangent_row(d, &to, true, true);
    else if (d.weight_t != NULL)
        backward_tangent_row(d, &to, true, false);
    else if (args->accumulate)
        backward_tangent_row(d, &to, false, true);
    else
        backward_tangent_row(d, &to, false, false);
}

void KERNEL(norm_backward_tangent)(const struct norm_args *args, int64_t first, int64_t end, float *dweight_t,
                                   float *dbias_t)
{
    const int64_t count = args->x.columns / args->groups;
    for (int64_t t = first; t < end; t++)
        for (int64_t group = 0; group < args->groups; group++)
            segment_backward_tangent(args, t, group, count, sums_of(dweight_t, args->dweight_t, group, count),
                                     sums_of(dbias_t, args->dbias_t, group, count));
}
