/* attention_fused_backward.h: the gradients of attention_fused.h. There are two kernels, one that owns keys and one
 * that owns queries: both compute the weights again, but neither adds to what another block writes. */
#ifndef BACKEND_CUDA_KERNELS_ATTENTION_FUSED_BACKWARD_H
#define BACKEND_CUDA_KERNELS_ATTENTION_FUSED_BACKWARD_H

#include "backend/cuda/kernels/attention_fused.h"

/* delta = dout·out of each query and head. */
KERNEL(attention_delta, attention_fused_args)
{
    SHARED double shared[KERNEL_THREADS];
    PRIVATE(double, delta);
    const int64_t rows = KERNEL_THREADS / ATTENTION_LANES;
    EACH_THREAD(thread)
    {
        const int64_t i = grid->block * rows + thread / ATTENTION_LANES;
        delta[MINE(thread)] = 0;
        if (i >= args->tokens * args->heads) continue;
        const float *out = head_of(args->out, i / args->heads, i % args->heads);
        const float *dout = head_of(args->dout_exact, i / args->heads, i % args->heads);
        for (int64_t c = thread % ATTENTION_LANES; c < args->head_dim; c += ATTENTION_LANES)
            delta[MINE(thread)] += (double)dout[c] * (double)out[c];
    }
    lanes_sum(grid, delta, shared, ATTENTION_LANES);
    EACH_THREAD(thread)
    {
        const int64_t i = grid->block * rows + thread / ATTENTION_LANES;
        if (i < args->tokens * args->heads && thread % ATTENTION_LANES == 0)
            args->delta[i] = (float)delta[MINE(thread)];
    }
}

/* A query's log_sum in base 2 and its delta. Beyond the sequence queries and dout are zeros, which add nothing. */
struct query_state {
    float log_sum, delta;
};

DEVICE struct query_state query_state_of(const struct attention_fused_args *args, const struct fused_block *block,
                                         int query, int64_t head)
{
    struct query_state state = {0, 0};
    if (query >= block->length) return state;
    state.log_sum = row_of(args->log_sum, block->start + query)[head] * LOG2_E;
    state.delta = args->delta[(block->start + query) * args->heads + head];
    return state;
}

/* A weight and its slope, in place of a score and of dout·v. */
DEVICE void fused_slope(float *score, float *slope, const struct query_state *query, float scale, bool seen)
{
    const float p = seen ? power_of_2(scale * LOG2_E * *score - query->log_sum) : 0;
    *slope = seen ? scale * p * (*slope - query->delta) : 0;
    *score = p;
}

struct keys_part {
    struct tile_share q, dout;
    struct query_state fetched;
    struct mma_a k, v, p, ds;
    struct mma_b b[2];
    struct mma_c scores[BACKWARD_ROWS / MMA_COLUMNS], slopes[BACKWARD_ROWS / MMA_COLUMNS];
    struct mma_c dk[2 * FUSED_PANELS], dv[2 * FUSED_PANELS];
};

/* k, v: the block's own rows; NULL: they do not fit in shared memory, and are read from the device's. */
struct keys_tiles {
    uint32_t *k, *v, *q, *dout;
    struct query_state *queries;
};

DEVICE void fetch_queries(struct keys_part *part, const struct attention_fused_args *args,
                          const struct fused_block *block, const struct tile_source *q, const struct tile_source *dout,
                          int64_t head, int panels, int thread)
{
    fetch_tile(&part->q, q, BACKWARD_ROWS, panels, thread);
    fetch_tile(&part->dout, dout, BACKWARD_ROWS, panels, thread);
    if (thread < BACKWARD_ROWS) part->fetched = query_state_of(args, block, q->first + thread, head);
}

/* Scores and slopes of 16 keys (rows) by 32 queries (columns). */
DEVICE void keys_slopes(struct keys_part *part, const struct query_state *queries, int key, int query, float scale,
                        int64_t window, int thread)
{
    UNROLL
    for (int n = 0; n < BACKWARD_ROWS / MMA_COLUMNS; n++) UNROLL
    for (int i = 0; i < 4; i++) {
        const int column = n * MMA_COLUMNS + thread % QUAD * 2 + i % 2;
        fused_slope(&part->scores[n].at[i], &part->slopes[n].at[i], &queries[column], scale,
                    fused_sees(query + column, key + warp_row(thread) + i / 2 * 8, window));
    }
}

/* A warp's 16 rows of the block's own. */
DEVICE struct mma_a own_keys(const uint32_t *tile, const struct tile_source *from, int panels, int panel, int thread)
{
    if (tile == NULL) return own_rows(from, panel, thread);
    return mma_a_rows(tile, tile_pitch(panels), thread / WARP * MMA_ROWS, panel, thread);
}

/* Copies the block's own rows to a tile, before any barrier. */
DEVICE void store_own(uint32_t *tile, const struct tile_source *from, int panels, int thread)
{
    struct tile_share share;
    struct tile_source part = *from;
    for (int row = 0; tile != NULL && row < ATTENTION_FUSED_ROWS; row += FORWARD_KEYS) {
        part.first = from->first + row;
        fetch_tile(&share, &part, FORWARD_KEYS, panels, thread);
        store_tile(tile + row * tile_pitch(panels), &share, FORWARD_KEYS, panels, thread);
    }
}

/* Gradients of 128 keys and values, from all queries and heads that read them. */
DEVICE void fused_keys(const struct launch *grid, const struct attention_fused_args *args,
                       const struct keys_tiles *tiles, const int panels)
{
    PRIVATE(struct keys_part, mine);
    const struct fused_block block = fused_block_of(grid, args, args->kv_heads);
    if (block.first >= block.length) return;
    const float scale = (float)args->scale;
    const int readers = (int)(args->heads / args->kv_heads);
    const int64_t columns = args->head_dim;
    const int end = args->window > 0 ? (int)least(block.first + ATTENTION_FUSED_ROWS - 1 + args->window, block.length)
                                     : block.length;
    const struct tile_source k = tile_source_of(args->k, &block, block.head, block.first, block.length, columns);
    const struct tile_source v = tile_source_of(args->v, &block, block.head, block.first, block.length, columns);
    int64_t head = (int64_t)block.head * readers;
    struct tile_source q = tile_source_of(args->q, &block, head, block.first, end, columns);
    struct tile_source dout = tile_source_of(args->dout, &block, head, block.first, end, columns);
    EACH_LANE(thread)
    {
        clear_sums(mine[MINE(thread)].dk, 2 * panels);
        clear_sums(mine[MINE(thread)].dv, 2 * panels);
        store_own(tiles->k, &k, panels, thread);
        store_own(tiles->v, &v, panels, thread);
        fetch_queries(&mine[MINE(thread)], args, &block, &q, &dout, head, panels, thread);
    }
    for (int reader = 0; reader < readers; reader++)
        for (int query = block.first; query < end; query += BACKWARD_ROWS) {
            q.first = dout.first = query + BACKWARD_ROWS;
            if (q.first >= end && reader + 1 < readers) {
                head = (int64_t)block.head * readers + reader + 1;
                q = tile_source_of(args->q, &block, head, block.first, end, columns);
                dout = tile_source_of(args->dout, &block, head, block.first, end, columns);
            }
            EACH_THREAD(thread)
            {
                const struct keys_part *part = &mine[MINE(thread)];
                store_tile(tiles->q, &part->q, BACKWARD_ROWS, panels, thread);
                store_tile(tiles->dout, &part->dout, BACKWARD_ROWS, panels, thread);
                if (thread < BACKWARD_ROWS) tiles->queries[thread] = part->fetched;
            }
            EACH_LANE(thread)
            {
                fetch_queries(&mine[MINE(thread)], args, &block, &q, &dout, head, panels, thread);
                clear_sums(mine[MINE(thread)].scores, BACKWARD_ROWS / MMA_COLUMNS);
                clear_sums(mine[MINE(thread)].slopes, BACKWARD_ROWS / MMA_COLUMNS);
            }
            UNROLL
            for (int i = 0; i < panels; i++) {
                EACH_LANE(thread)
                {
                    mine[MINE(thread)].k = own_keys(tiles->k, &k, panels, i, thread);
                    mine[MINE(thread)].v = own_keys(tiles->v, &v, panels, i, thread);
                }
                UNROLL
                for (int n = 0; n < BACKWARD_ROWS / MMA_COLUMNS; n += 2) {
                    EACH_LANE(thread)
                    {
                        mma_b_rows(mine[MINE(thread)].b, tiles->q, tile_pitch(panels), n, i, thread);
                    }
                    MMA(mine, scores[n], k, b[0]);
                    MMA(mine, scores[n + 1], k, b[1]);
                    EACH_LANE(thread)
                    {
                        mma_b_rows(mine[MINE(thread)].b, tiles->dout, tile_pitch(panels), n, i, thread);
                    }
                    MMA(mine, slopes[n], v, b[0]);
                    MMA(mine, slopes[n + 1], v, b[1]);
                }
            }
            EACH_LANE(thread)
            {
                keys_slopes(&mine[MINE(thread)], tiles->queries, block.first, query, scale, args->window, thread);
            }
            UNROLL
            for (int j = 0; j < BACKWARD_ROWS / MMA_SUMS; j++) {
                EACH_LANE(thread)
                {
                    struct keys_part *part = &mine[MINE(thread)];
                    part->p = mma_a_of(&part->scores[2 * j], &part->scores[2 * j + 1]);
                    part->ds = mma_a_of(&part->slopes[2 * j], &part->slopes[2 * j + 1]);
                }
                UNROLL
                for (int n = 0; n < 2 * panels; n += 2) {
                    EACH_LANE(thread)
                    {
                        mma_b_columns(mine[MINE(thread)].b, tiles->dout, tile_pitch(panels), n, j, thread);
                    }
                    MMA(mine, dv[n], p, b[0]);
                    MMA(mine, dv[n + 1], p, b[1]);
                    EACH_LANE(thread)
                    {
                        mma_b_columns(mine[MINE(thread)].b, tiles->q, tile_pitch(panels), n, j, thread);
                    }
                    MMA(mine, dk[n], ds, b[0]);
                    MMA(mine, dk[n + 1], ds, b[1]);
                }
            }
            BARRIER(); /* before the tiles are overwritten */
        }
    EACH_LANE(thread)
    {
        const float ones[2] = {1, 1};
        store_sums(mine[MINE(thread)].dk, panels, args->dk, block.head, &block, columns, ones, thread);
        store_sums(mine[MINE(thread)].dv, panels, args->dv, block.head, &block, columns, ones, thread);
    }
}

struct queries_part {
    struct tile_share keys, values;
    struct query_state state[2];
    struct mma_a q[FUSED_PANELS], dout[FUSED_PANELS], ds;
    struct mma_b b[2];
    struct mma_c scores[BACKWARD_ROWS / MMA_COLUMNS], slopes[BACKWARD_ROWS / MMA_COLUMNS], dq[2 * FUSED_PANELS];
};

/* Gradients of 128 queries. */
DEVICE void fused_queries(const struct launch *grid, const struct attention_fused_args *args, uint32_t *keys,
                          uint32_t *values, const int panels)
{
    PRIVATE(struct queries_part, mine);
    const struct fused_block block = fused_block_of(grid, args, args->heads);
    if (block.first >= block.length) return;
    const float scale = (float)args->scale;
    const int end = (int)least(block.first + ATTENTION_FUSED_ROWS, block.length);
    const int begin = args->window > 0 ? (int)most(0, block.first - args->window + 1) : 0;
    const int64_t columns = args->head_dim;
    const struct tile_source q = tile_source_of(args->q, &block, block.head, block.first, block.length, columns);
    const struct tile_source dout = tile_source_of(args->dout, &block, block.head, block.first, block.length, columns);
    struct tile_source k = tile_source_of(args->k, &block, block.kv_head, begin, end, columns);
    struct tile_source v = tile_source_of(args->v, &block, block.kv_head, begin, end, columns);
    EACH_LANE(thread)
    {
        struct queries_part *part = &mine[MINE(thread)];
        UNROLL
        for (int i = 0; i < panels; i++) {
            part->q[i] = own_rows(&q, i, thread);
            part->dout[i] = own_rows(&dout, i, thread);
        }
        UNROLL
        for (int half = 0; half < 2; half++)
            part->state[half] = query_state_of(args, &block, block.first + warp_row(thread) + half * 8, block.head);
        clear_sums(part->dq, 2 * panels);
        fetch_tile(&part->keys, &k, BACKWARD_ROWS, panels, thread);
        fetch_tile(&part->values, &v, BACKWARD_ROWS, panels, thread);
    }
    for (int key = begin; key < end; key += BACKWARD_ROWS) {
        k.first = v.first = key + BACKWARD_ROWS;
        EACH_THREAD(thread)
        {
            store_tile(keys, &mine[MINE(thread)].keys, BACKWARD_ROWS, panels, thread);
            store_tile(values, &mine[MINE(thread)].values, BACKWARD_ROWS, panels, thread);
        }
        EACH_LANE(thread)
        {
            fetch_tile(&mine[MINE(thread)].keys, &k, BACKWARD_ROWS, panels, thread);
            fetch_tile(&mine[MINE(thread)].values, &v, BACKWARD_ROWS, panels, thread);
            clear_sums(mine[MINE(thread)].scores, BACKWARD_ROWS / MMA_COLUMNS);
            clear_sums(mine[MINE(thread)].slopes, BACKWARD_ROWS / MMA_COLUMNS);
        }
        UNROLL
        for (int i = 0; i < panels; i++) UNROLL
        for (int n = 0; n < BACKWARD_ROWS / MMA_COLUMNS; n += 2) {
            EACH_LANE(thread)
            {
                mma_b_rows(mine[MINE(thread)].b, keys, tile_pitch(panels), n, i, thread);
            }
            MMA(mine, scores[n], q[i], b[0]);
            MMA(mine, scores[n + 1], q[i], b[1]);
            EACH_LANE(thread)
            {
                mma_b_rows(mine[MINE(thread)].b, values, tile_pitch(panels), n, i, thread);
            }
            MMA(mine, slopes[n], dout[i], b[0]);
            MMA(mine, slopes[n + 1], dout[i], b[1]);
        }
        EACH_LANE(thread)
        {
            struct queries_part *part = &mine[MINE(thread)];
            UNROLL
            for (int n = 0; n < BACKWARD_ROWS / MMA_COLUMNS; n++) UNROLL
            for (int i = 0; i < 4; i++)
                fused_slope(&part->scores[n].at[i], &part->slopes[n].at[i], &part->state[i / 2], scale,
                            fused_sees(block.first + warp_row(thread) + i / 2 * 8,
                                       key + n * MMA_COLUMNS + thread % QUAD * 2 + i % 2, args->window));
        }
        UNROLL
        for (int j = 0; j < BACKWARD_ROWS / MMA_SUMS; j++) {
            EACH_LANE(thread)
            {
                struct queries_part *part = &mine[MINE(thread)];
                part->ds = mma_a_of(&part->slopes[2 * j], &part->slopes[2 * j + 1]);
            }
            UNROLL
            for (int n = 0; n < 2 * panels; n += 2) {
                EACH_LANE(thread)
                {
                    mma_b_columns(mine[MINE(thread)].b, keys, tile_pitch(panels), n, j, thread);
                }
                MMA(mine, dq[n], ds, b[0]);
                MMA(mine, dq[n + 1], ds, b[1]);
            }
        }
        BARRIER(); /* before the tiles are overwritten */
    }
    EACH_LANE(thread)
    {
        const float ones[2] = {1, 1};
        store_sums(mine[MINE(thread)].dq, panels, args->dq, block.head, &block, columns, ones, thread);
    }
}

KERNEL(attention_keys_64, attention_fused_args)
{
    FUSED_TILE(k, ATTENTION_FUSED_ROWS, FUSED_PANELS / 2);
    FUSED_TILE(v, ATTENTION_FUSED_ROWS, FUSED_PANELS / 2);
    FUSED_TILE(q, BACKWARD_ROWS, FUSED_PANELS / 2);
    FUSED_TILE(dout, BACKWARD_ROWS, FUSED_PANELS / 2);
    SHARED struct query_state queries[BACKWARD_ROWS];
    const struct keys_tiles tiles = {k, v, q, dout, queries};
    fused_keys(grid, args, &tiles, FUSED_PANELS / 2);
}

KERNEL(attention_keys_128, attention_fused_args)
{
    FUSED_TILE(q, BACKWARD_ROWS, FUSED_PANELS);
    FUSED_TILE(dout, BACKWARD_ROWS, FUSED_PANELS);
    SHARED struct query_state queries[BACKWARD_ROWS];
    const struct keys_tiles tiles = {NULL, NULL, q, dout, queries};
    fused_keys(grid, args, &tiles, FUSED_PANELS);
}

KERNEL(attention_queries_64, attention_fused_args)
{
    FUSED_TILE(keys, BACKWARD_ROWS, FUSED_PANELS / 2);
    FUSED_TILE(values, BACKWARD_ROWS, FUSED_PANELS / 2);
    fused_queries(grid, args, keys, values, FUSED_PANELS / 2);
}

KERNEL(attention_queries_128, attention_fused_args)
{
    FUSED_TILE(keys, BACKWARD_ROWS, FUSED_PANELS);
    FUSED_TILE(values, BACKWARD_ROWS, FUSED_PANELS);
    fused_queries(grid, args, keys, values, FUSED_PANELS);
}

#endif
