/* attention_tangent.c: the tangents of reference/attention.c by the tiles of attention.c. With a = p s_t, the tangent
 * of the output is out_t = a v + p v_t - L_t out, so one pass over the keys is enough, which also gives L_t = sum of a.
 * The backward pass is that of attention.c with the tangent of every product: two products each. */
#include "backend/cpu/attention.h"

/* Four blocks of scores share the memory of attention.c's two. */
enum { TANGENT_QUERIES = 128, TANGENT_KEYS = 512 };
_Static_assert(4 * TANGENT_QUERIES * TANGENT_KEYS + 4 * TANGENT_QUERIES <= CPU_ATTENTION_SCRATCH, "a thread's scratch");

struct scratch {
    float *scores, *scores_t, *slopes, *slopes_t, *log_sum, *log_sum_t, *d, *d_t;
};

static struct scratch scratch_of(const struct cpu *cpu, int thread)
{
    const int64_t block = TANGENT_QUERIES * TANGENT_KEYS;
    float *scores = cpu->attention + (int64_t)thread * CPU_ATTENTION_SCRATCH, *rows = scores + 4 * block;
    return (struct scratch){
        .scores = scores,
        .scores_t = scores + block,
        .slopes = scores + 2 * block,
        .slopes_t = scores + 3 * block,
        .log_sum = rows,
        .log_sum_t = rows + TANGENT_QUERIES,
        .d = rows + 2 * TANGENT_QUERIES,
        .d_t = rows + 3 * TANGENT_QUERIES,
    };
}

static struct attention tangent_plan(struct backend *backend, const struct attention_args *args)
{
    struct attention attention = attention_plan(backend, args, TANGENT_KEYS);
    attention.tile = smaller(attention.tile, TANGENT_QUERIES);
    attention.tiles = ceil_divide(args->batch->longest, attention.tile);
    attention.step = attention.tile / 2;
    return attention;
}

/* A head's rows from `row` on. */
struct rows {
    float *data;
    int64_t stride;
};

static struct rows rows_of(struct head_view view, int64_t row, int64_t head)
{
    return (struct rows){float_head(view, row, head), view.matrix.stride};
}

/* scores = scale a bᵀ + beta scores, of the block's rows and columns. */
static void pairs(const struct attention *attention, const struct score_block *block, float *scores, double scale,
                  struct rows a, struct rows b, float beta)
{
    cpu_product(attention->cpu, false, true, block->rows, block->columns, attention->args->head_dim, (float)scale,
                a.data, a.stride, b.data, b.stride, beta, scores, attention->keys);
}

/* to += weights x: by rows of the block. */
static void gather(const struct attention *attention, const struct score_block *block, const float *weights,
                   struct rows x, float beta, struct rows to)
{
    cpu_product(attention->cpu, false, false, block->rows, attention->args->head_dim, block->columns, 1, weights,
                attention->keys, x.data, x.stride, beta, to.data, to.stride);
}

/* to += weightsᵀ x: by columns of the block. */
static void spread(const struct attention *attention, const struct score_block *block, const float *weights,
                   struct rows x, struct rows to)
{
    cpu_product(attention->cpu, true, false, block->columns, attention->args->head_dim, block->rows, 1, weights,
                attention->keys, x.data, x.stride, 1, to.data, to.stride);
}

/* The scores of a block and their tangents. */
static struct score_block both_scores(const struct attention *attention, const struct tile *tile, struct reach reach,
                                      struct scratch scratch)
{
    const struct attention_args *args = attention->args;
    const struct score_block block = attention_scores(attention, tile, reach, scratch.scores);
    const int64_t row = tile->start + tile->first + reach.skipped, key = tile->start + reach.key;
    pairs(attention, &block, scratch.scores_t, args->scale, rows_of(args->q_t, row, tile->head),
          rows_of(args->k, key, tile->kv_head), 0);
    pairs(attention, &block, scratch.scores_t, args->scale, rows_of(args->q, row, tile->head),
          rows_of(args->k_t, key, tile->kv_head), 1);
    return block;
}

static void tile_tangent(const struct attention *attention, const struct tile *tile, struct scratch scratch)
{
    const struct attention_args *args = attention->args;
    const struct kernels *kernels = attention->cpu->kernels;
    const int64_t rows = tile->end - tile->first, row = tile->start + tile->first,
                  begin = attention_first_key(args, tile);
    for (int64_t r = 0; r < rows; r++) scratch.log_sum[r] = float_row(args->log_sum, row + r)[tile->head];
    kernels->fill(scratch.log_sum_t, rows, 0);
    struct reach reach;
    for (int64_t key = begin; key < tile->end; key += reach.columns) {
        reach = attention_reach(attention, tile, key, tile->end);
        const struct score_block block = both_scores(attention, tile, reach, scratch);
        const struct rows to = rows_of(args->out_t, row + reach.skipped, tile->head);
        kernels->softmax_tangent(&block, scratch.scores_t, scratch.log_sum + reach.skipped,
                                 scratch.log_sum_t + reach.skipped);
        gather(attention, &block, scratch.scores_t, rows_of(args->v, tile->start + key, tile->kv_head),
               key == begin ? 0 : 1, to);
        gather(attention, &block, scratch.scores, rows_of(args->v_t, tile->start + key, tile->kv_head), 1, to);
    }
    for (int64_t r = 0; r < rows; r++) {
        kernels->add(float_head(args->out_t, row + r, tile->head), float_head(args->out, row + r, tile->head),
                     args->head_dim, -scratch.log_sum_t[r], 1);
        float_row(args->log_sum_t, row + r)[tile->head] = scratch.log_sum_t[r];
    }
}

static void tangent_task(void *context, int64_t task, int thread)
{
    const struct attention *attention = context;
    const struct tile tile = attention_tile(attention, task);
    if (tile.first < tile.end) tile_tangent(attention, &tile, scratch_of(attention->cpu, thread));
}

void cpu_attention_tangent(struct backend *backend, const struct attention_args *args)
{
    struct attention attention = tangent_plan(backend, args);
    team_run(backend->team, attention.tiles * args->heads * args->batch->sequences, tangent_task, &attention);
}

static void rows_prepare(const struct attention *attention, const struct tile *tile, struct scratch scratch)
{
    const struct attention_args *args = attention->args;
    double (*const dot)(const float *a, const float *b, int64_t count) = attention->cpu->kernels->dot;
    for (int64_t r = 0; r < tile->end - tile->first; r++) {
        const int64_t row = tile->start + tile->first + r, width = args->head_dim;
        const float *out = float_head(args->out, row, tile->head), *dout = float_head(args->dout, row, tile->head);
        scratch.log_sum[r] = float_row(args->log_sum, row)[tile->head];
        scratch.log_sum_t[r] = float_row(args->log_sum_t, row)[tile->head];
        scratch.d[r] = (float)dot(dout, out, width);
        scratch.d_t[r] = (float)(dot(float_head(args->dout_t, row, tile->head), out, width) +
                                 dot(dout, float_head(args->out_t, row, tile->head), width));
    }
}

static void block_backward_tangent(const struct attention *attention, const struct tile *tile, struct reach reach,
                                   struct scratch scratch, bool fresh)
{
    const struct attention_args *args = attention->args;
    const int64_t row = tile->start + tile->first + reach.skipped, key = tile->start + reach.key;
    const int64_t head = tile->head, kv_head = tile->kv_head;
    const struct rows dout = rows_of(args->dout, row, head), dout_t = rows_of(args->dout_t, row, head);
    const struct rows q = rows_of(args->q, row, head), q_t = rows_of(args->q_t, row, head);
    const struct rows k = rows_of(args->k, key, kv_head), k_t = rows_of(args->k_t, key, kv_head);
    const struct rows dk_t = rows_of(args->dk_t, key, kv_head), dv_t = rows_of(args->dv_t, key, kv_head);
    const struct rows v = rows_of(args->v, key, kv_head), dq_t = rows_of(args->dq_t, row, head);
    const struct score_block block = both_scores(attention, tile, reach, scratch);
    pairs(attention, &block, scratch.slopes, 1, dout, v, 0);
    pairs(attention, &block, scratch.slopes_t, 1, dout_t, v, 0);
    pairs(attention, &block, scratch.slopes_t, 1, dout, rows_of(args->v_t, key, kv_head), 1);
    attention->cpu->kernels->softmax_gradient_tangent(&(struct softmax_tangents){
        .block = block,
        .scores_t = scratch.scores_t,
        .slopes = scratch.slopes,
        .slopes_t = scratch.slopes_t,
        .log_sum = scratch.log_sum + reach.skipped,
        .log_sum_t = scratch.log_sum_t + reach.skipped,
        .d = scratch.d + reach.skipped,
        .d_t = scratch.d_t + reach.skipped,
        .scale = (float)args->scale,
    });
    spread(attention, &block, scratch.scores, dout, rows_of(args->dv, key, kv_head));
    spread(attention, &block, scratch.scores_t, dout, dv_t);
    spread(attention, &block, scratch.scores, dout_t, dv_t);
    spread(attention, &block, scratch.slopes, q, rows_of(args->dk, key, kv_head));
    spread(attention, &block, scratch.slopes_t, q, dk_t);
    spread(attention, &block, scratch.slopes, q_t, dk_t);
    gather(attention, &block, scratch.slopes, k, fresh ? 0 : 1, rows_of(args->dq, row, head));
    gather(attention, &block, scratch.slopes_t, k, fresh ? 0 : 1, dq_t);
    gather(attention, &block, scratch.slopes, k_t, 1, dq_t);
}

static void tile_backward_tangent(const struct attention *attention, const struct tile *tile, struct scratch scratch)
{
    const int64_t begin = attention_first_key(attention->args, tile);
    struct reach reach;
    rows_prepare(attention, tile, scratch);
    for (int64_t key = begin; key < tile->end; key += reach.columns) {
        reach = attention_reach(attention, tile, key, tile->end);
        block_backward_tangent(attention, tile, reach, scratch, key == begin);
    }
}

static void backward_tangent_task(void *context, int64_t task, int thread)
{
    const struct attention *attention = context;
    const struct attention_args *args = attention->args;
    const int64_t b = task / args->kv_heads, kv_head = task % args->kv_heads, shared = args->heads / args->kv_heads;
    const int64_t start = args->batch->starts[b], length = args->batch->starts[b + 1] - start;
    const struct head_view sums[] = {args->dk, args->dk_t, args->dv, args->dv_t};
    for (int i = 0; i < 4; i++)
        for (int64_t t = start; t < start + length; t++)
            attention->cpu->kernels->fill(float_head(sums[i], t, kv_head), args->head_dim, 0);
    for (int64_t head = kv_head * shared; head < (kv_head + 1) * shared; head++)
        for (int64_t first = 0; first < length; first += attention->tile) {
            const struct tile tile = {start, first, smaller(length, first + attention->tile), head, kv_head, b};
            tile_backward_tangent(attention, &tile, scratch_of(attention->cpu, thread));
        }
}

void cpu_attention_backward_tangent(struct backend *backend, const struct attention_args *args)
{
    struct attention attention = tangent_plan(backend, args);
    team_run(backend->team, args->batch->sequences * args->kv_heads, backward_tangent_task, &attention);
}
