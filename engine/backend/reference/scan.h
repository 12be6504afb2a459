/* scan.h: shared by scan.c and scan_tangent.c: the numbers of one channel in one chunk of a sequence. All in double. */
#ifndef BACKEND_REFERENCE_SCAN_H
#define BACKEND_REFERENCE_SCAN_H

#include "backend/reference/real.h"

#include <math.h>

/* The indices of a channel, and the rows of the chunk. */
struct scan_position {
    int64_t start, first, count; /* rows: first of the sequence, first of the chunk, number in the chunk */
    int64_t channel, head, group;
};

static inline struct scan_position scan_position(const struct scan_args *args, int64_t start, int64_t channel)
{
    const int64_t head = channel / (args->x.columns / args->heads);
    return (struct scan_position){
        .start = start, .channel = channel, .head = head, .group = head / (args->heads / args->groups)};
}

/* delta = clamp(softplus(z)), its derivatives by z. */
struct scan_step {
    double value, slope, curve;
};

static inline struct scan_step scan_step(const struct scan_args *args, const struct scan_position *at, int64_t i)
{
    const double bias = args->step_bias.data != NULL ? (double)row_of(args->step_bias, 0)[at->head] : 0;
    const double z = (double)row_of(args->step, at->first + i)[at->head] + bias;
    const double value = z > 0 ? z + log1p(exp(-z)) : log1p(exp(z)), sigma = 1 / (1 + exp(-z));
    if (value < args->step_least) return (struct scan_step){args->step_least, 0, 0};
    if (value > args->step_most) return (struct scan_step){args->step_most, 0, 0};
    return (struct scan_step){value, sigma, sigma * (1 - sigma)};
}

static inline double scan_step_tangent(const struct scan_args *args, const struct scan_position *at, int64_t i)
{
    const double bias_t = args->step_bias_t.data != NULL ? (double)row_of(args->step_bias_t, 0)[at->head] : 0;
    return (double)row_of(args->step_t, at->first + i)[at->head] + bias_t;
}

/* An element of a [H, N] or [1, H] parameter. */
static inline real *scan_decay(struct matrix parameter, const struct scan_args *args, const struct scan_position *at,
                               int64_t n)
{
    return parameter.rows == args->heads && parameter.columns == args->states ? row_of(parameter, at->head) + n
                                                                              : row_of(parameter, 0) + at->head;
}

static inline real *scan_b(struct matrix bc, const struct scan_args *args, const struct scan_position *at, int64_t i,
                           int64_t n)
{
    return row_of(bc, at->first + i) + at->group * args->states + n;
}

static inline real *scan_c(struct matrix bc, const struct scan_args *args, const struct scan_position *at, int64_t i,
                           int64_t n)
{
    return scan_b(bc, args, at, i, n) + args->groups * args->states;
}

/* The kept state before the chunk; every chunk but the first has one. */
static inline real *scan_kept(struct matrix kept, const struct scan_args *args, const struct scan_position *at,
                              int64_t n)
{
    return row_of(kept, at->first - SCAN_CHUNK) + n * args->x.columns + at->channel;
}

static inline int64_t scan_count(int64_t first, int64_t end)
{
    return end - first < SCAN_CHUNK ? end - first : SCAN_CHUNK;
}

/* The first row of the last chunk of rows [start, end). */
static inline int64_t scan_last(int64_t start, int64_t end)
{
    return start + (end - start - 1) / SCAN_CHUNK * SCAN_CHUNK;
}

#endif
