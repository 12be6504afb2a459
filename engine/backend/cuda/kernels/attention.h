/* attention.h: attention forward over separate spans of keys: texts with common beginnings. reference/attention.c has
 * the equations. It works on tiles of 32 queries by 32 keys, whose scores never leave the block (Dao et al., arXiv
 * 2205.14135). */
#ifndef BACKEND_CUDA_KERNELS_ATTENTION_H
#define BACKEND_CUDA_KERNELS_ATTENTION_H

#include "backend/cuda/kernels/kernel.h"

enum {
    TILE = ATTENTION_TILE,
    TILE_LANES = KERNEL_THREADS / TILE, /* a thread has one column and every eighth row of a tile */
    TILE_MINE = TILE / TILE_LANES,
    TILE_PANELS = ATTENTION_DIM / TILE /* panels of 32 columns in a head */
};

struct tile {
    float at[TILE][TILE + 1]; /* one extra column: no two rows begin in the same bank */
};

/* A thread's part of one tile, and of a tile of queries or keys by all columns of a head. */
struct tile_part {
    float at[TILE_MINE];
};

struct head_part {
    float at[TILE_PANELS][TILE_MINE];
};

DEVICE int tile_column(int thread)
{
    return thread % TILE;
}

DEVICE int tile_row(int thread, int mine)
{
    return thread / TILE + mine * TILE_LANES;
}

/* Loads rows [row, row + rows) of one panel of a head; zeros beyond them. */
DEVICE void tile_load(struct tile *to, struct head_view view, int64_t head, const struct attention_rows *rows,
                      int panel, int64_t dim, int thread)
{
    const int c = tile_column(thread);
    const int64_t column = (int64_t)panel * TILE + c;
    UNROLL
    for (int m = 0; m < TILE_MINE; m++) {
        const int r = tile_row(thread, m);
        to->at[r][c] = r < rows->count && column < dim ? head_of(view, rows->row + r, head)[column] : 0;
    }
}

/* sums += a bᵀ over the columns of a panel. */
DEVICE void tile_dots(struct tile_part *sums, const struct tile *a, const struct tile *b, int thread)
{
    for (int c = 0; c < TILE; c++) {
        const float key = b->at[tile_column(thread)][c];
        UNROLL
        for (int m = 0; m < TILE_MINE; m++) sums->at[m] += a->at[tile_row(thread, m)][c] * key;
    }
}

/* sums += weights x: a panel of the columns of x. */
DEVICE void tile_mix(float sums[TILE_MINE], const struct tile *weights, const struct tile *x, int thread)
{
    for (int j = 0; j < TILE; j++) {
        const float value = x->at[j][tile_column(thread)];
        UNROLL
        for (int m = 0; m < TILE_MINE; m++) sums[m] += weights->at[tile_row(thread, m)][j] * value;
    }
}

DEVICE void head_clear(struct head_part *part)
{
    UNROLL
    for (int panel = 0; panel < TILE_PANELS; panel++) UNROLL
    for (int m = 0; m < TILE_MINE; m++) part->at[panel][m] = 0;
}

/* sums += weights x, x the rows of a head. */
DEVICE void head_mix(const struct launch *grid, struct head_part *sums, const struct tile *weights,
                     struct tile *scratch, struct head_view x, int64_t head, const struct attention_rows *rows,
                     int64_t dim)
{
    UNROLL
    for (int panel = 0; panel < TILE_PANELS; panel++) {
        if (panel * TILE >= dim) continue;
        EACH_THREAD(thread)
        {
            tile_load(scratch, x, head, rows, panel, dim, thread);
        }
        EACH_THREAD(thread)
        {
            tile_mix(sums[MINE(thread)].at[panel], weights, scratch, thread);
        }
    }
}

DEVICE void head_store(const struct launch *grid, const struct head_part *sums, struct head_view to, int64_t head,
                       const struct attention_rows *rows, int64_t dim)
{
    EACH_THREAD(thread)
    {
        UNROLL
        for (int panel = 0; panel < TILE_PANELS; panel++) UNROLL
        for (int m = 0; m < TILE_MINE; m++) {
            const int r = tile_row(thread, m);
            const int64_t column = (int64_t)panel * TILE + tile_column(thread);
            if (r < rows->count && column < dim)
                head_of(to, rows->row + r, head)[column] = sums[MINE(thread)].at[panel][m];
        }
    }
}

DEVICE bool key_visible(int64_t query, int64_t key, int64_t window)
{
    return key <= query && (window <= 0 || key > query - window);
}

/* The next tile of keys of a span that a tile of queries sees, from *key (a position) on; false at the end of the
 * span. */
DEVICE bool key_tile(const struct attention_span *span, const struct attention_rows *queries, int64_t window,
                     int64_t *key, struct attention_rows *out)
{
    const int64_t last = queries->position + queries->count - 1, end = least(span->first + span->count, last + 1);
    *key = most(*key, span->first);
    if (window > 0) *key = most(*key, queries->position - window + 1);
    if (*key >= end) return false;
    out->sequence = queries->sequence;
    out->row = span->row + *key - span->first;
    out->count = least(TILE, end - *key);
    out->position = *key;
    *key += out->count;
    return true;
}

struct softmax_rows {
    float largest[TILE], factor[TILE];
    double sum[TILE];
};

/* Turns scores into weights against the largest score so far; earlier sums must be multiplied by `factor`. */
DEVICE void softmax_step(const struct launch *grid, struct softmax_rows *rows, struct tile *scores)
{
    EACH_THREAD(thread)
    {
        if (thread >= TILE) continue;
        const float before = rows->largest[thread];
        float largest = before;
        for (int j = 0; j < TILE; j++)
            if (scores->at[thread][j] > largest) largest = scores->at[thread][j];
        rows->largest[thread] = largest;
        rows->factor[thread] = before == largest ? 1 : expf(before - largest);
    }
    EACH_THREAD(thread)
    {
        for (int m = 0; m < TILE_MINE; m++) {
            float *score = &scores->at[tile_row(thread, m)][tile_column(thread)];
            *score = *score == -INFINITY ? 0 : expf(*score - rows->largest[tile_row(thread, m)]);
        }
    }
    EACH_THREAD(thread)
    {
        if (thread >= TILE) continue;
        double sum = rows->sum[thread] * (double)rows->factor[thread];
        for (int j = 0; j < TILE; j++) sum += (double)scores->at[thread][j];
        rows->sum[thread] = sum;
    }
}

/* scores = scale a bᵀ, minus infinity where a key is not seen. */
DEVICE void masked_scores(const struct launch *grid, const struct attention_args *a, struct tile *scores,
                          struct tile *left, struct tile *right, struct head_view k,
                          const struct attention_rows *queries, int64_t head, const struct attention_rows *keys,
                          int64_t kv_head)
{
    PRIVATE(struct tile_part, sums);
    EACH_THREAD(thread)
    {
        for (int m = 0; m < TILE_MINE; m++) sums[MINE(thread)].at[m] = 0;
    }
    for (int panel = 0; panel * TILE < a->head_dim; panel++) {
        EACH_THREAD(thread)
        {
            tile_load(left, a->q, head, queries, panel, a->head_dim, thread);
            tile_load(right, k, kv_head, keys, panel, a->head_dim, thread);
        }
        EACH_THREAD(thread)
        {
            tile_dots(&sums[MINE(thread)], left, right, thread);
        }
    }
    EACH_THREAD(thread)
    {
        for (int m = 0; m < TILE_MINE; m++) {
            const int r = tile_row(thread, m), j = tile_column(thread);
            const bool seen = r < queries->count && j < keys->count &&
                              key_visible(queries->position + r, keys->position + j, a->window);
            scores->at[r][j] = seen ? (float)a->scale * sums[MINE(thread)].at[m] : -INFINITY;
        }
    }
}

KERNEL(attention_forward, attention_kernel_args)
{
    SHARED struct tile left, right, scores;
    SHARED struct softmax_rows rows;
    PRIVATE(struct head_part, out);
    const struct attention_args *a = &args->attention;
    const struct attention_rows queries = args->tiles[grid->block / a->heads];
    const int64_t head = grid->block % a->heads, kv_head = head / (a->heads / a->kv_heads), b = queries.sequence;
    struct attention_rows keys;
    EACH_THREAD(thread)
    {
        head_clear(&out[MINE(thread)]);
        if (thread >= TILE) continue;
        rows.largest[thread] = -INFINITY;
        rows.sum[thread] = 0;
    }
    for (int64_t s = args->span_starts[b]; s < args->span_starts[b + 1]; s++) {
        const struct attention_span span = args->spans[s];
        const struct head_view k = span.kept ? a->past_k : a->k, v = span.kept ? a->past_v : a->v;
        for (int64_t key = 0; key_tile(&span, &queries, a->window, &key, &keys);) {
            masked_scores(grid, a, &scores, &left, &right, k, &queries, head, &keys, kv_head);
            softmax_step(grid, &rows, &scores);
            EACH_THREAD(thread)
            {
                UNROLL
                for (int panel = 0; panel < TILE_PANELS; panel++) UNROLL
                for (int m = 0; m < TILE_MINE; m++) out[MINE(thread)].at[panel][m] *= rows.factor[tile_row(thread, m)];
            }
            head_mix(grid, out, &scores, &right, v, kv_head, &keys, a->head_dim);
        }
    }
    EACH_THREAD(thread)
    {
        UNROLL
        for (int panel = 0; panel < TILE_PANELS; panel++) UNROLL
        for (int m = 0; m < TILE_MINE; m++)
            out[MINE(thread)].at[panel][m] =
                (float)((double)out[MINE(thread)].at[panel][m] / rows.sum[tile_row(thread, m)]);
        if (thread < queries.count && a->log_sum.data != NULL)
            row_of(a->log_sum, queries.row + thread)[head] =
                (float)((double)rows.largest[thread] + log(rows.sum[thread]));
    }
    head_store(grid, out, a->out, head, &queries, a->head_dim);
}

#endif
