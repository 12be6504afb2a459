/* attention_backward.h: the passes of attention that begin with a known log_sum: along a direction, back, and back along a
 * direction. */
#ifndef BACKEND_CUDA_KERNELS_ATTENTION_BACKWARD_H
#define BACKEND_CUDA_KERNELS_ATTENTION_BACKWARD_H

#include "backend/cuda/kernels/attention.h"

/* What a block holds of a tile of queries by a tile of keys: four panels, then p and scale ds with their tangents. */
struct tile_work {
    struct tile panel[4];
    struct tile p, ds, p_t, ds_t;
    float log_sum[TILE], log_sum_t[TILE];
    double delta[TILE], delta_t[TILE];
};

struct pair_part {
    struct tile_part value, tangent;
};

/* value += x yᵀ and, with a tangent, tangent += x_t yᵀ + x y_tᵀ, over all columns of a head. */
DEVICE void pair_dots(const struct launch *grid, struct pair_part *sums, struct tile_work *work, const struct head_view views[4],
                      const int64_t heads[2], const struct attention_rows *rows[2], int64_t dim, bool tangent)
{
    EACH_THREAD(thread)
    {
        for (int m = 0; m < TILE_MINE; m++) sums[MINE(thread)].value.at[m] = sums[MINE(thread)].tangent.at[m] = 0;
    }
    for (int panel = 0; panel * TILE < dim; panel++) {
        EACH_THREAD(thread)
        {
            for (int i = 0; i < (tangent ? 4 : 2); i++)
                tile_load(&work->panel[i], views[i], heads[i % 2], rows[i % 2], panel, dim, thread);
        }
        EACH_THREAD(thread)
        {
            tile_dots(&sums[MINE(thread)].value, &work->panel[0], &work->panel[1], thread);
            if (!tangent) continue;
            tile_dots(&sums[MINE(thread)].tangent, &work->panel[2], &work->panel[1], thread);
            tile_dots(&sums[MINE(thread)].tangent, &work->panel[0], &work->panel[3], thread);
        }
    }
}

/* The softmax's weights, and p_t when their tangents are wanted; `centre`: of log_sum_t too, else p_t is p s_t. */
DEVICE void work_weights(const struct launch *grid, const struct attention_args *a, struct tile_work *work,
                         const struct attention_rows *queries, int64_t head, const struct attention_rows *keys, int64_t kv_head,
                         bool tangent, bool centre)
{
    PRIVATE(struct pair_part, sums);
    const struct head_view views[4] = {a->q, a->k, a->q_t, a->k_t};
    const struct attention_rows *rows[2] = {queries, keys};
    const int64_t heads[2] = {head, kv_head};
    pair_dots(grid, sums, work, views, heads, rows, a->head_dim, tangent);
    EACH_THREAD(thread)
    {
        for (int m = 0; m < TILE_MINE; m++) {
            const int r = tile_row(thread, m), j = tile_column(thread);
            const bool seen =
                r < queries->count && j < keys->count && key_visible(queries->position + r, keys->position + j, a->window);
            const float p = seen ? expf((float)a->scale * sums[MINE(thread)].value.at[m] - work->log_sum[r]) : 0;
            work->p.at[r][j] = p;
            if (!tangent) continue;
            const float slope = (float)a->scale * sums[MINE(thread)].tangent.at[m] - (centre ? work->log_sum_t[r] : 0);
            work->p_t.at[r][j] = seen ? p * slope : 0;
        }
    }
}

/* scale ds (and its tangent) from the weights. */
DEVICE void work_slopes(const struct launch *grid, const struct attention_args *a, struct tile_work *work,
                        const struct attention_rows *queries, int64_t head, const struct attention_rows *keys, int64_t kv_head,
                        bool tangent)
{
    PRIVATE(struct pair_part, sums);
    const struct head_view views[4] = {a->dout, a->v, a->dout_t, a->v_t};
    const struct attention_rows *rows[2] = {queries, keys};
    const int64_t heads[2] = {head, kv_head};
    pair_dots(grid, sums, work, views, heads, rows, a->head_dim, tangent);
    EACH_THREAD(thread)
    {
        for (int m = 0; m < TILE_MINE; m++) {
            const int r = tile_row(thread, m), j = tile_column(thread);
            const bool there = r < queries->count && j < keys->count;
            const float e = there ? (float)((double)sums[MINE(thread)].value.at[m] - work->delta[r]) : 0, p = work->p.at[r][j];
            work->ds.at[r][j] = (float)a->scale * p * e;
            if (!tangent) continue;
            const float e_t = there ? (float)((double)sums[MINE(thread)].tangent.at[m] - work->delta_t[r]) : 0;
            work->ds_t.at[r][j] = (float)a->scale * (work->p_t.at[r][j] * e + p * e_t);
        }
    }
}

/* What is known of the queries' softmax. */
DEVICE void work_rows(const struct launch *grid, const struct attention_kernel_args *args, struct tile_work *work,
                      const struct attention_rows *queries, int64_t head, bool tangent, bool backward)
{
    const struct attention_args *a = &args->attention;
    EACH_THREAD(thread)
    {
        if (thread >= TILE) continue;
        const bool there = thread < queries->count;
        const int64_t t = queries->row + thread;
        work->log_sum[thread] = there ? row_of(a->log_sum, t)[head] : 0;
        work->log_sum_t[thread] = there && tangent && backward ? row_of(a->log_sum_t, t)[head] : 0;
        work->delta[thread] = there && backward ? args->delta[(t * a->heads + head) * 2] : 0;
        work->delta_t[thread] = there && backward ? args->delta[(t * a->heads + head) * 2 + 1] : 0;
    }
}

/* out_t = sum_j p s_t v + p v_t - log_sum_t out: one walk over the keys, log_sum_t is known at its end. */
KERNEL(attention_tangent, attention_kernel_args)
{
    SHARED struct tile_work work;
    SHARED double slope[TILE];
    PRIVATE(struct head_part, out);
    const struct attention_args *a = &args->attention;
    const struct attention_rows queries = args->tiles[grid->block / a->heads];
    const int64_t head = grid->block % a->heads, kv_head = head / (a->heads / a->kv_heads);
    const struct attention_span span = args->spans[args->span_starts[queries.sequence]];
    struct attention_rows keys;
    work_rows(grid, args, &work, &queries, head, true, false);
    EACH_THREAD(thread)
    {
        head_clear(&out[MINE(thread)]);
        if (thread < TILE) slope[thread] = 0;
    }
    for (int64_t key = 0; key_tile(&span, &queries, a->window, &key, &keys);) {
        work_weights(grid, a, &work, &queries, head, &keys, kv_head, true, false);
        EACH_THREAD(thread)
        {
            for (int j = 0; thread < TILE && j < TILE; j++) slope[thread] += (double)work.p_t.at[thread][j];
        }
        head_mix(grid, out, &work.p_t, false, &work.panel[0], a->v, kv_head, &keys, a->head_dim);
        head_mix(grid, out, &work.p, false, &work.panel[0], a->v_t, kv_head, &keys, a->head_dim);
    }
    EACH_THREAD(thread)
    {
        UNROLL
        for (int panel = 0; panel < TILE_PANELS; panel++) UNROLL
        for (int m = 0; m < TILE_MINE; m++) {
            const int r = tile_row(thread, m);
            const int64_t column = (int64_t)panel * TILE + tile_column(thread);
            if (r >= queries.count || column >= a->head_dim) continue;
            out[MINE(thread)].at[panel][m] -= (float)(slope[r] * (double)head_of(a->out, queries.row + r, head)[column]);
        }
        if (thread < queries.count) row_of(a->log_sum_t, queries.row + thread)[head] = (float)slope[thread];
    }
    head_store(grid, out, a->out_t, head, &queries, a->head_dim, false);
}

/* dout·out and dout_t·out + dout·out_t of each row and head; a thread has one. */
KERNEL(attention_delta, attention_kernel_args)
{
    const struct attention_args *a = &args->attention;
    EACH_THREAD(thread)
    {
        const int64_t i = grid->block * KERNEL_THREADS + thread;
        if (i >= a->out.matrix.rows * a->heads) continue;
        const int64_t t = i / a->heads, head = i % a->heads;
        const float *dout = head_of(a->dout, t, head), *out = head_of(a->out, t, head);
        double delta = 0, delta_t = 0;
        for (int64_t c = 0; c < a->head_dim; c++) delta += (double)dout[c] * (double)out[c];
        if (a->dout_t.matrix.data != NULL) {
            const float *dout_t = head_of(a->dout_t, t, head), *out_t = head_of(a->out_t, t, head);
            for (int64_t c = 0; c < a->head_dim; c++)
                delta_t += (double)dout_t[c] * (double)out[c] + (double)dout[c] * (double)out_t[c];
        }
        args->delta[i * 2] = delta;
        args->delta[i * 2 + 1] = delta_t;
    }
}

/* dq (and dq_t) of a tile of queries. */
DEVICE void backward_queries(const struct launch *grid, const struct attention_kernel_args *args, struct tile_work *work,
                             bool tangent)
{
    PRIVATE(struct head_part, dq);
    PRIVATE(struct head_part, dq_t);
    const struct attention_args *a = &args->attention;
    const struct attention_rows queries = args->tiles[grid->block / a->heads];
    const int64_t head = grid->block % a->heads, kv_head = head / (a->heads / a->kv_heads), dim = a->head_dim;
    const struct attention_span span = args->spans[args->span_starts[queries.sequence]];
    struct attention_rows keys;
    work_rows(grid, args, work, &queries, head, tangent, true);
    EACH_THREAD(thread)
    {
        head_clear(&dq[MINE(thread)]);
        head_clear(&dq_t[MINE(thread)]);
    }
    for (int64_t key = 0; key_tile(&span, &queries, a->window, &key, &keys);) {
        work_weights(grid, a, work, &queries, head, &keys, kv_head, tangent, true);
        work_slopes(grid, a, work, &queries, head, &keys, kv_head, tangent);
        head_mix(grid, dq, &work->ds, false, &work->panel[0], a->k, kv_head, &keys, dim);
        if (!tangent) continue;
        head_mix(grid, dq_t, &work->ds_t, false, &work->panel[0], a->k, kv_head, &keys, dim);
        head_mix(grid, dq_t, &work->ds, false, &work->panel[0], a->k_t, kv_head, &keys, dim);
    }
    head_store(grid, dq, a->dq, head, &queries, dim, false);
    if (tangent) head_store(grid, dq_t, a->dq_t, head, &queries, dim, false);
}

/* The next tile of queries that see a tile of keys, from row *query on; false when none is left. */
DEVICE bool query_tile(const struct attention_kernel_args *args, const struct attention_rows *keys, int64_t *query,
                       struct attention_rows *out)
{
    const int64_t start = args->starts[keys->sequence], window = args->attention.window, last = keys->row + keys->count - 1;
    int64_t end = args->starts[keys->sequence + 1];
    if (window > 0) end = least(end, last + window);
    *query = most(*query, keys->row);
    if (*query >= end) return false;
    out->sequence = keys->sequence;
    out->row = *query;
    out->count = least(TILE, end - *query);
    out->position = *query - start;
    *query += out->count;
    return true;
}

/* dk, or dv, of a tile of keys: from all queries of all heads that read it. */
DEVICE void backward_keys(const struct launch *grid, const struct attention_kernel_args *args, struct tile_work *work, bool values,
                          bool tangent)
{
    PRIVATE(struct head_part, sums);
    PRIVATE(struct head_part, sums_t);
    const struct attention_args *a = &args->attention;
    const struct attention_rows keys = args->tiles[grid->block / a->kv_heads];
    const int64_t kv_head = grid->block % a->kv_heads, shared = a->heads / a->kv_heads, dim = a->head_dim;
    const struct tile *weights = values ? &work->p : &work->ds, *weights_t = values ? &work->p_t : &work->ds_t;
    const struct head_view x = values ? a->dout : a->q, x_t = values ? a->dout_t : a->q_t;
    struct attention_rows queries;
    EACH_THREAD(thread)
    {
        head_clear(&sums[MINE(thread)]);
        head_clear(&sums_t[MINE(thread)]);
    }
    for (int64_t head = kv_head * shared; head < (kv_head + 1) * shared; head++)
        for (int64_t query = 0; query_tile(args, &keys, &query, &queries);) {
            work_rows(grid, args, work, &queries, head, tangent, true);
            work_weights(grid, a, work, &queries, head, &keys, kv_head, tangent, true);
            if (!values) work_slopes(grid, a, work, &queries, head, &keys, kv_head, tangent);
            head_mix(grid, sums, weights, true, &work->panel[0], x, head, &queries, dim);
            if (!tangent) continue;
            head_mix(grid, sums_t, weights_t, true, &work->panel[0], x, head, &queries, dim);
            head_mix(grid, sums_t, weights, true, &work->panel[0], x_t, head, &queries, dim);
        }
    head_store(grid, sums, values ? a->dv : a->dk, kv_head, &keys, dim, false);
    if (tangent) head_store(grid, sums_t, values ? a->dv_t : a->dk_t, kv_head, &keys, dim, false);
}

KERNEL(attention_backward_queries, attention_kernel_args)
{
    SHARED struct tile_work work;
    backward_queries(grid, args, &work, false);
}

KERNEL(attention_backward_keys, attention_kernel_args)
{
    SHARED struct tile_work work;
    backward_keys(grid, args, &work, false, false);
}

KERNEL(attention_backward_values, attention_kernel_args)
{
    SHARED struct tile_work work;
    backward_keys(grid, args, &work, true, false);
}

KERNEL(attention_backward_queries_tangent, attention_kernel_args)
{
    SHARED struct tile_work work;
    backward_queries(grid, args, &work, true);
}

KERNEL(attention_backward_keys_tangent, attention_kernel_args)
{
    SHARED struct tile_work work;
    backward_keys(grid, args, &work, false, true);
}

KERNEL(attention_backward_values_tangent, attention_kernel_args)
{
    SHARED struct tile_work work;
    backward_keys(grid, args, &work, true, true);
}

#endif
