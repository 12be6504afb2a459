/* The fast backend's attention against the plain loops in double, and one thread against three: ragged batches, shared
 * key/value heads, windows, heads fused as [head][q|k|v][head_dim], lengths on both sides of every tile. */
#include "engine/backend/attention_cases.h"

static void run_attention(struct world *world, const void *context)
{
    attention_passes(world, context, false);
}

static void test_attention_agrees(void **state)
{
    for (int i = 0; i < ATTENTION_SHAPES; i++) rivals_run(*state, run_attention, &attention_shapes[i]);
}

static void run_forward_alone(struct world *world, const void *context)
{
    const struct attention_shape *s = context;
    struct test_batch batch;
    struct attention_args args = attention_start(s, &batch);
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
    struct attention_args args = attention_start(s, &batch);
    batch.batch.branches = &branches;
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
