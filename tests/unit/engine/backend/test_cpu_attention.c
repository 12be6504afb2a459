/* The fast backend's attention against the plain loops in double, and one thread against three: ragged batches, shared
 * key/value heads, windows, heads fused as [head][q|k|v][head_dim], lengths on both sides of every tile. */
#include "engine/backend/attention_cases.h"

static void attention_inputs(struct world *world, const struct attention_shape *s, int64_t tokens,
                             struct attention_args *args)
{
    const int64_t d = s->head_dim;
    if (s->fused) {
        const struct matrix qkv = world_random(world, tokens, s->heads * 3 * d, 4, 1),
                            grads = world_zeros(world, tokens, s->heads * 3 * d, 4);
        args->q = (struct head_view){qkv, 0, 3 * d}, args->dq = (struct head_view){grads, 0, 3 * d};
        args->k = (struct head_view){qkv, d, 3 * d}, args->dk = (struct head_view){grads, d, 3 * d};
        args->v = (struct head_view){qkv, 2 * d, 3 * d}, args->dv = (struct head_view){grads, 2 * d, 3 * d};
        return;
    }
    args->q = (struct head_view){world_random(world, tokens, s->heads * d, 1, 1), 0, d};
    args->k = (struct head_view){world_random(world, tokens, s->kv_heads * d, 2, 1), 0, d};
    args->v = (struct head_view){world_random(world, tokens, s->kv_heads * d, 3, 1), 0, d};
    args->dq = (struct head_view){world_random(world, tokens, s->heads * d, 1, 1), 0, d};
    args->dk = (struct head_view){world_random(world, tokens, s->kv_heads * d, 2, 1), 0, d};
    args->dv = (struct head_view){world_random(world, tokens, s->kv_heads * d, 3, 1), 0, d};
    world->backend->ops->fill(world->backend, args->dq.matrix, (double)NAN);
    world->backend->ops->fill(world->backend, args->dk.matrix, (double)NAN);
    world->backend->ops->fill(world->backend, args->dv.matrix, (double)NAN);
}

/* A score of size S = scale |q| |k| carries an error of 6 sqrt(d) u S, which is its weight's relative error; a sum of n
 * weights adds 6 sqrt(n) u. Normal vectors: |q| |k| <= product_norm. */
static void run_attention(struct world *world, const void *context)
{
    const struct attention_shape *s = context;
    static const double values = 5; /* the largest of a few thousand normal numbers */
    struct test_batch *batch = calloc(1, sizeof *batch);
    int64_t sequences = 0;
    while (s->lengths[sequences] > 0) sequences++;
    test_batch_fill(batch, s->lengths, sequences, 10);
    const int64_t tokens = batch->batch.tokens, d = s->head_dim;
    struct attention_args args = {.batch = &batch->batch,
                                  .heads = s->heads,
                                  .kv_heads = s->kv_heads,
                                  .head_dim = d,
                                  .window = s->window,
                                  .scale = s->scale};
    attention_inputs(world, s, tokens, &args);
    args.out = (struct head_view){world_zeros(world, tokens, s->heads * d, 0), 0, d};
    world->backend->ops->fill(world->backend, args.out.matrix, (double)NAN);
    args.log_sum = world_zeros(world, tokens, s->heads, 0);
    world->backend->ops->attention_forward(world->backend, &args);
    const double size = s->scale * ((double)d + 5 * sqrt(2 * (double)d)), keys = (double)batch->batch.longest;
    const double weight_growth = 6 * sqrt((double)d) * size + 6 * sqrt(keys) + 8;
    world_record(world, "out", args.out.matrix, weight_growth, values);
    world_record(world, "log_sum", args.log_sum, weight_growth, 1);
    args.dout = (struct head_view){world_random(world, tokens, s->heads * d, 0, 1), 0, d};
    world->backend->ops->attention_backward(world->backend, &args);
    /* ds = p (dp - D): dp and D are sums of d products; a key's gradient sums over the queries and heads that see it */
    const double slope = s->scale * 2 * sqrt((double)d) * values, sharing = (double)(s->heads / s->kv_heads);
    world_record(world, "dq", args.dq.matrix, 2 * weight_growth, slope * values);
    world_record(world, "dk", args.dk.matrix, 2 * weight_growth, slope * values * sharing * log(keys + 2));
    world_record(world, "dv", args.dv.matrix, 2 * weight_growth, values * sharing * log(keys + 2));
    free(batch);
}

static void test_attention_agrees(void **state)
{
    for (int i = 0; i < ATTENTION_SHAPES; i++) rivals_run(*state, run_attention, &attention_shapes[i]);
}

static void run_forward_alone(struct world *world, const void *context)
{
    const struct attention_shape *s = context;
    struct test_batch batch;
    test_batch_fill(&batch, s->lengths, 1, 10);
    struct attention_args args = {.batch = &batch.batch, .heads = 2, .kv_heads = 2, .head_dim = 8, .scale = 0.35};
    attention_inputs(world, s, batch.batch.tokens, &args);
    args.out = (struct head_view){world_zeros(world, batch.batch.tokens, 16, 0), 0, 8};
    world->backend->ops->attention_forward(world->backend, &args);
    world_record(world, "out", args.out.matrix, 200, 5);
}

static void test_forward_needs_no_log_sum(void **state)
{
    rivals_run(*state, run_forward_alone, &(struct attention_shape){{30}, 2, 2, 8, 0, false, 0.35});
}

/* Segments: a text that goes on behind 33 tokens which an earlier batch left, and a text with two continuations, of
 * which the second has one itself. Bounds as above: no one sees more than 33 + 70 keys. */
static void run_segments(struct world *world, const void *context)
{
    const struct attention_shape *s = context;
    const int64_t parents[] = {branch_of_fork(0), BRANCH_ROOT, 1, 1, 3}, pasts[] = {33, 0, 40, 40, 45};
    const struct branches branches = {.parents = parents, .pasts = pasts};
    struct test_batch batch;
    test_batch_fill(&batch, s->lengths, 5, 10);
    batch.batch.branches = &branches;
    struct attention_args args = {.batch = &batch.batch,
                                  .heads = s->heads,
                                  .kv_heads = s->kv_heads,
                                  .head_dim = s->head_dim,
                                  .window = s->window,
                                  .scale = s->scale};
    const int64_t tokens = batch.batch.tokens, d = s->head_dim;
    attention_inputs(world, s, tokens, &args);
    args.past_k = (struct head_view){world_random(world, 33, 2 * s->kv_heads * d, 0, 1), 0, d};
    args.past_v = (struct head_view){args.past_k.matrix, s->kv_heads * d, d};
    args.out = (struct head_view){world_zeros(world, tokens, s->heads * d, 0), 0, d};
    args.log_sum = world_zeros(world, tokens, s->heads, 0);
    world->backend->ops->fill(world->backend, args.out.matrix, (double)NAN);
    world->backend->ops->attention_forward(world->backend, &args);
    const double size = s->scale * ((double)d + 5 * sqrt(2 * (double)d));
    const double growth = 6 * sqrt((double)d) * size + 6 * sqrt(103) + 8;
    world_record(world, "out", args.out.matrix, growth, 5);
    world_record(world, "log_sum", args.log_sum, growth, 1);
}

static void test_segments_see_the_text_before_them(void **state)
{
    const struct attention_shape shapes[] = {{{70, 40, 33, 5, 20}, 4, 2, 16, 0, false, 0.25},
                                             {{70, 40, 33, 5, 20}, 3, 1, 24, 30, false, 0.2}};
    for (int i = 0; i < 2; i++) rivals_run(*state, run_segments, &shapes[i]);
}

/* Scores of +-1000 would overflow exp without the largest being taken off. */
static void test_large_scores_do_not_overflow(void **state)
{
    rivals_run(*state, run_attention, &(struct attention_shape){{70}, 1, 1, 8, 0, false, 100});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention_agrees),
        cmocka_unit_test(test_forward_needs_no_log_sum),
        cmocka_unit_test(test_segments_see_the_text_before_them),
        cmocka_unit_test(test_large_scores_do_not_overflow),
    };
    return RUN_ON_ALL_MACHINES("cpu attention", tests, rivals_open, rivals_close);
}
