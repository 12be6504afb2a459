/* attention_fused.h: attention of whole sequences with factors in bfloat16, whose scores and weights never leave the
 * block of threads (Dao, arXiv 2307.08691). reference/attention.c has the equations. A warp owns 16 queries, or 16
 * keys, and goes through what they see: tiles in shared memory that the whole block reads. While it computes with one
 * tile, it fetches the next. Weights are rounded before they are divided by their sum. */
#ifndef BACKEND_CUDA_KERNELS_ATTENTION_FUSED_H
#define BACKEND_CUDA_KERNELS_ATTENTION_FUSED_H

#include "backend/cuda/kernels/mma.h"

enum {
    FUSED_PANELS = ATTENTION_FUSED_DIM / MMA_SUMS, /* most panels of 16 columns in a head */
    FORWARD_KEYS = 64,                             /* rows of a tile, forward … */
    BACKWARD_ROWS = 32,                            /* … and backward */
};

static const float LOG2_E = 1.44269504F, LN_2 = 0.693147181F;

struct words {
    uint32_t at[4];
} ALIGNED(16);

/* The block's 128 rows of one sequence and head, as positions in the sequence. */
struct fused_block {
    int64_t start; /* the sequence's first row */
    int length, first, head, kv_head;
};

DEVICE struct fused_block fused_block_of(const struct launch *grid, const struct attention_fused_args *args,
                                         int64_t heads)
{
    const int64_t tile = grid->block % args->tiles, pair = grid->block / args->tiles, sequence = pair / heads;
    const int64_t readers = args->heads / args->kv_heads;
    struct fused_block block;
    block.start = args->starts[sequence];
    block.length = (int)(args->starts[sequence + 1] - block.start);
    block.first = (int)(args->tiles - 1 - tile) * ATTENTION_FUSED_ROWS; /* late queries see the most keys */
    block.head = (int)(pair % heads);
    block.kv_head = heads == args->heads ? (int)(block.head / readers) : block.head;
    return block;
}

/* ---- Tiles ---- */

/* Rows [first, end) of a head of one sequence; beyond them and beyond the head's columns are zeros. */
struct tile_source {
    const uint16_t *rows; /* of the sequence */
    int stride, first, end, columns;
};

DEVICE struct tile_source tile_source_of(struct head_view view, const struct fused_block *block, int64_t head,
                                         int first, int end, int64_t columns)
{
    const uint16_t *rows =
        (const uint16_t *)view.matrix.data + block->start * view.matrix.stride + head * view.head_stride;
    const struct tile_source source = {rows, (int)view.matrix.stride, first, end, (int)columns};
    return source;
}

/* A row's words lie in other banks than those of the 7 rows around it. */
DEVICE int tile_pitch(int panels)
{
    return panels * MMA_PAIRS + 4;
}

/* A thread's share of a tile: 8 numbers at a time. */
#define TILE_SHARE(rows, panels) ((rows) * (panels)*2 / KERNEL_THREADS)
enum { MOST_SHARE = TILE_SHARE(FORWARD_KEYS, FUSED_PANELS) };

struct tile_share {
    struct words at[MOST_SHARE];
};

DEVICE void fetch_tile(struct tile_share *share, const struct tile_source *from, int rows, int panels, int thread)
{
    const uint16_t *tile = from->rows + (int64_t)from->first * from->stride;
    UNROLL
    for (int i = 0; i < TILE_SHARE(rows, panels); i++) {
        const int unit = thread + i * KERNEL_THREADS, row = unit / (2 * panels), column = unit % (2 * panels) * 8;
        const struct words none = {{0, 0, 0, 0}};
        share->at[i] = none;
        if (from->first + row < from->end && column < from->columns)
            COPY(struct words, &share->at[i], tile + row * from->stride + column);
    }
}

DEVICE void store_tile(uint32_t *tile, const struct tile_share *share, int rows, int panels, int thread)
{
    UNROLL
    for (int i = 0; i < TILE_SHARE(rows, panels); i++) {
        const int unit = thread + i * KERNEL_THREADS;
        COPY(struct words, tile + unit / (2 * panels) * tile_pitch(panels) + unit % (2 * panels) * 4, &share->at[i]);
    }
}

/* ---- A warp's rows ---- */

DEVICE int warp_row(int thread)
{
    return thread / WARP * MMA_ROWS + thread % WARP / QUAD;
}

/* Pairs of columns of one panel of a warp's 16 rows. */
DEVICE struct mma_a own_rows(const struct tile_source *from, int panel, int thread)
{
    const int row = from->first + warp_row(thread), column = panel * MMA_SUMS + thread % QUAD * 2;
    struct mma_a a;
    UNROLL
    for (int part = 0; part < 4; part++) {
        const int r = row + part % 2 * 8, c = column + part / 2 * 8;
        a.pair[part] = 0;
        if (r < from->end && c < from->columns)
            COPY(uint32_t, &a.pair[part], from->rows + (int64_t)r * from->stride + c);
    }
    return a;
}

DEVICE void clear_sums(struct mma_c *sums, int count)
{
    UNROLL
    for (int n = 0; n < count; n++) UNROLL
    for (int i = 0; i < 4; i++) sums[n].at[i] = 0;
}

/* Writes a warp's rows of sums, times one factor for row r and one for row r + 8. */
DEVICE void store_sums(const struct mma_c *sums, int panels, struct head_view to, int64_t head,
                       const struct fused_block *block, int64_t columns, const float factors[2], int thread)
{
    UNROLL
    for (int half = 0; half < 2; half++) {
        const int row = block->first + warp_row(thread) + half * 8;
        if (row >= block->length) continue;
        float *out = head_of(to, block->start + row, head) + thread % QUAD * 2;
        UNROLL
        for (int n = 0; n < 2 * panels; n++) {
            if (n * MMA_COLUMNS >= columns) continue;
            out[n * MMA_COLUMNS] = sums[n].at[2 * half] * factors[half];
            out[n * MMA_COLUMNS + 1] = sums[n].at[2 * half + 1] * factors[half];
        }
    }
}

DEVICE bool fused_sees(int query, int key, int64_t window)
{
    return key <= query && (window <= 0 || key > query - window);
}

/* ---- Forward ---- */

struct forward_part {
    struct tile_share keys, values;
    struct mma_a q[FUSED_PANELS], p;
    struct mma_b b[2];
    struct mma_c scores[FORWARD_KEYS / MMA_COLUMNS], out[2 * FUSED_PANELS];
    float best[2], factor[2]; /* largest score so far; what earlier sums are multiplied by */
    double sum[2];
};

/* Scores of keys that are not seen become minus infinity. */
DEVICE void forward_mask(struct forward_part *mine, int query, int key, int64_t window)
{
    UNROLL
    for (int n = 0; n < FORWARD_KEYS / MMA_COLUMNS; n++) UNROLL
    for (int i = 0; i < 4; i++)
        if (!fused_sees(query + i / 2 * 8, key + n * MMA_COLUMNS + i % 2, window)) mine->scores[n].at[i] = -INFINITY;
}

/* The thread's largest scores; NaN never wins. */
DEVICE void forward_largest(struct forward_part *mine)
{
    UNROLL
    for (int half = 0; half < 2; half++) mine->factor[half] = mine->best[half];
    UNROLL
    for (int n = 0; n < FORWARD_KEYS / MMA_COLUMNS; n++) UNROLL
    for (int i = 0; i < 4; i++) mine->factor[i / 2] = fmaxf(mine->factor[i / 2], mine->scores[n].at[i]);
}

/* Scores become weights against the largest so far. scale: of scores, for powers of 2. */
DEVICE void forward_weights(struct forward_part *mine, float scale)
{
    float against[2], sum[2] = {0, 0};
    UNROLL
    for (int half = 0; half < 2; half++) {
        const float best = mine->factor[half];
        against[half] = best == -INFINITY ? 0 : scale * best; /* nothing is seen yet */
        mine->factor[half] = power_of_2(scale * mine->best[half] - against[half]);
        mine->best[half] = best;
    }
    UNROLL
    for (int n = 0; n < FORWARD_KEYS / MMA_COLUMNS; n++) UNROLL
    for (int i = 0; i < 4; i++) {
        const float p = power_of_2(fmaf(scale, mine->scores[n].at[i], -against[i / 2]));
        mine->scores[n].at[i] = p;
        sum[i / 2] += p;
    }
    UNROLL
    for (int half = 0; half < 2; half++)
        mine->sum[half] = mine->sum[half] * (double)mine->factor[half] + (double)sum[half];
}

DEVICE void forward_finish(const struct forward_part *mine, const struct attention_fused_args *args,
                           const struct fused_block *block, float scale, int panels, int thread)
{
    const float factors[2] = {(float)(1 / mine->sum[0]), (float)(1 / mine->sum[1])};
    store_sums(mine->out, panels, args->out, block->head, block, args->head_dim, factors, thread);
    for (int half = 0; half < 2 && args->log_sum.data != NULL && thread % QUAD == 0; half++) {
        const int row = block->first + warp_row(thread) + half * 8;
        if (row < block->length)
            row_of(args->log_sum, block->start + row)[block->head] =
                (float)((double)(scale * mine->best[half]) * (double)LN_2 + log(mine->sum[half]));
    }
}

DEVICE void fused_forward(const struct launch *grid, const struct attention_fused_args *args, uint32_t *keys,
                          uint32_t *values, const int panels)
{
    PRIVATE(struct forward_part, mine);
    const struct fused_block block = fused_block_of(grid, args, args->heads);
    if (block.first >= block.length) return;
    const float scale = (float)args->scale * LOG2_E;
    const int end = (int)least(block.first + ATTENTION_FUSED_ROWS, block.length);
    const int begin = args->window > 0 ? (int)most(0, block.first - args->window + 1) : 0;
    const struct tile_source q = tile_source_of(args->q, &block, block.head, block.first, block.length, args->head_dim);
    struct tile_source k = tile_source_of(args->k, &block, block.kv_head, begin, end, args->head_dim);
    struct tile_source v = tile_source_of(args->v, &block, block.kv_head, begin, end, args->head_dim);
    EACH_LANE(thread)
    {
        struct forward_part *part = &mine[MINE(thread)];
        UNROLL
        for (int i = 0; i < panels; i++) part->q[i] = own_rows(&q, i, thread);
        clear_sums(part->out, 2 * panels);
        UNROLL
        for (int half = 0; half < 2; half++) part->best[half] = -INFINITY, part->sum[half] = 0;
        fetch_tile(&part->keys, &k, FORWARD_KEYS, panels, thread);
        fetch_tile(&part->values, &v, FORWARD_KEYS, panels, thread);
    }
    for (int key = begin; key < end; key += FORWARD_KEYS) {
        const bool whole = args->window <= 0 && key + FORWARD_KEYS - 1 <= block.first;
        k.first = v.first = key + FORWARD_KEYS;
        EACH_THREAD(thread)
        {
            store_tile(keys, &mine[MINE(thread)].keys, FORWARD_KEYS, panels, thread);
            store_tile(values, &mine[MINE(thread)].values, FORWARD_KEYS, panels, thread);
        }
        EACH_LANE(thread)
        {
            fetch_tile(&mine[MINE(thread)].keys, &k, FORWARD_KEYS, panels, thread);
            fetch_tile(&mine[MINE(thread)].values, &v, FORWARD_KEYS, panels, thread);
            clear_sums(mine[MINE(thread)].scores, FORWARD_KEYS / MMA_COLUMNS);
        }
        UNROLL /* sums that follow each other are different ones, so that none waits for the one before */
            for (int i = 0; i < panels; i++) UNROLL for (int n = 0; n < FORWARD_KEYS / MMA_COLUMNS; n += 2)
        {
            EACH_LANE(thread)
            {
                mma_b_rows(mine[MINE(thread)].b, keys, tile_pitch(panels), n, i, thread);
            }
            MMA(mine, scores[n], q[i], b[0]);
            MMA(mine, scores[n + 1], q[i], b[1]);
        }
        EACH_LANE(thread)
        {
            struct forward_part *part = &mine[MINE(thread)];
            if (!whole) forward_mask(part, block.first + warp_row(thread), key + thread % QUAD * 2, args->window);
            forward_largest(part);
        }
        QUAD_LARGEST(mine, factor[0]);
        QUAD_LARGEST(mine, factor[1]);
        EACH_LANE(thread)
        {
            struct forward_part *part = &mine[MINE(thread)];
            forward_weights(part, scale);
            UNROLL
            for (int n = 0; n < 2 * panels; n++) UNROLL
            for (int i = 0; i < 4; i++) part->out[n].at[i] *= part->factor[i / 2];
        }
        UNROLL
        for (int j = 0; j < FORWARD_KEYS / MMA_SUMS; j++) {
            EACH_LANE(thread)
            {
                struct forward_part *part = &mine[MINE(thread)];
                part->p = mma_a_of(&part->scores[2 * j], &part->scores[2 * j + 1]);
            }
            UNROLL
            for (int n = 0; n < 2 * panels; n += 2) {
                EACH_LANE(thread)
                {
                    mma_b_columns(mine[MINE(thread)].b, values, tile_pitch(panels), n, j, thread);
                }
                MMA(mine, out[n], p, b[0]);
                MMA(mine, out[n + 1], p, b[1]);
            }
        }
        BARRIER(); /* before the tiles are overwritten */
    }
    QUAD_SUM(mine, sum[0]);
    QUAD_SUM(mine, sum[1]);
    EACH_LANE(thread)
    {
        forward_finish(&mine[MINE(thread)], args, &block, scale, panels, thread);
    }
}

#define FUSED_TILE(name, rows, panels) SHARED ALIGNED(16) uint32_t name[(rows) * ((panels)*MMA_PAIRS + 4)]
#define FORWARD_KERNEL(size, panels)                     \
    KERNEL(attention_fused_##size, attention_fused_args) \
    {                                                    \
        FUSED_TILE(keys, FORWARD_KEYS, panels);          \
        FUSED_TILE(values, FORWARD_KEYS, panels);        \
        fused_forward(grid, args, keys, values, panels); \
    }

/* Heads of up to 64 columns, and of up to 128. */
FORWARD_KERNEL(64, FUSED_PANELS / 2)
FORWARD_KERNEL(128, FUSED_PANELS)

#endif
