/* attention.c: reference/attention.c by tiles: scores of a tile of queries against a block of keys are a matrix product, their
 * softmax runs over the blocks (online), and out gains a product for every block. Blocks that no query of the tile sees are
 * skipped. A tile reads only its own sequence; within it a masked key still meets a weight of zero, so a NaN may reach the queries
 * just before it.
 *
 * Forward tasks: (sequence, head, tile). Backward tasks: (sequence, key/value head), which alone owns its dk, dv and the dq of the
 * heads that read it, and walks them in order. Scores are made anew from q, k and log_sum (Dao et al., arXiv 2205.14135, alg. 4).
 */
#include "backend/cpu/attention.h"

#include <math.h>

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

static void tile_forward(const struct attention *attention, const struct tile *tile, struct scratch scratch)
{
    const struct attention_args *args = attention->args;
    const int64_t rows = tile->end - tile->first, row = tile->start + tile->first, out_stride = args->out.matrix.stride;
    float *out = float_head(args->out, row, tile->head);
    attention->cpu->kernels->fill(scratch.largest, rows, -INFINITY);
    attention->cpu->kernels->fill(scratch.sums, rows, 0);
    const int64_t begin = attention_first_key(args, tile);
    struct reach reach;
    for (int64_t key = begin; key < tile->end; key += reach.columns) {
        reach = attention_reach(attention, tile, key);
        const struct score_block block = attention_scores(attention, tile, reach, scratch.scores);
        float *to = out + reach.skipped * out_stride;
        attention->cpu->kernels->softmax_block(&block, scratch.largest + reach.skipped, scratch.sums + reach.skipped, to,
                                               out_stride, key == begin ? 0 : args->head_dim);
        cpu_multiply(attention->cpu, false, false, block.rows, args->head_dim, block.columns, 1, scratch.scores, CPU_TILE_KEYS,
                     float_head(args->v, tile->start + key, tile->kv_head), args->v.matrix.stride, key == begin ? 0 : 1, to,
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

void cpu_attention_forward(struct backend *backend, const struct attention_args *args)
{
    struct attention attention = attention_plan(backend, args, CPU_TILE_KEYS);
    team_run(backend->team, attention.tiles * args->heads * args->batch->sequences, forward_task, &attention);
}

static void tile_backward(const struct attention *attention, const struct tile *tile, struct scratch scratch)
{
    const struct attention_args *args = attention->args;
    const struct cpu *cpu = attention->cpu;
    const int64_t row = tile->start + tile->first, width = args->head_dim;
    for (int64_t r = 0; r < tile->end - tile->first; r++) {
        scratch.log_sum[r] = float_row(args->log_sum, row + r)[tile->head];
        scratch.d[r] = (float)cpu->kernels->dot(float_head(args->dout, row + r, tile->head),
                                                float_head(args->out, row + r, tile->head), width);
    }
    const int64_t begin = attention_first_key(args, tile);
    struct reach reach;
    for (int64_t key = begin; key < tile->end; key += reach.columns) {
        reach = attention_reach(attention, tile, key);
        const struct score_block block = attention_scores(attention, tile, reach, scratch.scores);
        const int64_t to = row + reach.skipped, from = tile->start + key;
        const float *q = float_head(args->q, to, tile->head), *dout = float_head(args->dout, to, tile->head);
        const float *k = float_head(args->k, from, tile->kv_head), *v = float_head(args->v, from, tile->kv_head);
        cpu_multiply(cpu, false, true, block.rows, block.columns, width, 1, dout, args->dout.matrix.stride, v,
                     args->v.matrix.stride, 0, scratch.slopes, CPU_TILE_KEYS);
        cpu->kernels->softmax_gradient(&block, scratch.slopes, scratch.log_sum + reach.skipped, scratch.d + reach.skipped,
                                       (float)args->scale);
        cpu_multiply(cpu, true, false, block.columns, width, block.rows, 1, scratch.scores, CPU_TILE_KEYS, dout,
                     args->dout.matrix.stride, 1, float_head(args->dv, from, tile->kv_head), args->dv.matrix.stride);
        cpu_multiply(cpu, true, false, block.columns, width, block.rows, 1, scratch.slopes, CPU_TILE_KEYS, q, args->q.matrix.stride,
                     1, float_head(args->dk, from, tile->kv_head), args->dk.matrix.stride);
        cpu_multiply(cpu, false, false, block.rows, width, block.columns, 1, scratch.slopes, CPU_TILE_KEYS, k,
                     args->k.matrix.stride, key == begin ? 0 : 1, float_head(args->dq, to, tile->head), args->dq.matrix.stride);
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
    struct attention attention = attention_plan(backend, args, CPU_TILE_KEYS);
    team_run(backend->team, args->batch->sequences * args->kv_heads, backward_task, &attention);
}
