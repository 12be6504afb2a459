/* scan.h: kernels of reference/scan.c and scan_tangent.c, which have the equations; values and tangents are pairs. One
 * channel per thread. In the backward pass a block takes all channels of a group of one sequence, in stripes, because
 * it sums over them; sums over sequences go through `sums` [sequences, channels, states + 2]: da_log by state, dskip,
 * dstep_bias. In double. */
#ifndef BACKEND_CUDA_KERNELS_SCAN_H
#define BACKEND_CUDA_KERNELS_SCAN_H

#include "backend/cuda/kernels/elementwise.h"

struct pair {
    double value, tangent;
};

DEVICE struct pair pair_of(double value, double tangent)
{
    struct pair p;
    p.value = value;
    p.tangent = tangent;
    return p;
}

DEVICE struct pair product(struct pair a, struct pair b)
{
    return pair_of(a.value * b.value, a.value * b.tangent + a.tangent * b.value);
}

DEVICE struct pair sum_of(struct pair a, struct pair b)
{
    return pair_of(a.value + b.value, a.tangent + b.tangent);
}

/* Element [t, c] and its tangent, or 0 without one. */
DEVICE struct pair pair_at(struct matrix m, struct matrix m_t, int64_t t, int64_t c)
{
    return pair_of(m.data != NULL ? (double)row_of(m, t)[c] : 0, m_t.data != NULL ? (double)row_of(m_t, t)[c] : 0);
}

/* A channel's part of the shapes. */
struct scan_position {
    int64_t channel, head, group;
};

DEVICE struct scan_position scan_position(const struct scan_args *s, int64_t channel)
{
    struct scan_position at;
    at.channel = channel;
    at.head = channel / (s->x.columns / s->heads);
    at.group = at.head / (s->heads / s->groups);
    return at;
}

/* The values of a row that a channel's states need; slope: the derivative of delta by the step, with its tangent. */
struct scan_row {
    struct pair delta, x, slope;
};

DEVICE struct scan_row scan_row(const struct scan_args *s, const struct scan_position *at, int64_t t)
{
    const struct pair z =
        sum_of(pair_at(s->step, s->step_t, t, at->head), pair_at(s->step_bias, s->step_bias_t, 0, at->head));
    const double value = z.value > 0 ? z.value + log1p(exp(-z.value)) : log1p(exp(z.value)),
                 sigma = 1 / (1 + exp(-z.value));
    struct scan_row row;
    row.x = pair_at(s->x, s->x_t, t, at->channel);
    row.delta = pair_of(value, sigma * z.tangent);
    row.slope = pair_of(sigma, sigma * (1 - sigma) * z.tangent);
    if (value < s->step_least || value > s->step_most) {
        row.delta = pair_of(value < s->step_least ? s->step_least : s->step_most, 0);
        row.slope = pair_of(0, 0);
    }
    return row;
}

DEVICE struct pair scan_decay(const struct scan_args *s, const struct scan_position *at, int64_t n)
{
    const bool whole = s->a_log.rows == s->heads && s->a_log.columns == s->states;
    const struct pair log = pair_at(s->a_log, s->a_log_t, whole ? at->head : 0, whole ? n : at->head);
    const double a = -exp(log.value);
    return pair_of(a, a * log.tangent);
}

DEVICE struct pair scan_factor(const struct scan_row *row, struct pair a)
{
    const struct pair power = product(row->delta, a);
    const double factor = exp(power.value);
    return pair_of(factor, factor * power.tangent);
}

DEVICE int64_t scan_b(const struct scan_args *s, const struct scan_position *at, int64_t n)
{
    return at->group * s->states + n;
}

DEVICE int64_t scan_c(const struct scan_args *s, const struct scan_position *at, int64_t n)
{
    return (s->groups + at->group) * s->states + n;
}

DEVICE float *scan_kept(struct matrix kept, const struct scan_args *s, const struct scan_position *at, int64_t first,
                        int64_t n)
{
    return row_of(kept, first - SCAN_CHUNK) + n * s->x.columns + at->channel;
}

/* One channel of one sequence, forward: y and what is kept, or their tangents. */
DEVICE void scan_channel(const struct scan_args *s, int64_t b, int64_t start, int64_t end, int64_t channel,
                         bool tangent)
{
    const struct scan_position at = scan_position(s, channel);
    const struct matrix to = tangent ? s->y_t : s->y, kept = tangent ? s->kept_t : s->kept;
    const struct pair skip = pair_at(s->skip, s->skip_t, 0, at.head);
    struct scan_row rows[SCAN_CHUNK];
    struct pair y[SCAN_CHUNK], states[SCAN_STATES];
    for (int64_t n = 0; n < s->states; n++)
        states[n] = pair_of(s->initial.data != NULL ? (double)row_of(s->initial, b)[n * s->x.columns + channel] : 0, 0);
    for (int64_t first = start; first < end; first += SCAN_CHUNK) {
        const int64_t count = least(SCAN_CHUNK, end - first);
        for (int64_t i = 0; i < count; i++) {
            rows[i] = scan_row(s, &at, first + i);
            y[i] = product(skip, rows[i].x);
        }
        for (int64_t n = 0; n < s->states; n++) {
            const struct pair a = scan_decay(s, &at, n);
            struct pair state = states[n];
            if (kept.data != NULL && first > start)
                *scan_kept(kept, s, &at, first, n) = (float)(tangent ? state.tangent : state.value);
            for (int64_t i = 0; i < count; i++) {
                const struct pair input =
                    product(product(rows[i].delta, rows[i].x), pair_at(s->bc, s->bc_t, first + i, scan_b(s, &at, n)));
                state = sum_of(product(scan_factor(&rows[i], a), state), input);
                y[i] = sum_of(y[i], product(state, pair_at(s->bc, s->bc_t, first + i, scan_c(s, &at, n))));
            }
            states[n] = state;
        }
        for (int64_t i = 0; i < count; i++)
            row_of(to, first + i)[channel] = (float)(tangent ? y[i].tangent : y[i].value);
    }
    for (int64_t n = 0; s->final.data != NULL && !tangent && n < s->states; n++)
        row_of(s->final, b)[n * s->x.columns + channel] = (float)states[n].value;
}

DEVICE void scan_walk(const struct launch *grid, const struct scan_kernel_args *args, bool tangent)
{
    const struct scan_args *s = &args->scan;
    const int64_t stripes = (s->x.columns + KERNEL_THREADS - 1) / KERNEL_THREADS, b = grid->block / stripes;
    EACH_THREAD(thread)
    {
        const int64_t channel = grid->block % stripes * KERNEL_THREADS + thread;
        if (channel < s->x.columns) scan_channel(s, b, args->starts[b], args->starts[b + 1], channel, tangent);
    }
}

KERNEL(scan_forward, scan_kernel_args)
{
    scan_walk(grid, args, false);
}

KERNEL(scan_tangent, scan_kernel_args)
{
    scan_walk(grid, args, true);
}

/* The state of a thread's channel in the backward pass. */
struct scan_back {
    bool there;
    struct scan_position at;
    struct scan_row rows[SCAN_CHUNK];
    struct pair dy[SCAN_CHUNK], before[SCAN_CHUNK], w[SCAN_CHUNK], decayed[SCAN_CHUNK], carry[SCAN_STATES];
    struct pair g, s, dskip, dbias;
};

DEVICE void back_begin(const struct scan_args *s, struct scan_back *back, int64_t channel, int64_t end, double *sums)
{
    back->there = channel < end;
    if (!back->there) return;
    back->at = scan_position(s, channel);
    back->dskip = back->dbias = pair_of(0, 0);
    for (int64_t n = 0; n < s->states; n++) {
        back->carry[n] = pair_of(0, 0);
        sums[n] = 0;
    }
}

DEVICE void back_chunk(const struct scan_args *s, struct scan_back *back, int64_t first, int64_t count)
{
    for (int64_t i = 0; i < count && back->there; i++) {
        back->rows[i] = scan_row(s, &back->at, first + i);
        back->dy[i] = pair_at(s->dy, s->dy_t, first + i, back->at.channel);
        back->w[i] = back->decayed[i] = pair_of(0, 0);
        back->dskip = sum_of(back->dskip, product(back->dy[i], back->rows[i].x));
    }
}

DEVICE struct pair back_input(const struct scan_args *s, const struct scan_back *back, int64_t first, int64_t i,
                              int64_t n)
{
    return product(product(back->rows[i].delta, back->rows[i].x),
                   pair_at(s->bc, s->bc_t, first + i, scan_b(s, &back->at, n)));
}

/* Recomputes the states of the chunk: before[i] = a_t s_{t-1}. */
DEVICE void back_states(const struct scan_args *s, struct scan_back *back, bool chunk_has_kept, int64_t first,
                        int64_t count, int64_t n)
{
    if (!back->there) return;
    const struct pair a = scan_decay(s, &back->at, n);
    struct pair state = pair_of(0, 0);
    if (chunk_has_kept)
        state = pair_of((double)*scan_kept(s->kept, s, &back->at, first, n),
                        s->kept_t.data != NULL ? (double)*scan_kept(s->kept_t, s, &back->at, first, n) : 0);
    for (int64_t i = 0; i < count; i++) {
        back->before[i] = product(scan_factor(&back->rows[i], a), state);
        state = sum_of(back->before[i], back_input(s, back, first, i, n));
    }
    back->g = back->carry[n];
}

/* Row i, from the last: returns the channel's parts of dB and dC. */
DEVICE void back_row(const struct scan_args *s, struct scan_back *back, int64_t first, int64_t i, int64_t n,
                     struct pair *db, struct pair *dc, double *sums, bool tangent)
{
    *db = *dc = pair_of(0, 0);
    if (!back->there) return;
    const struct pair a = scan_decay(s, &back->at, n), b = pair_at(s->bc, s->bc_t, first + i, scan_b(s, &back->at, n));
    const struct pair c = pair_at(s->bc, s->bc_t, first + i, scan_c(s, &back->at, n));
    const struct scan_row *row = &back->rows[i];
    back->g = sum_of(back->g, product(back->dy[i], c));
    *db = product(back->g, product(row->delta, row->x));
    *dc = product(back->dy[i], sum_of(back->before[i], back_input(s, back, first, i, n)));
    const struct pair e = product(product(back->g, back->before[i]), a), da = product(e, row->delta);
    back->w[i] = sum_of(back->w[i], product(back->g, b));
    back->decayed[i] = sum_of(back->decayed[i], e);
    sums[n] += tangent ? da.tangent : da.value;
    back->g = product(back->g, scan_factor(row, a));
}

/* Writes dx of row i and returns the channel's part of dstep. */
DEVICE struct pair back_store(const struct scan_args *s, struct scan_back *back, int64_t first, int64_t i, bool tangent)
{
    if (!back->there) return pair_of(0, 0);
    const struct scan_row *row = &back->rows[i];
    const struct pair skip = pair_at(s->skip, s->skip_t, 0, back->at.head);
    const struct pair dx = sum_of(product(skip, back->dy[i]), product(row->delta, back->w[i]));
    const struct pair dstep = product(sum_of(product(row->x, back->w[i]), back->decayed[i]), row->slope);
    row_of(s->dx, first + i)[back->at.channel] = (float)dx.value;
    if (tangent) row_of(s->dx_t, first + i)[back->at.channel] = (float)dx.tangent;
    back->dbias = sum_of(back->dbias, dstep);
    return dstep;
}

/* to[head of each channel] += the channels' parts, summed in order by the first thread of each head. */
DEVICE void back_heads(const struct launch *grid, const struct scan_args *s, const struct scan_back *back,
                       const double *shares, struct matrix to, int64_t t)
{
    const int64_t width = s->x.columns / s->heads;
    EACH_THREAD(thread)
    {
        const struct scan_back *mine = &back[MINE(thread)];
        if (!mine->there || (thread > 0 && mine->at.channel % width > 0)) continue;
        const int64_t left = width - mine->at.channel % width;
        double sum = 0;
        for (int64_t j = thread; j < least(KERNEL_THREADS, thread + left); j++) sum += shares[j];
        row_of(to, t)[mine->at.head] += (float)sum;
    }
}

DEVICE void scan_back_chunk(const struct launch *grid, const struct scan_kernel_args *args, struct scan_back *back,
                            int64_t start, int64_t first, int64_t count, int64_t stripe, int64_t group, double *shared,
                            bool tangent)
{
    const struct scan_args *s = &args->scan;
    const int64_t b = grid->block / s->groups;
    PRIVATE(double, share);
    PRIVATE(double, share_t);
    PRIVATE(double, other);
    PRIVATE(double, other_t);
    EACH_THREAD(thread)
    {
        back_chunk(s, &back[MINE(thread)], first, count);
    }
    for (int64_t n = 0; n < s->states; n++) {
        EACH_THREAD(thread)
        {
            back_states(s, &back[MINE(thread)], first > start, first, count, n);
        }
        for (int64_t i = count - 1; i >= 0; i--) {
            EACH_THREAD(thread)
            {
                struct pair db, dc;
                double *sums =
                    args->sums + (b * s->x.columns + least(stripe + thread, s->x.columns - 1)) * (s->states + 2);
                back_row(s, &back[MINE(thread)], first, i, n, &db, &dc, sums, tangent);
                share[MINE(thread)] = db.value;
                share_t[MINE(thread)] = db.tangent;
                other[MINE(thread)] = dc.value;
                other_t[MINE(thread)] = dc.tangent;
            }
            const double db = block_sum(grid, share, shared), dc = block_sum(grid, other, shared);
            const double db_t = tangent ? block_sum(grid, share_t, shared) : 0,
                         dc_t = tangent ? block_sum(grid, other_t, shared) : 0;
            EACH_THREAD(thread)
            {
                if (thread > 0) continue;
                const int64_t column = group * s->states + n, beyond = s->groups * s->states;
                row_of(s->dbc, first + i)[column] += (float)db;
                row_of(s->dbc, first + i)[beyond + column] += (float)dc;
                if (!tangent) continue;
                row_of(s->dbc_t, first + i)[column] += (float)db_t;
                row_of(s->dbc_t, first + i)[beyond + column] += (float)dc_t;
            }
        }
        EACH_THREAD(thread)
        {
            if (back[MINE(thread)].there) back[MINE(thread)].carry[n] = back[MINE(thread)].g;
        }
    }
    for (int64_t i = 0; i < count; i++) {
        EACH_THREAD(thread)
        {
            const struct pair dstep = back_store(s, &back[MINE(thread)], first, i, tangent);
            shared[thread] = dstep.value;
            share_t[MINE(thread)] = dstep.tangent;
        }
        back_heads(grid, s, back, shared, s->dstep, first + i);
        if (!tangent) continue;
        EACH_THREAD(thread)
        {
            shared[thread] = share_t[MINE(thread)];
        }
        back_heads(grid, s, back, shared, s->dstep_t, first + i);
    }
}

DEVICE void scan_walk_back(const struct launch *grid, const struct scan_kernel_args *args, double *shared, bool tangent)
{
    PRIVATE(struct scan_back, back);
    const struct scan_args *s = &args->scan;
    const int64_t b = grid->block / s->groups, group = grid->block % s->groups, width = s->x.columns / s->groups;
    const int64_t start = args->starts[b], end = args->starts[b + 1], stop = (group + 1) * width;
    for (int64_t stripe = group * width; stripe < stop; stripe += KERNEL_THREADS) {
        EACH_THREAD(thread)
        {
            double *sums = args->sums + (b * s->x.columns + least(stripe + thread, s->x.columns - 1)) * (s->states + 2);
            back_begin(s, &back[MINE(thread)], stripe + thread, stop, sums);
        }
        for (int64_t first = start + (end - start - 1) / SCAN_CHUNK * SCAN_CHUNK; first >= start; first -= SCAN_CHUNK)
            scan_back_chunk(grid, args, back, start, first, least(SCAN_CHUNK, end - first), stripe, group, shared,
                            tangent);
        EACH_THREAD(thread)
        {
            const struct scan_back *mine = &back[MINE(thread)];
            if (!mine->there) continue;
            double *sums = args->sums + (b * s->x.columns + mine->at.channel) * (s->states + 2);
            sums[s->states] = tangent ? mine->dskip.tangent : mine->dskip.value;
            sums[s->states + 1] = tangent ? mine->dbias.tangent : mine->dbias.value;
        }
    }
}

KERNEL(scan_backward, scan_kernel_args)
{
    SHARED double shared[KERNEL_THREADS];
    scan_walk_back(grid, args, shared, false);
}

KERNEL(scan_backward_tangent, scan_kernel_args)
{
    SHARED double shared[KERNEL_THREADS];
    scan_walk_back(grid, args, shared, true);
}

/* The sum of columns [first, first + count) of `sums` over all sequences and the channels of a head. */
DEVICE double scan_total(const struct scan_kernel_args *args, int64_t head, int64_t first, int64_t count)
{
    const struct scan_args *s = &args->scan;
    const int64_t width = s->x.columns / s->heads;
    double sum = 0;
    for (int64_t b = 0; b < args->sequences; b++)
        for (int64_t c = head * width; c < (head + 1) * width; c++)
            for (int64_t n = first; n < first + count; n++)
                sum += args->sums[(b * s->x.columns + c) * (s->states + 2) + n];
    return sum;
}

/* Adds to the gradients of the parameters, or to their tangents: the host puts those in the same fields. */
KERNEL(scan_sums, scan_kernel_args)
{
    const struct scan_args *s = &args->scan;
    const bool whole = s->a_log.rows == s->heads && s->a_log.columns == s->states;
    EACH_ELEMENT(i, s->heads * (s->states + 2))
    {
        const int64_t head = i / (s->states + 2), n = i % (s->states + 2);
        if (n == s->states) {
            if (s->dskip.data != NULL) row_of(s->dskip, 0)[head] += (float)scan_total(args, head, n, 1);
        } else if (n == s->states + 1) {
            if (s->dstep_bias.data != NULL) row_of(s->dstep_bias, 0)[head] += (float)scan_total(args, head, n, 1);
        } else if (s->da_log.data != NULL && whole) {
            row_of(s->da_log, head)[n] += (float)scan_total(args, head, n, 1);
        } else if (s->da_log.data != NULL && n == 0) {
            row_of(s->da_log, 0)[head] += (float)scan_total(args, head, 0, s->states);
        }
    }
}

#endif
