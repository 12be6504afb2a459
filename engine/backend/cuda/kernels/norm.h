/* norm.h: kernels of reference/norm.c, which has the equations. A segment of a row has a team of args->lanes threads, a
 * block several teams, because most of the time of a block with one short row would pass at barriers. Gradients of
 * parameters are sums over rows; they are computed before dx is written, because dx may alias dy. */
#ifndef BACKEND_CUDA_KERNELS_NORM_H
#define BACKEND_CUDA_KERNELS_NORM_H

#include "backend/cuda/kernels/elementwise.h"

struct norm_numbers {
    double mean, scale, mean_t, q;
};

/* A segment: `count` elements from column `first` of row t; its parameters begin at column `parameter`. A thread takes
 * every `lanes`-th one from `lane` on. A team behind the last segment has count 0. */
struct norm_segment {
    int64_t index, t, first, count, parameter;
    int lane, lanes;
};

DEVICE struct norm_segment norm_segment(const struct launch *grid, const struct norm_kernel_args *args, int thread)
{
    const struct norm_args *norm = &args->norm;
    const int64_t groups = norm->groups, count = norm->x.columns / groups;
    struct norm_segment s;
    s.lanes = args->lanes;
    s.lane = thread % s.lanes;
    s.index = grid->block * (KERNEL_THREADS / s.lanes) + thread / s.lanes;
    s.t = groups == 1 ? s.index : s.index / groups;
    s.first = groups == 1 ? 0 : s.index % groups * count;
    s.parameter = norm->weight.columns == count ? 0 : s.first;
    s.count = s.t < norm->x.rows ? count : 0;
    return s;
}

DEVICE double parameter_at(struct matrix parameter, int64_t column)
{
    return parameter.data != NULL ? (double)row_of(parameter, 0)[column] : 0;
}

/* The sum over each team's segment of a term, by its number: 0: x, 1: (x - mean)², 2: x_t, 3: n (x_t - mean_t). */
DEVICE void norm_sum(const struct launch *grid, const struct norm_kernel_args *args, int term,
                     const struct norm_numbers *numbers, double *sum, double *shared)
{
    const struct norm_args *norm = &args->norm;
    EACH_THREAD(thread)
    {
        const struct norm_segment s = norm_segment(grid, args, thread);
        const struct norm_numbers n = numbers[MINE(thread)];
        double all = 0;
        for (int64_t i = s.lane; i < s.count; i += s.lanes) {
            const double x = term == 2 ? 0 : (double)row_of(norm->x, s.t)[s.first + i], centred = x - n.mean,
                         x_t = term < 2 ? 0 : (double)row_of(norm->x_t, s.t)[s.first + i];
            all += term == 0   ? x
                   : term == 1 ? centred * centred
                   : term == 2 ? x_t
                               : centred * n.scale * (x_t - n.mean_t);
        }
        sum[MINE(thread)] = all;
    }
    lanes_sum(grid, sum, shared, args->lanes);
}

/* The numbers of each team's segment. */
DEVICE void norm_numbers(const struct launch *grid, const struct norm_kernel_args *args, bool tangent,
                         struct norm_numbers *numbers, double *shared)
{
    PRIVATE(double, sum);
    const struct norm_args *norm = &args->norm;
    const double count = (double)(norm->x.columns / norm->groups);
    EACH_THREAD(thread)
    {
        const struct norm_numbers none = {0, 0, 0, 0};
        numbers[MINE(thread)] = none;
    }
    for (int term = norm->kind == NORM_LAYER ? 0 : 1; term < (tangent ? 4 : 2); term++) {
        if (term == 2 && norm->kind != NORM_LAYER) continue;
        norm_sum(grid, args, term, numbers, sum, shared);
        EACH_THREAD(thread)
        {
            struct norm_numbers *n = &numbers[MINE(thread)];
            const double mean = sum[MINE(thread)] / count;
            if (term == 0) n->mean = mean;
            if (term == 1) n->scale = 1 / sqrt(mean + norm->epsilon);
            if (term == 2) n->mean_t = mean;
            if (term == 3) n->q = mean;
        }
    }
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
    PRIVATE(struct norm_numbers, numbers);
    const struct norm_args *norm = &args->norm;
    norm_numbers(grid, args, false, numbers, shared);
    EACH_THREAD(thread)
    {
        const struct norm_segment s = norm_segment(grid, args, thread);
        const struct norm_numbers n = numbers[MINE(thread)];
        for (int64_t i = s.lane; i < s.count; i += s.lanes) {
            const float y = (float)(normal_of(&n, (double)row_of(norm->x, s.t)[s.first + i]) *
                                        parameter_at(norm->weight, s.parameter + i) +
                                    parameter_at(norm->bias, s.parameter + i));
            row_of(norm->y, s.t)[s.first + i] = y;
            if (args->rounded != NULL) args->rounded[s.t * args->pitch + s.first + i] = (uint16_t)bf16_of(y);
        }
    }
}

KERNEL(norm_tangent, norm_kernel_args)
{
    SHARED double shared[KERNEL_THREADS];
    PRIVATE(struct norm_numbers, numbers);
    const struct norm_args *norm = &args->norm;
    norm_numbers(grid, args, true, numbers, shared);
    EACH_THREAD(thread)
    {
        const struct norm_segment s = norm_segment(grid, args, thread);
        const struct norm_numbers n = numbers[MINE(thread)];
        for (int64_t i = s.lane; i < s.count; i += s.lanes) {
            const double x = (double)row_of(norm->x, s.t)[s.first + i],
                         x_t = (double)row_of(norm->x_t, s.t)[s.first + i];
            row_of(norm->y_t, s.t)[s.first + i] =
                (float)(normal_tangent_of(&n, x, x_t) * parameter_at(norm->weight, s.parameter + i) +
                        normal_of(&n, x) * parameter_at(norm->weight_t, s.parameter + i) +
                        parameter_at(norm->bias_t, s.parameter + i));
        }
    }
}

KERNEL(norm_statistics, norm_kernel_args)
{
    SHARED double shared[KERNEL_THREADS];
    PRIVATE(struct norm_numbers, numbers);
    norm_numbers(grid, args, args->tangent, numbers, shared);
    EACH_THREAD(thread)
    {
        const struct norm_segment s = norm_segment(grid, args, thread);
        const struct norm_numbers n = numbers[MINE(thread)];
        double *to = args->statistics + s.index * 4;
        if (s.lane > 0 || s.count == 0) continue;
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
    const bool single = norm->groups == 1, shared = args->columns == count && !single;
    const int64_t t = shared ? v / norm->groups : v, column = shared ? v % norm->groups * count + c : c;
    const struct norm_numbers n = numbers_of(args, single ? v : t * norm->groups + column / count);
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
    EACH_THREAD(thread)
    {
        const struct norm_segment s = norm_segment(grid, args, thread);
        double g_all = 0, gn_all = 0;
        if (s.count > 0) {
            const struct norm_numbers n = numbers_of(args, s.index);
            const float *x = row_of(norm->x, s.t) + s.first, *dy = row_of(norm->dy, s.t) + s.first;
            for (int64_t i = s.lane; i < s.count; i += s.lanes) {
                const double g = (double)dy[i] * parameter_at(norm->weight, s.parameter + i);
                g_all += g;
                gn_all += g * normal_of(&n, (double)x[i]);
            }
        }
        sum_g[MINE(thread)] = g_all;
        sum_gn[MINE(thread)] = gn_all;
    }
    if (norm->kind != NORM_RMS) lanes_sum(grid, sum_g, shared, args->lanes);
    lanes_sum(grid, sum_gn, shared, args->lanes);
    EACH_THREAD(thread)
    {
        const struct norm_segment s = norm_segment(grid, args, thread);
        if (s.count == 0) continue;
        const struct norm_numbers n = numbers_of(args, s.index);
        const float *x = row_of(norm->x, s.t) + s.first, *dy = row_of(norm->dy, s.t) + s.first;
        float *dx = row_of(norm->dx, s.t) + s.first;
        const double mean_g = norm->kind == NORM_RMS ? 0 : sum_g[MINE(thread)] / (double)s.count,
                     mean_gn = sum_gn[MINE(thread)] / (double)s.count;
        for (int64_t i = s.lane; i < s.count; i += s.lanes) {
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
    EACH_THREAD(thread)
    {
        const struct norm_segment s = norm_segment(grid, args, thread);
        const int me = MINE(thread);
        sum_g[me] = sum_gn[me] = sum_g_t[me] = sum_gn_t[me] = 0;
        if (s.count == 0) continue;
        const struct norm_numbers n = numbers_of(args, s.index);
        for (int64_t i = s.lane; i < s.count; i += s.lanes) {
            const struct norm_point p = norm_point(norm, &s, &n, i);
            sum_g[me] += p.g;
            sum_gn[me] += p.g * p.n;
            sum_g_t[me] += p.g_t;
            sum_gn_t[me] += p.g_t * p.n + p.g * p.n_t;
        }
    }
    lanes_sum(grid, sum_g, shared, args->lanes);
    lanes_sum(grid, sum_gn, shared, args->lanes);
    lanes_sum(grid, sum_g_t, shared, args->lanes);
    lanes_sum(grid, sum_gn_t, shared, args->lanes);
    EACH_THREAD(thread)
    {
        const struct norm_segment s = norm_segment(grid, args, thread);
        if (s.count == 0) continue;
        const struct norm_numbers n = numbers_of(args, s.index);
        const int me = MINE(thread);
        const double count = (double)s.count, centred = norm->kind == NORM_RMS ? 0 : 1;
        const double mean_g = centred * sum_g[me] / count, mean_gn = sum_gn[me] / count,
                     mean_g_t = centred * sum_g_t[me] / count, mean_gn_t = sum_gn_t[me] / count;
        float *dx = row_of(norm->dx, s.t) + s.first, *dx_t = row_of(norm->dx_t, s.t) + s.first;
        for (int64_t i = s.lane; i < s.count; i += s.lanes) {
            const struct norm_point p = norm_point(norm, &s, &n, i);
            const double h = p.g - mean_g - p.n * mean_gn, h_t = p.g_t - mean_g_t - p.n_t * mean_gn - p.n * mean_gn_t;
            put(&dx[i], n.scale * h, norm->accumulate);
            put(&dx_t[i], n.scale * (h_t - n.scale * n.q * h), norm->accumulate);
        }
    }
}

#endif
