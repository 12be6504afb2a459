/* norm.h: kernels of reference/norm.c, which has the equations. One segment of a row per block. Gradients of parameters
 * are sums over rows; they are computed before dx is written, because dx may alias dy. */
#ifndef BACKEND_CUDA_KERNELS_NORM_H
#define BACKEND_CUDA_KERNELS_NORM_H

#include "backend/cuda/kernels/elementwise.h"

struct norm_numbers {
    double mean, scale, mean_t, q;
};

/* A segment: `count` elements from column `first` of row t; its parameters begin at column `parameter`. */
struct norm_segment {
    int64_t t, first, count, parameter;
};

DEVICE struct norm_segment norm_segment(const struct norm_args *norm, int64_t index)
{
    struct norm_segment s;
    s.count = norm->x.columns / norm->groups;
    s.t = index / norm->groups;
    s.first = index % norm->groups * s.count;
    s.parameter = norm->weight.columns == s.count ? 0 : s.first;
    return s;
}

DEVICE double parameter_at(struct matrix parameter, int64_t column)
{
    return parameter.data != NULL ? (double)row_of(parameter, 0)[column] : 0;
}

/* Sum over the segment of a term, by its number: 0: x, 1: (x - mean)², 2: x_t, 3: n (x_t - mean_t). */
DEVICE double norm_sum(const struct launch *grid, const struct norm_args *norm, const struct norm_segment *s, int term,
                       const struct norm_numbers *numbers, double *shared)
{
    PRIVATE(double, sum);
    const float *x = row_of(norm->x, s->t) + s->first, *x_t = term >= 2 ? row_of(norm->x_t, s->t) + s->first : NULL;
    EACH_THREAD(thread)
    {
        sum[MINE(thread)] = 0;
        for (int64_t i = thread; i < s->count; i += KERNEL_THREADS) {
            const double centred = (double)x[i] - numbers->mean;
            sum[MINE(thread)] += term == 0   ? (double)x[i]
                                 : term == 1 ? centred * centred
                                 : term == 2 ? (double)x_t[i]
                                             : centred * numbers->scale * ((double)x_t[i] - numbers->mean_t);
        }
    }
    return block_sum(grid, sum, shared);
}

DEVICE struct norm_numbers norm_numbers(const struct launch *grid, const struct norm_args *norm,
                                        const struct norm_segment *s, bool tangent, double *shared)
{
    struct norm_numbers n = {0, 0, 0, 0};
    const double count = (double)s->count;
    if (norm->kind == NORM_LAYER) n.mean = norm_sum(grid, norm, s, 0, &n, shared) / count;
    n.scale = 1 / sqrt(norm_sum(grid, norm, s, 1, &n, shared) / count + norm->epsilon);
    if (!tangent) return n;
    if (norm->kind == NORM_LAYER) n.mean_t = norm_sum(grid, norm, s, 2, &n, shared) / count;
    n.q = norm_sum(grid, norm, s, 3, &n, shared) / count;
    return n;
}

/* n_i and its tangent. */
DEVICE double normal_of(const struct norm_numbers *n, double x)
{
    return (x - n->mean) * n->scale;
}

DEVICE double normal_tangent_of(const struct norm_numbers *n, double x, double x_t)
{
    return n->scale * (x_t - n->mean_t - normal_of(n, x) * n->q);
}

KERNEL(norm_forward, norm_kernel_args)
{
    SHARED double shared[KERNEL_THREADS];
    const struct norm_args *norm = &args->norm;
    const struct norm_segment s = norm_segment(norm, grid->block);
    const struct norm_numbers n = norm_numbers(grid, norm, &s, false, shared);
    const float *x = row_of(norm->x, s.t) + s.first;
    float *y = row_of(norm->y, s.t) + s.first;
    EACH_THREAD(thread)
    {
        for (int64_t i = thread; i < s.count; i += KERNEL_THREADS)
            y[i] = (float)(normal_of(&n, (double)x[i]) * parameter_at(norm->weight, s.parameter + i) +
                           parameter_at(norm->bias, s.parameter + i));
    }
}

KERNEL(norm_tangent, norm_kernel_args)
{
    SHARED double shared[KERNEL_THREADS];
    const struct norm_args *norm = &args->norm;
    const struct norm_segment s = norm_segment(norm, grid->block);
    const struct norm_numbers n = norm_numbers(grid, norm, &s, true, shared);
    const float *x = row_of(norm->x, s.t) + s.first, *x_t = row_of(norm->x_t, s.t) + s.first;
    float *y_t = row_of(norm->y_t, s.t) + s.first;
    EACH_THREAD(thread)
    {
        for (int64_t i = thread; i < s.count; i += KERNEL_THREADS)
            y_t[i] = (float)(normal_tangent_of(&n, (double)x[i], (double)x_t[i]) *
                                 parameter_at(norm->weight, s.parameter + i) +
                             normal_of(&n, (double)x[i]) * parameter_at(norm->weight_t, s.parameter + i) +
                             parameter_at(norm->bias_t, s.parameter + i));
    }
}

KERNEL(norm_statistics, norm_kernel_args)
{
    SHARED double shared[KERNEL_THREADS];
    const struct norm_segment s = norm_segment(&args->norm, grid->block);
    const struct norm_numbers n = norm_numbers(grid, &args->norm, &s, args->tangent, shared);
    double *to = args->statistics + grid->block * 4;
    EACH_THREAD(thread)
    {
        if (thread > 0) continue;
        to[0] = n.mean;
        to[1] = n.scale;
        to[2] = n.mean_t;
        to[3] = n.q;
    }
}

DEVICE struct norm_numbers numbers_of(const struct norm_kernel_args *args, int64_t segment)
{
    const double *from = args->statistics + segment * 4;
    const struct norm_numbers n = {from[0], from[1], from[2], from[3]};
    return n;
}

/* The terms of virtual row v in the gradients of element c of the parameters. */
DEVICE void parameter_terms(const struct norm_kernel_args *args, int64_t v, int64_t c, double *weight, double *bias)
{
    const struct norm_args *norm = &args->norm;
    const int64_t count = norm->x.columns / norm->groups;
    const bool shared = args->columns == count;
    const int64_t t = shared ? v / norm->groups : v, column = shared ? v % norm->groups * count + c : c;
    const struct norm_numbers n = numbers_of(args, t * norm->groups + column / count);
    const double x = (double)row_of(norm->x, t)[column], dy = (double)row_of(norm->dy, t)[column];
    if (args->tangent) {
        const double dy_t = (double)row_of(norm->dy_t, t)[column], x_t = (double)row_of(norm->x_t, t)[column];
        *weight += dy_t * normal_of(&n, x) + dy * normal_tangent_of(&n, x, x_t);
        *bias += dy_t;
    } else {
        *weight += dy * normal_of(&n, x);
        *bias += dy;
    }
}

KERNEL(norm_parameters, norm_kernel_args)
{
    SHARED double shared[KERNEL_THREADS];
    PRIVATE(double, weight);
    PRIVATE(double, bias);
    const struct split split = split_of(grid, args->rows, args->columns);
    EACH_THREAD(thread)
    {
        const int64_t column = split.column + thread % SPLIT_COLUMNS;
        weight[MINE(thread)] = bias[MINE(thread)] = 0;
        for (int64_t v = split.first + thread / SPLIT_COLUMNS; v < split.end && column < args->columns;
             v += SPLIT_LANES)
            parameter_terms(args, v, column, &weight[MINE(thread)], &bias[MINE(thread)]);
    }
    split_store(grid, &split, weight, shared, args->partials, args->columns);
    split_store(grid, &split, bias, shared, args->bias_partials, args->columns);
}

KERNEL(norm_backward, norm_kernel_args)
{
    SHARED double shared[KERNEL_THREADS];
    PRIVATE(double, sum_g);
    PRIVATE(double, sum_gn);
    const struct norm_args *norm = &args->norm;
    const struct norm_segment s = norm_segment(norm, grid->block);
    const struct norm_numbers n = numbers_of(args, grid->block);
    const float *x = row_of(norm->x, s.t) + s.first, *dy = row_of(norm->dy, s.t) + s.first;
    float *dx = row_of(norm->dx, s.t) + s.first;
    EACH_THREAD(thread)
    {
        sum_g[MINE(thread)] = sum_gn[MINE(thread)] = 0;
        for (int64_t i = thread; i < s.count; i += KERNEL_THREADS) {
            const double g = (double)dy[i] * parameter_at(norm->weight, s.parameter + i);
            sum_g[MINE(thread)] += g;
            sum_gn[MINE(thread)] += g * normal_of(&n, (double)x[i]);
        }
    }
    const double all = block_sum(grid, sum_g, shared) / (double)s.count;
    const double mean_g = norm->kind == NORM_RMS ? 0 : all;
    const double mean_gn = block_sum(grid, sum_gn, shared) / (double)s.count;
    EACH_THREAD(thread)
    {
        for (int64_t i = thread; i < s.count; i += KERNEL_THREADS) {
            const double g = (double)dy[i] * parameter_at(norm->weight, s.parameter + i);
            put(&dx[i], n.scale * (g - mean_g - normal_of(&n, (double)x[i]) * mean_gn), norm->accumulate);
        }
    }
}

/* g and n of an element of the segment, and their tangents. */
struct norm_point {
    double g, n, g_t, n_t;
};

DEVICE struct norm_point norm_point(const struct norm_args *norm, const struct norm_segment *s,
                                    const struct norm_numbers *n, int64_t i)
{
    const int64_t column = s->first + i;
    const double x = (double)row_of(norm->x, s->t)[column], x_t = (double)row_of(norm->x_t, s->t)[column];
    const double dy = (double)row_of(norm->dy, s->t)[column], dy_t = (double)row_of(norm->dy_t, s->t)[column];
    const double weight = parameter_at(norm->weight, s->parameter + i);
    struct norm_point p;
    p.g = dy * weight;
    p.n = normal_of(n, x);
    p.g_t = dy_t * weight + dy * parameter_at(norm->weight_t, s->parameter + i);
    p.n_t = normal_tangent_of(n, x, x_t);
    return p;
}

KERNEL(norm_backward_tangent, norm_kernel_args)
{
    SHARED double shared[KERNEL_THREADS];
    PRIVATE(double, sum_g);
    PRIVATE(double, sum_gn);
    PRIVATE(double, sum_g_t);
    PRIVATE(double, sum_gn_t);
    const struct norm_args *norm = &args->norm;
    const struct norm_segment s = norm_segment(norm, grid->block);
    const struct norm_numbers n = numbers_of(args, grid->block);
    float *dx = row_of(norm->dx, s.t) + s.first, *dx_t = row_of(norm->dx_t, s.t) + s.first;
    EACH_THREAD(thread)
    {
        sum_g[MINE(thread)] = sum_gn[MINE(thread)] = sum_g_t[MINE(thread)] = sum_gn_t[MINE(thread)] = 0;
        for (int64_t i = thread; i < s.count; i += KERNEL_THREADS) {
            const struct norm_point p = norm_point(norm, &s, &n, i);
            sum_g[MINE(thread)] += p.g;
            sum_gn[MINE(thread)] += p.g * p.n;
            sum_g_t[MINE(thread)] += p.g_t;
            sum_gn_t[MINE(thread)] += p.g_t * p.n + p.g * p.n_t;
        }
    }
    const double count = (double)s.count, centred = norm->kind == NORM_RMS ? 0 : 1;
    const double mean_g = centred * block_sum(grid, sum_g, shared) / count,
                 mean_gn = block_sum(grid, sum_gn, shared) / count;
    const double mean_g_t = centred * block_sum(grid, sum_g_t, shared) / count,
                 mean_gn_t = block_sum(grid, sum_gn_t, shared) / count;
    EACH_THREAD(thread)
    {
        for (int64_t i = thread; i < s.count; i += KERNEL_THREADS) {
            const struct norm_point p = norm_point(norm, &s, &n, i);
            const double h = p.g - mean_g - p.n * mean_gn, h_t = p.g_t - mean_g_t - p.n_t * mean_gn - p.n * mean_gn_t;
            put(&dx[i], n.scale * h, norm->accumulate);
            put(&dx_t[i], n.scale * (h_t - n.scale * n.q * h), norm->accumulate);
        }
    }
}

#endif
