/* attention_fused.h: attention of whole sequences with factors in bfloat16, whose scores and weights never leave the
 * block of threads (Dao, arXiv 2307.08691). reference/attention.c has the equations. A warp owns 16 queries, or 16
 * keys, and goes through what they see: tiles in shared memory that the whole block reads. While it computes with one
 * tile, it fetches the next. Weights are rounded before they are divided by their sum. */
#ifndef BACKEND_CUDA_KERNELS_ATTENTION_FUSED_H
#define BACKEND_CUDA_KERNELS_ATTENTION_FUSED_H

#include "backend/cuda/kernels/mma.h"

enum {
    FUSED_PANELS = ATTENTION_FUSED_DIM / MMA_SUMS, /* most panels of 16 columns in a head */
    FUSED_PADDING = 4,                             /* words: 8 rows of a tile lie in different banks */
    FUSED_PITCH = ATTENTION_FUSED_DIM / 2 + FUSED_PADDING,
    FORWARD_KEYS = 64,  /* rows of a tile, forward … */
    BACKWARD_ROWS = 32, /* … and backward, where there are twice as many tiles */
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

DEVICE const uint16_t *narrow_row(struct head_view view, int64_t t, int64_t head)
{
    return (const uint16_t *)view.matrix.data + t * view.matrix.stride + head * view.head_stride;
}

DEVICE struct words words_of(const uint16_t *row, int column)
{
    struct words words;
    COPY(struct words, &words, row + column);
    return words;
}

DEVICE struct words no_words(void)
{
    const struct words words = {{0, 0, 0, 0}};
    return words;
}

/* ---- Tiles ---- */

/* Where a tile's rows are: rows [first, end) of a sequence; beyond them and beyond the head's columns are zeros. */
struct tile_source {
    struct head_view view;
    int64_t start, head;
    int first, end, columns;
};

DEVICE struct words tile_words(const struct tile_source *from, int row, int column)
{
    if (from->first + row >= from->end || column >= from->columns) return no_words();
    return words_of(narrow_row(from->view, from->start + from->first + row, from->head), column);
}

/* A thread's share of a tile of `rows` rows and `panels` panels: 8 numbers at a time. */
#define ROW_SHARE(rows, panels)  ((rows) * (panels)*2 / KERNEL_THREADS)
#define PAIR_SHARE(rows, panels) (((rows) * (panels) + KERNEL_THREADS - 1) / KERNEL_THREADS)
enum {
    MOST_ROW_SHARE = ROW_SHARE(FORWARD_KEYS, FUSED_PANELS),
    MOST_PAIR_SHARE = PAIR_SHARE(FORWARD_KEYS, FUSED_PANELS)
};

struct row_share {
    struct words at[MOST_ROW_SHARE];
};

struct pair_share {
    struct words at[MOST_PAIR_SHARE][2];
};

DEVICE void fetch_rows(struct row_share *share, const struct tile_source *from, int rows, int panels, int thread)
{
    UNROLL
    for (int i = 0; i < ROW_SHARE(rows, panels); i++) {
        const int unit = thread + i * KERNEL_THREADS;
        share->at[i] = tile_words(from, unit / (2 * panels), unit % (2 * panels) * 8);
    }
}

DEVICE void store_rows(uint32_t *tile, const struct row_share *share, int rows, int panels, int thread)
{
    UNROLL
    for (int i = 0; i < ROW_SHARE(rows, panels); i++) {
        const int unit = thread + i * KERNEL_THREADS;
        COPY(struct words, tile + unit / (2 * panels) * FUSED_PITCH + unit % (2 * panels) * 4, &share->at[i]);
    }
}

/* Two neighbouring rows, of which the transposed tile has pairs. */
DEVICE void fetch_pairs(struct pair_share *share, const struct tile_source *from, int rows, int panels, int thread)
{
    UNROLL
    for (int i = 0; i < PAIR_SHARE(rows, panels); i++) {
        const int unit = thread + i * KERNEL_THREADS, pair = unit % (rows / 2), column = unit / (rows / 2) * 8;
        const bool mine = unit < rows * panels;
        share->at[i][0] = mine ? tile_words(from, 2 * pair, column) : no_words();
        share->at[i][1] = mine ? tile_words(from, 2 * pair + 1, column) : no_words();
    }
}

DEVICE int pair_pitch(int rows)
{
    return rows / 2 + FUSED_PADDING;
}

DEVICE void store_pairs(uint32_t *tile, const struct pair_share *share, int rows, int panels, int thread)
{
    UNROLL
    for (int i = 0; i < PAIR_SHARE(rows, panels); i++) {
        const int unit = thread + i * KERNEL_THREADS, pair = unit % (rows / 2), column = unit / (rows / 2) * 8;
        if (unit >= rows * panels) continue;
        UNROLL
        for (int k = 0; k < 8; k++) {
            const uint32_t a = share->at[i][0].at[k / 2], b = share->at[i][1].at[k / 2];
            tile[(column + k) * pair_pitch(rows) + pair] =
                k % 2 == 0 ? (a & 0xffff) | b << 16 : a >> 16 | (b & 0xffff0000);
        }
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
    const int row = warp_row(thread), column = panel * MMA_SUMS + thread % QUAD * 2;
    struct mma_a a;
    UNROLL
    for (int part = 0; part < 4; part++) {
        const int r = row + part % 2 * 8, c = column + part / 2 * 8;
        a.pair[part] = 0;
        if (from->first + r < from->end && c < from->columns)
            COPY(uint32_t, &a.pair[part], narrow_row(from->view, from->start + from->first + r, from->head) + c);
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
DEVICE void store_sums(const struct mma_c *sums, int panels, struct head_view to, const struct tile_source *rows,
                       int64_t head, const float factors[2], int thread)
{
    UNROLL
    for (int half = 0; half < 2; half++) {
        const int row = rows->first + warp_row(thread) + half * 8;
        if (row >= rows->end) continue;
        float *out = head_of(to, rows->start + row, head) + thread % QUAD * 2;
        UNROLL
        for (int n = 0; n < 2 * panels; n++) {
            if (n * MMA_COLUMNS >= rows->columns) continue;
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
    struct row_share keys;
    struct pair_share values;
    struct mma_a q[FUSED_PANELS], p;
    struct mma_b b;
    struct mma_c scores[FORWARD_KEYS / MMA_COLUMNS], out[2 * FUSED_PANELS];
    float best[2], factor[2]; /* largest score so far, in base 2; what earlier sums are multiplied by */
    double sum[2];
};

/* Scales scores to powers of 2, minus infinity for keys that are not seen, and finds the thread's largest. */
DEVICE void forward_scale(struct forward_part *mine, int query, int key, float scale, int64_t window, bool whole)
{
    UNROLL
    for (int half = 0; half < 2; half++) mine->factor[half] = -INFINITY;
    UNROLL
    for (int n = 0; n < FORWARD_KEYS / MMA_COLUMNS; n++) UNROLL
    for (int i = 0; i < 4; i++) {
        const bool seen = whole || fused_sees(query + i / 2 * 8, key + n * MMA_COLUMNS + i % 2, window);
        const float z = seen ? scale * mine->scores[n].at[i] : -INFINITY;
        mine->scores[n].at[i] = z;
        if (z > mine->factor[i / 2]) mine->factor[i / 2] = z;
    }
}

/* Scores become weights against the largest so far. */
DEVICE void forward_weights(struct forward_part *mine)
{
    float against[2], sum[2] = {0, 0};
    UNROLL
    for (int half = 0; half < 2; half++) {
        const float before = mine->best[half], best = mine->factor[half] > before ? mine->factor[half] : before;
        against[half] = best == -INFINITY ? 0 : best; /* nothing is seen yet */
        mine->best[half] = best;
        mine->factor[half] = exp2f(before - against[half]);
    }
    UNROLL
    for (int n = 0; n < FORWARD_KEYS / MMA_COLUMNS; n++) UNROLL
    for (int i = 0; i < 4; i++) {
        const float p = exp2f(mine->scores[n].at[i] - against[i / 2]);
        mine->scores[n].at[i] = p;
        sum[i / 2] += p;
    }
    UNROLL
    for (int half = 0; half < 2; half++)
        mine->sum[half] = mine->sum[half] * (double)mine->factor[half] + (double)sum[half];
}

DEVICE void fused_forward(const struct launch *grid, const struct attention_fused_args *args, uint32_t *keys,
                          uint32_t *values, const int panels)
{
    PRIVATE(struct forward_part, mine);
    const struct fused_block block = fused_block_of(grid, args, args->heads);
    if (block.first >= block.length) return;
    const float scale = (float)args->scale * LOG2_E;
    const int end = (int)least(block.first + ATTENTION_FUSED_ROWS, block.length), columns = (int)args->head_dim;
    const int begin = args->window > 0 ? (int)most(0, block.first - args->window + 1) : 0;
    const struct tile_source q = {args->q, block.start, block.head, block.first, block.length, columns};
    struct tile_source k = {args->k, block.start, block.kv_head, begin, end, columns};
    struct tile_source v = {args->v, block.start, block.kv_head, begin, end, columns};
    EACH_LANE(thread)
    {
        struct forward_part *part = &mine[MINE(thread)];
        UNROLL
        for (int i = 0; i < panels; i++) part->q[i] = own_rows(&q, i, thread);
        clear_sums(part->out, 2 * panels);
        UNROLL
        for (int half = 0; half < 2; half++) part->best[half] = -INFINITY, part->sum[half] = 0;
        fetch_rows(&part->keys, &k, FORWARD_KEYS, panels, thread);
        fetch_pairs(&part->values, &v, FORWARD_KEYS, panels, thread);
    }
    for (int key = begin; key < end; key += FORWARD_KEYS) {
        const bool whole = args->window <= 0 && key + FORWARD_KEYS - 1 <= block.first;
        k.first = v.first = key + FORWARD_KEYS;
        EACH_THREAD(thread)
        {
            store_rows(keys, &mine[MINE(thread)].keys, FORWARD_KEYS, panels, thread);
            store_pairs(values, &mine[MINE(thread)].values, FORWARD_KEYS, panels, thread);
        }
        EACH_LANE(thread)
        {
            fetch_rows(&mine[MINE(thread)].keys, &k, FORWARD_KEYS, panels, thread);
            fetch_pairs(&mine[MINE(thread)].values, &v, FORWARD_KEYS, panels, thread);
            clear_sums(mine[MINE(thread)].scores, FORWARD_KEYS / MMA_COLUMNS);
        }
        UNROLL
        for (int n = 0; n < FORWARD_KEYS / MMA_COLUMNS; n++) UNROLL
        for (int i = 0; i < panels; i++) {
            EACH_LANE(thread)
            {
                mine[MINE(thread)].b = mma_b_of(keys, FUSED_PITCH, n, i, thread);
            }
            MMA(mine, scores[n], q[i], b);
        }
        EACH_LANE(thread)
        {
            forward_scale(&mine[MINE(thread)], block.first + warp_row(thread), key + thread % QUAD * 2, scale,
                          args->window, whole);
        }
        QUAD_LARGEST(mine, factor[0]);
        QUAD_LARGEST(mine, factor[1]);
        EACH_LANE(thread)
        {
            struct forward_part *part = &mine[MINE(thread)];
            forward_weights(part);
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
            for (int n = 0; n < 2 * panels; n++) {
                EACH_LANE(thread)
                {
                    mine[MINE(thread)].b = mma_b_of(values, pair_pitch(FORWARD_KEYS), n, j, thread);
                }
                MMA(mine, out[n], p, b);
            }
        }
        BARRIER(); /* before the tiles are overwritten */
    }
    QUAD_SUM(mine, sum[0]);
    QUAD_SUM(mine, sum[1]);
    EACH_LANE(thread)
    {
        const struct forward_part *part = &mine[MINE(thread)];
        const float factors[2] = {(float)(1 / part->sum[0]), (float)(1 / part->sum[1])};
        store_sums(part->out, panels, args->out, &q, block.head, factors, thread);
        for (int half = 0; half < 2 && args->log_sum.data != NULL && thread % QUAD == 0; half++) {
            const int row = block.first + warp_row(thread) + half * 8;
            if (row < block.length)
                row_of(args->log_sum, block.start + row)[block.head] =
                    (float)((double)part->best[half] * (double)LN_2 + log(part->sum[half]));
        }
    }
}

#define FORWARD_TILES(panels)                                     \
    SHARED ALIGNED(16) uint32_t keys[FORWARD_KEYS * FUSED_PITCH]; \
    SHARED ALIGNED(16) uint32_t values[(panels)*MMA_SUMS * (FORWARD_KEYS / 2 + FUSED_PADDING)]

/* Heads of up to 64 columns, and of up to 128. */
KERNEL(attention_fused_64, attention_fused_args)
{
    FORWARD_TILES(FUSED_PANELS / 2);
    fused_forward(grid, args, keys, values, FUSED_PANELS / 2);
}

KERNEL(attention_fused_128, attention_fused_args)
{
    FORWARD_TILES(FUSED_PANELS);
    fused_forward(grid, args, keys, values, FUSED_PANELS);
}

#endif
