/* check_attention.c: attention's four passes, which are batched products with row kernels between them, and the fused
 * kernel of texts that share beginnings. A score of size S = scale |q| |k| carries an error of 6 sqrt(d) u S, which is
 * its weight's relative error; a sum of n weights adds 6 sqrt(n) u. Normal vectors: |q| |k| is about d, and five
 * standard deviations are put on it; values are at most 5. A slope is ds = p (dp - D), both sums of d products; a key's
 * gradient sums over the queries and heads that see it. Scores' tangents are sums of two products of the size of
 * scores, which scale every term that has p_t in it.
 *
 * With factors in bf16 the inputs are numbers that bf16 has, so that scores are as exact as in floats; weights and
 * slopes are off by 2^-9 of themselves, an output by as much of the largest value, and D with it. */
#include "selftest/check.h"

#include <math.h>

static const struct attention_shape {
    int64_t lengths[EXAM_SEQUENCES];
    int64_t heads, kv_heads, head_dim, window;
    bool fused;
} shapes[] = {
    {{1}, 1, 1, 4, 0, false},      {{5, 1, 9}, 2, 2, 8, 0, false}, {{17, 33, 2}, 4, 2, 16, 0, false},
    {{9, 40}, 3, 3, 12, 0, true},  {{70, 7}, 2, 1, 24, 50, false}, {{60}, 1, 1, 8, 1, false},
    {{257, 2}, 1, 1, 5, 0, false},
};

static const struct attention_shape narrow_shapes[] = {
    {{70, 1, 33}, 2, 1, 16, 40, false}, {{130}, 3, 3, 24, 0, true}, {{65, 3}, 2, 1, 72, 0, false},
    {{40, 9}, 2, 1, 5, 0, false},       {{33}, 3, 3, 6, 0, true},
};

static const double VALUES = 5;

struct bounds {
    double growth, size, slope, shared; /* roundings of a weight; sizes of a score and of a slope; who share a key */
};

static struct bounds bounds_of(const struct attention_args *args, int64_t keys, bool narrow)
{
    const double d = (double)args->head_dim, size = args->scale * (d + 5 * sqrt(2 * d));
    const double rounding = narrow ? 0x1p-9 / EXAM_ROUNDOFF : 0;
    return (struct bounds){.growth = 6 * sqrt(d) * size + 6 * sqrt((double)keys) + 8 + rounding,
                           .size = size,
                           .slope = args->scale * 2 * sqrt(d) * VALUES,
                           .shared = (double)(args->heads / args->kv_heads) * log((double)keys + 2)};
}

struct views {
    struct head_view q, k, v;
};

/* Inputs and directions are random, outputs are NaN. */
static struct views views_new(struct exam *exam, const struct attention_shape *s, int64_t tokens, bool random)
{
    const int64_t d = s->head_dim;
    if (s->fused) {
        const struct matrix qkv = exam_target(exam, tokens, s->heads * 3 * d, 4, random);
        return (struct views){{qkv, 0, 3 * d}, {qkv, d, 3 * d}, {qkv, 2 * d, 3 * d}};
    }
    return (struct views){{exam_target(exam, tokens, s->heads * d, 1, random), 0, d},
                          {exam_target(exam, tokens, s->kv_heads * d, 2, random), 0, d},
                          {exam_target(exam, tokens, s->kv_heads * d, 3, random), 0, d}};
}

static struct head_view heads_new(struct exam *exam, const struct attention_shape *s, int64_t tokens, bool random)
{
    return (struct head_view){exam_target(exam, tokens, s->heads * s->head_dim, 0, random), 0, s->head_dim};
}

/* For a fused matrix the largest of the three bounds counts. */
static void record_views(struct exam *exam, const struct attention_shape *s, const char *name, struct views views,
                         double growth, const double sizes[3])
{
    if (s->fused) {
        exam_record(exam, name, views.q.matrix, growth, fmax(sizes[0], fmax(sizes[1], sizes[2])));
        return;
    }
    const struct head_view all[] = {views.q, views.k, views.v};
    for (int i = 0; i < 3; i++) exam_record(exam, name, all[i].matrix, growth, sizes[i]);
}

static struct attention_args start(struct exam *exam, const struct attention_shape *s, struct exam_batch *batch)
{
    exam_batch_fill(batch, s->lengths, 10);
    const int64_t tokens = batch->batch.tokens;
    const struct views in = views_new(exam, s, tokens, true);
    return (struct attention_args){.batch = &batch->batch,
                                   .heads = s->heads,
                                   .kv_heads = s->kv_heads,
                                   .head_dim = s->head_dim,
                                   .window = s->window,
                                   .scale = 1 / sqrt((double)s->head_dim),
                                   .q = in.q,
                                   .k = in.k,
                                   .v = in.v,
                                   .out = heads_new(exam, s, tokens, false),
                                   .dout = heads_new(exam, s, tokens, true),
                                   .log_sum = exam_target(exam, tokens, s->heads, 0, false)};
}

static void run_both_ways(struct exam *exam, const struct attention_shape *s, bool narrow)
{
    struct exam_batch batch;
    exam->coarse = narrow;
    struct attention_args args = start(exam, s, &batch);
    const struct bounds b = bounds_of(&args, batch.batch.longest, narrow);
    const struct views to = views_new(exam, s, batch.batch.tokens, false);
    args.dq = to.q, args.dk = to.k, args.dv = to.v;
    exam->backend->ops->attention_forward(exam->backend, &args);
    exam_record(exam, "out", args.out.matrix, b.growth, VALUES);
    exam_record(exam, "log_sum", args.log_sum, narrow ? 200 : b.growth, 1);
    exam->backend->ops->attention_backward(exam->backend, &args);
    record_views(exam, s, "gradients of q, k, v", to, 2 * b.growth,
                 (const double[]){b.slope * VALUES, b.slope * VALUES * b.shared, VALUES * b.shared});
}

static void run_passes(struct exam *exam, int64_t shape)
{
    run_both_ways(exam, &shapes[shape], false);
}

static void run_narrow(struct exam *exam, int64_t shape)
{
    run_both_ways(exam, &narrow_shapes[shape], true);
}

static void run_tangents(struct exam *exam, int64_t shape)
{
    const struct attention_shape *s = &shapes[shape];
    struct exam_batch batch;
    struct attention_args args = start(exam, s, &batch);
    const int64_t tokens = batch.batch.tokens;
    const struct bounds b = bounds_of(&args, batch.batch.longest, false);
    const double move = 1 + 4 * b.size;
    const struct views in_t = views_new(exam, s, tokens, true), to = views_new(exam, s, tokens, false),
                       to_t = views_new(exam, s, tokens, false);
    args.q_t = in_t.q, args.k_t = in_t.k, args.v_t = in_t.v;
    args.dq = to.q, args.dk = to.k, args.dv = to.v;
    args.dq_t = to_t.q, args.dk_t = to_t.k, args.dv_t = to_t.v;
    args.out_t = heads_new(exam, s, tokens, false), args.dout_t = heads_new(exam, s, tokens, true);
    args.log_sum_t = exam_target(exam, tokens, s->heads, 1, false);
    exam->backend->ops->attention_forward(exam->backend, &args);
    exam->backend->ops->attention_tangent(exam->backend, &args);
    exam->backend->ops->attention_backward_tangent(exam->backend, &args);
    exam_record(exam, "out_t", args.out_t.matrix, b.growth, move * VALUES);
    exam_record(exam, "log_sum_t", args.log_sum_t, b.growth, 2 * b.size);
    record_views(exam, s, "gradients of q, k, v", to, 2 * b.growth,
                 (const double[]){b.slope * VALUES, b.slope * VALUES * b.shared, VALUES * b.shared});
    record_views(
        exam, s, "tangents of the gradients", to_t, 2 * b.growth,
        (const double[]){move * b.slope * VALUES, move * b.slope * VALUES * b.shared, move * VALUES * b.shared});
}

/* A text that continues 33 tokens of an earlier batch, and a text with two continuations, the second of which has one
 * itself. No query sees more than 33 + 40 keys. */
static void run_branches(struct exam *exam, int64_t shape)
{
    static const struct attention_shape both[] = {{{40, 30, 13, 5, 20}, 4, 2, 16, 0, false},
                                                  {{40, 30, 13, 5, 20}, 3, 1, 24, 20, false}};
    const struct attention_shape *s = &both[shape];
    const int64_t parents[] = {branch_of_fork(0), BRANCH_ROOT, 1, 1, 3}, pasts[] = {33, 0, 30, 30, 35};
    const struct branches branches = {.parents = parents, .pasts = pasts};
    struct exam_batch batch;
    struct attention_args args = start(exam, s, &batch);
    const struct bounds b = bounds_of(&args, 33 + 40, false);
    const int64_t d = s->head_dim;
    batch.batch.branches = &branches;
    args.past_k = (struct head_view){exam_random(exam, 33, 2 * s->kv_heads * d, 0, 1), 0, d};
    args.past_v = (struct head_view){args.past_k.matrix, s->kv_heads * d, d};
    exam->backend->ops->attention_forward(exam->backend, &args);
    exam_record(exam, "out", args.out.matrix, b.growth, VALUES);
    exam_record(exam, "log_sum", args.log_sum, b.growth, 1);
}

const struct check check_attention[] = {
    {"attention", run_passes, CHECK_COUNT(shapes), CHECK_DOUBLES, NULL},
    {"attention, tangents", run_tangents, CHECK_COUNT(shapes), CHECK_DOUBLES, NULL},
    {"attention over shared texts", run_branches, 2, CHECK_DOUBLES, NULL},
    {"attention in bf16", run_narrow, CHECK_COUNT(narrow_shapes), CHECK_DOUBLES, "bf16"},
    {0},
};
