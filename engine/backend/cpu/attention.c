/* attention.c: reference/attention.c by tiles: scores of a tile of queries against a block of keys are a matrix product, their
 * softmax runs over the blocks (online), and out gains a product for every block. Blocks that no query of the tile sees are
 * skipped. A tile reads only its own sequence; within it a masked key still meets a weight of zero, so a NaN may reach the queries
 * just before it.
 *
 * Forward tasks: (sequence, head, tile). Backward tasks: (sequence, key/value head), which alone owns its dk, dv and the dq of the
 * heads that read it, and walks them in order. Scores are made anew from q, k and log_sum (Dao et al., arXiv 2205.14135, alg. 4).
 */
#include "backend/cpu/cpu.h"

#include <math.h>

struct attention {
    const struct cpu *cpu;
    const struct attention_args *args;
    int64_t tile, tiles; /* queries a tile, tiles of the longest sequence */
};

/* One tile of queries of one head. Rows are tokens of the whole batch. */
struct tile {
    int64_t start;      /* the sequence's first row */
    int64_t first, end; /* positions in the sequence */
    int64_t head, kv_head;
};

struct scratch {
    float *scores, *slopes, *largest, *sums, *log_sum, *d;
};

static struct scratch scratch_of(const struct cpu *cpu, int thread)
{
    float *scores = cpu->attention + (int64_t)thread * CPU_ATTENTION_SCRATCH;
    float *slopes = scores + CPU_TILE_QUERIES * CPU_TILE_KEYS, *largest = slopes + CPU_TILE_QUERIES * CPU_TILE_KEYS;
    return (struct scratch){
        scores, slopes, largest, largest + CPU_TILE_QUERIES, largest + 2 * CPU_TILE_QUERIES, largest + 3 * CPU_TILE_QUERIES};
}

static int64_t first_key(const struct attention_args *args, const struct tile *tile)
{
    return args->window > 0 ? larger(0, tile->first - args->window + 1) : 0;
}

/* The scores of the tile against keys [key, key + columns). */
static struct score_block score(const struct attention *attention, const struct tile *tile, float *scores, int64_t key)
{
    const struct attention_args *args = attention->args;
    const struct score_block block = {
        .scores = scores,
        .stride = CPU_TILE_KEYS,
        .rows = tile->end - tile->first,
        .columns = smaller(CPU_TILE_KEYS, tile->end - key),
        .first_query = tile->first,
        .first_key = key,
        .window = args->window,
    };
    cpu_multiply(attention->cpu, false, true, block.rows, block.columns, args->head_dim, (float)args->scale,
                 float_head(args->q, tile->start + tile->first, tile->head), args->q.matrix.stride,
                 float_head(args->k, tile->start + key, tile->kv_head), args->k.matrix.stride, 0, scores, CPU_TILE_KEYS);
    return block;
}

static void tile_forward(const struct attention *attention, const struct tile *tile, struct scratch scratch)
{
    const struct attention_args *args = attention->args;
    const int64_t rows = tile->end - tile->first, row = tile->start + tile->first, out_stride = args->out.matrix.stride;
    float *out = float_head(args->out, row, tile->head);
    attention->cpu->kernels->fill(scratch.largest, rows, -INFINITY);
    attention->cpu->kernels->fill(scratch.sums, rows, 0);
    const int64_t begin = first_key(args, tile);
    for (int64_t key = begin; key < tile->end; key += CPU_TILE_KEYS) {
        const struct score_block block = score(attention, tile, scratch.scores, key);
        attention->cpu->kernels->softmax_block(&block, scratch.largest, scratch.sums, out, out_stride,
                                               key == begin ? 0 : args->head_dim);
        cpu_multiply(attention->cpu, false, false, rows, args->head_dim, block.columns, 1, scratch.scores, CPU_TILE_KEYS,
                     float_head(args->v, tile->start + key, tile->kv_head), args->v.matrix.stride, key == begin ? 0 : 1, out,
                     out_stride);
    }
    for (int64_t r = 0; r < rows; r++) {
        float *to = out + r * out_stride;
        attention->cpu->kernels->add(to, to, args->head_dim, 1 / scratch.sums[r], 0);
        if (args->log_sum.data)
            float_row(args->log_sum, row + r)[tile->head] = (float)((double)scratch.largest[r] + log((double)scratch.sums[r]));
    }
}

static void forward_task(void *context, int64_t task, int thread)
{
    const struct attention *attention = context;
    const struct attention_args *args = attention->args;
    /* the last tiles see the most keys: they go first */
    const int64_t tile_index = attention->tiles - 1 - task / (args->heads * args->batch->sequences);
    const int64_t rest = task % (args->heads * args->batch->sequences), b = rest / args->heads, head = rest % args->heads;
    const int64_t start = args->batch->starts[b], length = args->batch->starts[b + 1] - start;
    const struct tile tile = {
        .start = start,
        .first = tile_index * attention->tile,
        .end = smaller(length, (tile_index + 1) * attention->tile),
        .head = head,
        .kv_head = head / (args->heads / args->kv_heads),
    };
    if (tile.first < tile.end) tile_forward(attention, &tile, scratch_of(attention->cpu, thread));
}

/* Small tiles waste less on masked scores, large ones make better products. */
static struct attention attention_plan(struct backend *backend, const struct attention_args *args)
{
    const int64_t longest = args->batch->longest, tile = longest <= 512 ? 64 : 128;
    return (struct attention){cpu_of(backend), args, tile, ceil_divide(longest, tile)};
}

void cpu_attention_forward(struct backend *backend, const struct attention_args *args)
{
    struct attention attention = attention_plan(backend, args);
    team_run(backend->team, attention.tiles * args->heads * args->batch->sequences, forward_task, &attention);
}

static void tile_backward(const struct attention *attention, const struct tile *tile, struct scratch scratch)
{
    const struct attention_args *args = attention->args;
    const struct cpu *cpu = attention->cpu;
    const int64_t rows = tile->end - tile->first, row = tile->start + tile->first, width = args->head_dim;
    const float *dout = float_head(args->dout, row, tile->head), *q = float_head(args->q, row, tile->head);
    const int64_t dout_stride = args->dout.matrix.stride, q_stride = args->q.matrix.stride;
    for (int64_t r = 0; r < rows; r++) {
        scratch.log_sum[r] = float_row(args->log_sum, row + r)[tile->head];
        scratch.d[r] = (float)cpu->kernels->dot(dout + r * dout_stride, float_head(args->out, row + r, tile->head), width);
    }
    const int64_t begin = first_key(args, tile);
    for (int64_t key = begin; key < tile->end; key += CPU_TILE_KEYS) {
        const struct score_block block = score(attention, tile, scratch.scores, key);
        const int64_t from = tile->start + key;
        const float *k = float_head(args->k, from, tile->kv_head), *v = float_head(args->v, from, tile->kv_head);
        cpu_multiply(cpu, false, true, rows, block.columns, width, 1, dout, dout_stride, v, args->v.matrix.stride, 0,
                     scratch.slopes, CPU_TILE_KEYS);
        cpu->kernels->softmax_gradient(&block, scratch.slopes, scratch.log_sum, scratch.d, (float)args->scale);
        cpu_multiply(cpu, true, false, block.columns, width, rows, 1, scratch.scores, CPU_TILE_KEYS, dout, dout_stride, 1,
                     float_head(args->dv, from, tile->kv_head), args->dv.matrix.stride);
        cpu_multiply(cpu, true, false, block.columns, width, rows, 1, scratch.slopes, CPU_TILE_KEYS, q, q_stride, 1,
                     float_head(args->dk, from, tile->kv_head), args->dk.matrix.stride);
        cpu_multiply(cpu, false, false, rows, width, block.columns, 1, scratch.slopes, CPU_TILE_KEYS, k, args->k.matrix.stride,
                     key == begin ? 0 : 1, float_head(args->dq, row, tile->head), args->dq.matrix.stride);
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
            const struct tile tile = {start, first, smaller(length, first + attention->tile), head, kv_head};
            tile_backward(attention, &tile, scratch_of(attention->cpu, thread));
        }
}

void cpu_attention_backward(struct backend *backend, const struct attention_args *args)
{
    struct attention attention = attention_plan(backend, args);
    team_run(backend->team, args->batch->sequences * args->kv_heads, backward_task, &attention);
}
