/* attention_rows.h: the work between the products of attention (attention_products.c): it computes the addresses of
 * their factors, and turns rows of scores into weights and slopes. reference/attention.c has the equations. A row
 * belongs to one query and has the keys of its block; keys that the query does not see become zero. A thread has every
 * 32nd column of a row, through all phases. */
#ifndef BACKEND_CUDA_KERNELS_ATTENTION_ROWS_H
#define BACKEND_CUDA_KERNELS_ATTENTION_ROWS_H

#include "backend/cuda/kernels/elementwise.h"

struct attention_pair {
    int64_t start, head, kv_head; /* start: the sequence's first row */
};

DEVICE struct attention_pair attention_pair_of(const struct attention_block_args *args, int64_t pair)
{
    const int64_t i = args->first + pair, round = i / args->kv_heads, kv_head = i % args->kv_heads;
    const struct attention_pair out = {args->starts[round % args->sequences],
                                       kv_head * (args->heads / args->kv_heads) + round / args->sequences, kv_head};
    return out;
}

/* The address of row t of a head; NULL: the view is absent. */
DEVICE char *address_of(struct head_view view, int64_t t, int64_t head)
{
    const int64_t element = (int64_t)view.matrix.element;
    char *data = (char *)view.matrix.data;
    return data != NULL ? data + (t * view.matrix.stride + view.offset + head * view.head_stride) * element : NULL;
}

/* The address of each factor and each matrix of weights, as floats and rounded, for each pair: arrays [(factors,
 * weights, rounded) * 2, pitch]. Each array is stored twice, the second time shifted by one place: one of the two
 * begins at a multiple of 16 bytes for any first pair. */
KERNEL(attention_pointers, attention_block_args)
{
    EACH_ELEMENT(i, (ATTENTION_VIEWS + 2 * ATTENTION_WEIGHTS) * args->pairs)
    {
        const int64_t which = i / args->pairs, pair = i % args->pairs, rest = pair * args->rows * args->stride;
        const int weights = (int)which - ATTENTION_VIEWS, rounded = weights - ATTENTION_WEIGHTS;
        const struct attention_pair p = attention_pair_of(args, pair);
        char *address = NULL;
        float **to = args->pointers + which * 2 * args->pitch + pair;
        if (rounded >= 0 && args->rounded[rounded] != NULL)
            address = (char *)(args->rounded[rounded] + rest);
        else if (weights >= 0 && rounded < 0 && args->weights[weights] != NULL)
            address = (char *)(args->weights[weights] + rest);
        else if (weights < 0)
            address = which < VIEW_K ? address_of(args->factors[which], p.start + args->query, p.head)
                                     : address_of(args->factors[which], p.start + args->key, p.kv_head);
        to[0] = to[args->pitch + 1] = (float *)(void *)address;
    }
}

/* Clears the gradients of keys and values, to which products add. */
KERNEL(attention_clear, attention_block_args)
{
    const int64_t columns = args->kv_heads * args->head_dim;
    EACH_ELEMENT(i, args->tokens * columns)
    {
        const int64_t t = i / columns, head = i % columns / args->head_dim, c = i % args->head_dim;
        for (int which = VIEW_K; which < ATTENTION_VIEWS; which++)
            if ((which == VIEW_DK || which == VIEW_DV || which == VIEW_DK_T || which == VIEW_DV_T) &&
                args->views[which].matrix.data != NULL)
                head_of(args->views[which], t, head)[c] = 0;
    }
}

/* A thread's row: its place in the weights, its row of the batch and its head, and the columns [low, high) of `keys`
 * that it sees (no columns beyond the last row). */
struct weights_row {
    int64_t at, t, head, low, high, keys;
    int lane;
};

DEVICE struct weights_row weights_row_of(const struct launch *grid, const struct attention_block_args *args, int thread)
{
    const int64_t i = grid->block * (KERNEL_THREADS / ATTENTION_LANES) + thread / ATTENTION_LANES;
    const int64_t pair = i / args->rows, r = i % args->rows, position = args->query + r;
    struct weights_row row = {0, 0, 0, 0, 0, 0, thread % ATTENTION_LANES};
    if (pair >= args->pairs) return row;
    const struct attention_pair p = attention_pair_of(args, pair);
    row.at = i * args->stride;
    row.t = p.start + position;
    row.head = p.head;
    row.low = args->window > 0 ? most(0, position - args->window + 1 - args->key) : 0;
    row.high = position + 1 - args->key;
    row.keys = args->keys;
    return row;
}

DEVICE bool row_sees(const struct weights_row *row, int64_t j)
{
    return j >= row->low && j < row->high;
}

/* Stores a weight for the products that follow. */
DEVICE void put_weight(const struct attention_block_args *args, enum attention_weights which, int64_t at, float value)
{
    if (args->rounded[which] != NULL)
        args->rounded[which][at] = (uint16_t)bf16_of(value);
    else
        args->weights[which][at] = value;
}

/* Adds e^z to sum e^-best, a sum of exponentials below the largest exponent so far. NaN stays, and an infinite number
 * gives NaN, like the plain loops. */
DEVICE void lane_take(float z, float *best, double *sum)
{
    if (z > *best) {
        *sum = *sum * (double)expf(*best - z) + (double)(1 + (z - z));
        *best = z;
    } else {
        *sum += (double)expf(z - *best);
    }
}

/* Computes p and log_sum from q·k, which are read twice. */
KERNEL(attention_softmax, attention_block_args)
{
    SHARED double shared[KERNEL_THREADS];
    PRIVATE(double, part);
    PRIVATE(double, sum);
    PRIVATE(float, mine);
    PRIVATE(struct weights_row, rows);
    const float scale = (float)args->scale;
    EACH_THREAD(thread)
    {
        const struct weights_row row = rows[MINE(thread)] = weights_row_of(grid, args, thread);
        const float *scores = args->weights[WEIGHTS_P] + row.at;
        mine[MINE(thread)] = -INFINITY;
        sum[MINE(thread)] = 0;
        for (int j = (int)row.low + row.lane; j < (int)row.high; j += ATTENTION_LANES)
            lane_take(scale * scores[j], &mine[MINE(thread)], &sum[MINE(thread)]);
        part[MINE(thread)] = (double)mine[MINE(thread)];
    }
    lanes_largest(grid, part, shared, ATTENTION_LANES);
    EACH_THREAD(thread)
    {
        const float best = (float)part[MINE(thread)];
        if (sum[MINE(thread)] != 0) sum[MINE(thread)] *= (double)expf(mine[MINE(thread)] - best);
        mine[MINE(thread)] = best;
    }
    lanes_sum(grid, sum, shared, ATTENTION_LANES);
    EACH_THREAD(thread)
    {
        const struct weights_row row = rows[MINE(thread)];
        const float best = mine[MINE(thread)], factor = (float)(1 / sum[MINE(thread)]);
        const float *scores = args->weights[WEIGHTS_P] + row.at;
        for (int j = row.lane; j < (int)row.keys; j += ATTENTION_LANES)
            put_weight(args, WEIGHTS_P, row.at + j, row_sees(&row, j) ? expf(scale * scores[j] - best) * factor : 0);
        if (row.lane == 0 && row.keys > 0 && args->log_sum.data != NULL)
            row_of(args->log_sum, row.t)[row.head] = (float)((double)best + log(sum[MINE(thread)]));
    }
}

/* Computes p, its tangent, and the tangent of log_sum from q·k, its tangent and log_sum. */
KERNEL(attention_softmax_tangent, attention_block_args)
{
    SHARED double shared[KERNEL_THREADS];
    PRIVATE(double, slope);
    PRIVATE(struct weights_row, rows);
    const float scale = (float)args->scale;
    EACH_THREAD(thread)
    {
        const struct weights_row row = rows[MINE(thread)] = weights_row_of(grid, args, thread);
        float *p = args->weights[WEIGHTS_P] + row.at;
        const float *scores_t = args->weights[WEIGHTS_P_T] + row.at;
        const float log_sum = row.keys > 0 ? row_of(args->log_sum, row.t)[row.head] : 0;
        slope[MINE(thread)] = 0;
        for (int64_t j = row.lane; j < row.keys; j += ATTENTION_LANES) {
            p[j] = row_sees(&row, j) ? expf(scale * p[j] - log_sum) : 0;
            if (row_sees(&row, j)) slope[MINE(thread)] += (double)(p[j] * (scale * scores_t[j]));
        }
    }
    lanes_sum(grid, slope, shared, ATTENTION_LANES);
    EACH_THREAD(thread)
    {
        const struct weights_row row = rows[MINE(thread)];
        const float *p = args->weights[WEIGHTS_P] + row.at, log_sum_t = (float)slope[MINE(thread)];
        const float *p_t = args->weights[WEIGHTS_P_T] + row.at;
        for (int64_t j = row.lane; j < row.keys; j += ATTENTION_LANES) {
            if (args->rounded[WEIGHTS_P] != NULL) put_weight(args, WEIGHTS_P, row.at + j, p[j]);
            put_weight(args, WEIGHTS_P_T, row.at + j, row_sees(&row, j) ? p[j] * (scale * p_t[j] - log_sum_t) : 0);
        }
        if (row.lane == 0 && row.keys > 0) row_of(args->log_sum_t, row.t)[row.head] = log_sum_t;
    }
}

/* A lane's part of dout·out, or of its tangent. */
DEVICE double delta_part(const struct attention_block_args *args, const struct weights_row *row, bool tangent)
{
    double sum = 0;
    if (row->keys == 0) return 0;
    const float *out = head_of(args->views[VIEW_OUT], row->t, row->head);
    const float *dout = head_of(args->views[VIEW_DOUT], row->t, row->head);
    if (!tangent) {
        for (int64_t c = row->lane; c < args->head_dim; c += ATTENTION_LANES) sum += (double)dout[c] * (double)out[c];
        return sum;
    }
    const float *out_t = head_of(args->views[VIEW_OUT_T], row->t, row->head);
    const float *dout_t = head_of(args->views[VIEW_DOUT_T], row->t, row->head);
    for (int64_t c = row->lane; c < args->head_dim; c += ATTENTION_LANES)
        sum += (double)dout_t[c] * (double)out[c] + (double)dout[c] * (double)out_t[c];
    return sum;
}

/* Computes p and scale ds, and their tangents, in place from the products' outputs: q·k, dout·v and their tangents. */
DEVICE void row_slopes(const struct attention_block_args *args, const struct weights_row *row, double delta,
                       double delta_t, bool tangent)
{
    const float *p_row = args->weights[WEIGHTS_P] + row->at, *ds_row = args->weights[WEIGHTS_DS] + row->at;
    const float *p_t_row = tangent ? args->weights[WEIGHTS_P_T] + row->at : NULL;
    const float *ds_t_row = tangent ? args->weights[WEIGHTS_DS_T] + row->at : NULL;
    const float scale = (float)args->scale, log_sum = row->keys > 0 ? row_of(args->log_sum, row->t)[row->head] : 0;
    const float log_sum_t = tangent && row->keys > 0 ? row_of(args->log_sum_t, row->t)[row->head] : 0;
    for (int64_t j = row->lane; j < row->keys; j += ATTENTION_LANES) {
        const bool seen = row_sees(row, j);
        const float p = seen ? expf(scale * p_row[j] - log_sum) : 0, e = seen ? (float)((double)ds_row[j] - delta) : 0;
        put_weight(args, WEIGHTS_P, row->at + j, p);
        put_weight(args, WEIGHTS_DS, row->at + j, scale * p * e);
        if (!tangent) continue;
        const float p_t = seen ? p * (scale * p_t_row[j] - log_sum_t) : 0;
        const float e_t = seen ? (float)((double)ds_t_row[j] - delta_t) : 0;
        put_weight(args, WEIGHTS_P_T, row->at + j, p_t);
        put_weight(args, WEIGHTS_DS_T, row->at + j, scale * (p_t * e + p * e_t));
    }
}

DEVICE void slopes(const struct launch *grid, const struct attention_block_args *args, double *shared, bool tangent)
{
    PRIVATE(double, delta);
    PRIVATE(double, delta_t);
    PRIVATE(struct weights_row, rows);
    EACH_THREAD(thread)
    {
        rows[MINE(thread)] = weights_row_of(grid, args, thread);
        delta[MINE(thread)] = delta_part(args, &rows[MINE(thread)], false);
        delta_t[MINE(thread)] = tangent ? delta_part(args, &rows[MINE(thread)], true) : 0;
    }
    lanes_sum(grid, delta, shared, ATTENTION_LANES);
    if (tangent) lanes_sum(grid, delta_t, shared, ATTENTION_LANES);
    EACH_THREAD(thread)
    {
        row_slopes(args, &rows[MINE(thread)], delta[MINE(thread)], delta_t[MINE(thread)], tangent);
    }
}

KERNEL(attention_slopes, attention_block_args)
{
    SHARED double shared[KERNEL_THREADS];
    slopes(grid, args, shared, false);
}

KERNEL(attention_slopes_tangent, attention_block_args)
{
    SHARED double shared[KERNEL_THREADS];
    slopes(grid, args, shared, true);
}

#endif
