/* attention.c: reference/attention.c by tiles: scores of a tile of queries against a block of keys are a matrix
 * product, their softmax runs over the blocks (online), and out gains a product for every block. Blocks that no query
 * of the tile sees are skipped. A tile reads only its own sequence; within it a masked key still meets a weight of
 * zero, so a NaN may reach the queries just before it.
 *
 * Forward tasks: (sequence, head, tile). Backward tasks: (sequence, key/value head); a task alone writes its dk, dv and
 * the dq of the heads that read it, in order. Scores are recomputed from q, k and log_sum (Dao et al., arXiv
 * 2205.14135, alg. 4). */
#include "backend/cpu/attention.h"

#include <math.h>

struct scratch {
    float *scores, *slopes, *largest, *sums, *log_sum, *d;
};

static struct scratch scratch_of(const struct cpu *cpu, int thread)
{
    float *scores = cpu->attention + (int64_t)thread * CPU_ATTENTION_SCRATCH;
    float *slopes = scores + CPU_TILE_QUERIES * CPU_TILE_KEYS, *largest = slopes + CPU_TILE_QUERIES * CPU_TILE_KEYS;
    return (struct scratch){scores,
                            slopes,
                            largest,
                            largest + CPU_TILE_QUERIES,
                            largest + 2 * CPU_TILE_QUERIES,
                            largest + 3 * CPU_TILE_QUERIES};
}

/* A block of scores: all rows of the tile against up to `keys` keys from `key` on. Its products are computed reach by
 * reach. */
static struct score_block block_of(const struct attention *attention, const struct tile *tile, float *scores,
                                   int64_t key)
{
    return (struct score_block){
        .scores = scores,
        .stride = attention->keys,
        .rows = tile->end - tile->first,
        .columns = smaller(attention->keys, tile->end - key),
        .first_query = tile->first,
        .first_key = key,
        .window = attention->args->window,
        .step = attention->step,
    };
}

static float *scores_at(const struct score_block *block, float *scores, struct reach reach)
{
    return scores + reach.skipped * block->stride + reach.key - block->first_key;
}

/* scores = scale q kᵀ; also used with dout as q and v as k. */
static void pairs(const struct attention *attention, const struct tile *tile, const struct score_block *block,
                  struct reach reach, float *scores, float scale, struct head_view q, struct head_view k)
{
    cpu_product(attention->cpu, false, true, block->rows - reach.skipped, reach.columns, attention->args->head_dim,
                scale, float_head(q, tile->start + tile->first + reach.skipped, tile->head), q.matrix.stride,
                float_head(k, tile->start + reach.key, tile->kv_head), k.matrix.stride, 0,
                scores_at(block, scores, reach), block->stride);
}

/* The products of pairs for a whole block. */
static void all_pairs(const struct attention *attention, const struct tile *tile, const struct score_block *block,
                      float *scores, float scale, struct head_view q, struct head_view k)
{
    const int64_t end = block->first_key + block->columns;
    struct reach reach;
    for (int64_t key = block->first_key; key < end; key += reach.columns) {
        reach = attention_reach(attention, tile, key, end);
        pairs(attention, tile, block, reach, scores, scale, q, k);
    }
}

/* to = weights k (`fresh`) or to += weights k: rows of queries from rows of keys. */
static void gather(const struct attention *attention, const struct tile *tile, const struct score_block *block,
                   struct reach reach, float *weights, struct head_view k, bool fresh, struct head_view to)
{
    cpu_product(attention->cpu, false, false, block->rows - reach.skipped, attention->args->head_dim, reach.columns, 1,
                scores_at(block, weights, reach), block->stride, float_head(k, tile->start + reach.key, tile->kv_head),
                k.matrix.stride, fresh ? 0 : 1, float_head(to, tile->start + tile->first + reach.skipped, tile->head),
                to.matrix.stride);
}

/* to += weightsᵀ q: rows of keys from rows of queries. */
static void spread(const struct attention *attention, const struct tile *tile, const struct score_block *block,
                   struct reach reach, float *weights, struct head_view q, struct head_view to)
{
    cpu_product(attention->cpu, true, false, reach.columns, attention->args->head_dim, block->rows - reach.skipped, 1,
                scores_at(block, weights, reach), block->stride,
                float_head(q, tile->start + tile->first + reach.skipped, tile->head), q.matrix.stride, 1,
                float_head(to, tile->start + reach.key, tile->kv_head), to.matrix.stride);
}

/* The tile's rows against `columns` keys of the text before it, from `row` of k and v on; `position` counts from the
 * start of the tile's own sequence, so it is negative. */
static void past_block(const struct attention *attention, const struct tile *tile, struct scratch scratch,
                       struct head_view k, struct head_view v, int64_t row, int64_t columns, int64_t position)
{
    const struct attention_args *args = attention->args;
    const int64_t rows = tile->end - tile->first, first = tile->start + tile->first;
    const struct score_block block = {
        .scores = scratch.scores,
        .stride = attention->keys,
        .rows = rows,
        .columns = columns,
        .first_query = tile->first,
        .first_key = position,
        .window = args->window,
    };
    cpu_product(attention->cpu, false, true, rows, columns, args->head_dim, (float)args->scale,
                float_head(args->q, first, tile->head), args->q.matrix.stride, float_head(k, row, tile->kv_head),
                k.matrix.stride, 0, scratch.scores, block.stride);
    attention->cpu->kernels->softmax_block(&block, scratch.largest, scratch.sums,
                                           float_head(args->out, first, tile->head), args->out.matrix.stride,
                                           args->head_dim);
    cpu_product(attention->cpu, false, false, rows, args->head_dim, columns, 1, scratch.scores, block.stride,
                float_head(v, row, tile->kv_head), v.matrix.stride, 1, float_head(args->out, first, tile->head),
                args->out.matrix.stride);
}

/* Attends to the text before the tile's segment, nearest stretch first. */
static void tile_past(const struct attention *attention, const struct tile *tile, struct scratch scratch)
{
    const struct attention_args *args = attention->args;
    const struct branches *branches = args->batch->branches;
    const int64_t past = branches->pasts[tile->sequence];
    const int64_t oldest = args->window > 0 ? past + tile->first - args->window + 1 : 0;
    int64_t branch = branches->parents[tile->sequence], end = past;
    struct branch_stretch stretch;
    while (end > oldest && branch_climb(args->batch, &branch, &end, &stretch)) {
        const int64_t skipped = larger(0, oldest - stretch.first);
        for (int64_t at = skipped; at < stretch.count; at += attention->keys)
            past_block(attention, tile, scratch, stretch.kept ? args->past_k : args->k,
                       stretch.kept ? args->past_v : args->v, stretch.row + at,
                       smaller(attention->keys, stretch.count - at), stretch.first + at - past);
    }
}

static void tile_forward(const struct attention *attention, const struct tile *tile, struct scratch scratch)
{
    const struct attention_args *args = attention->args;
    const struct kernels *kernels = attention->cpu->kernels;
    const int64_t rows = tile->end - tile->first, row = tile->start + tile->first,
                  begin = attention_first_key(args, tile);
    struct reach reach;
    kernels->fill(scratch.largest, rows, -INFINITY);
    kernels->fill(scratch.sums, rows, 0);
    for (int64_t from = begin; from < tile->end; from += attention->keys) {
        const struct score_block block = block_of(attention, tile, scratch.scores, from);
        const int64_t end = from + block.columns;
        all_pairs(attention, tile, &block, scratch.scores, (float)args->scale, args->q, args->k);
        kernels->softmax_block(&block, scratch.largest, scratch.sums, float_head(args->out, row, tile->head),
                               args->out.matrix.stride, from == begin ? 0 : args->head_dim);
        for (int64_t key = from; key < end; key += reach.columns) {
            reach = attention_reach(attention, tile, key, end);
            gather(attention, tile, &block, reach, scratch.scores, args->v, key == begin, args->out);
        }
    }
    if (args->batch->branches != NULL) tile_past(attention, tile, scratch);
    for (int64_t r = 0; r < rows; r++) {
        float *to = float_head(args->out, row + r, tile->head);
        kernels->add(to, to, args->head_dim, 1 / scratch.sums[r], 0);
        if (args->log_sum.data != NULL)
            float_row(args->log_sum, row + r)[tile->head] =
                (float)((double)scratch.largest[r] + log((double)scratch.sums[r]));
    }
}

static void forward_task(void *context, int64_t task, int thread)
{
    const struct attention *attention = context;
    const struct tile tile = attention_tile(attention, task);
    if (tile.first < tile.end) tile_forward(attention, &tile, scratch_of(attention->cpu, thread));
}

void cpu_attention_forward(struct backend *backend, const struct attention_args *args)
{
    struct attention attention = attention_plan(backend, args, CPU_TILE_KEYS);
    team_run(backend->team, attention.tiles * args->heads * args->batch->sequences, forward_task, &attention);
}

static void tile_backward(const struct attention *attention, const struct tile *tile, struct scratch scratch)
{
    const struct attention_args *args = attention->args;
    const struct kernels *kernels = attention->cpu->kernels;
    const int64_t row = tile->start + tile->first, begin = attention_first_key(args, tile);
    struct reach reach;
    for (int64_t r = 0; r < tile->end - tile->first; r++) {
        scratch.log_sum[r] = float_row(args->log_sum, row + r)[tile->head];
        scratch.d[r] = (float)kernels->dot(float_head(args->dout, row + r, tile->head),
                                           float_head(args->out, row + r, tile->head), args->head_dim);
    }
    for (int64_t from = begin; from < tile->end; from += attention->keys) {
        const struct score_block block = block_of(attention, tile, scratch.scores, from);
        const int64_t end = from + block.columns;
        all_pairs(attention, tile, &block, scratch.scores, (float)args->scale, args->q, args->k);
        all_pairs(attention, tile, &block, scratch.slopes, 1, args->dout, args->v);
        kernels->softmax_gradient(&block, scratch.slopes, scratch.log_sum, scratch.d, (float)args->scale);
        for (int64_t key = from; key < end; key += reach.columns) {
            reach = attention_reach(attention, tile, key, end);
            spread(attention, tile, &block, reach, scratch.scores, args->dout, args->dv);
            spread(attention, tile, &block, reach, scratch.slopes, args->q, args->dk);
            gather(attention, tile, &block, reach, scratch.slopes, args->k, key == begin, args->dq);
        }
    }
}

static void backward_task(void *context, int64_t task, int thread)
{
    const struct attention *attention = context;
    const struct attention_args *args = attention->args;
    const int64_t b = task / args->kv_heads, kv_head = task % args->kv_heads, shared = args->heads / args->kv_heads;
    const int64_t start = args->batch->starts[b], length = args->batch->starts[b + 1] - start;
    for (int64_t t = start; t < start + length; t++) {
        attention->cpu->kernels->fill(float_head(args->dk, t, kv_head), args->head_dim, 0);
        attention->cpu->kernels->fill(float_head(args->dv, t, kv_head), args->head_dim, 0);
    }
    for (int64_t head = kv_head * shared; head < (kv_head + 1) * shared; head++)
        for (int64_t first = 0; first < length; first += attention->tile) {
            const struct tile tile = {start, first, smaller(length, first + attention->tile), head, kv_head, b};
            tile_backward(attention, &tile, scratch_of(attention->cpu, thread));
        }
}

void cpu_attention_backward(struct backend *backend, const struct attention_args *args)
{
    struct attention attention = attention_plan(backend, args, CPU_TILE_KEYS);
    team_run(backend->team, args->batch->sequences * args->kv_heads, backward_task, &attention);
}
