/* Attention by the kernels that keep scores to themselves (kernels/attention_fused.h): forward and backward against the
 * plain loops in double on rounded factors, and threads and blocks in one order against the other. Heads of every
 * number of columns that they take, of some that they do not, and rows on both sides of every tile. */
#include "engine/backend/cuda/stand_in.h"

#include "engine/backend/attention_cases.h"

static const struct attention_shape shapes[] = {
    {{1, 2}, 1, 1, 8, 0, false, 0.35},          {{128, 127, 129}, 2, 2, 16, 0, false, 0.25},
    {{65, 1, 63, 64}, 3, 3, 32, 0, true, 0.18}, {{300}, 4, 2, 64, 0, false, 0.125},
    {{31, 33, 32}, 4, 1, 72, 0, false, 0.118},  {{140, 20}, 2, 2, 80, 0, true, 0.112},
    {{200}, 2, 1, 128, 0, false, 0.088},        {{90}, 2, 2, 120, 20, false, 0.091},
    {{400, 7}, 2, 1, 24, 150, false, 0.2},      {{260}, 1, 1, 8, 1, false, 0.35},
    {{50}, 2, 1, 20, 0, false, 0.22},           {{40}, 1, 1, 136, 0, false, 0.086},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static void run_shape(struct world *world, const void *context)
{
    attention_passes(world, context, true);
}

static void test_every_shape_agrees(void **state)
{
    for (int i = 0; i < SHAPES; i++) rivals_run(*state, run_shape, &shapes[i]);
}

/* Scores of +-1000 would overflow without the largest being taken off; the large weights are close to 0 and 1. */
static void test_large_scores_do_not_overflow(void **state)
{
    struct rivals *rivals = *state;
    struct world *world = &rivals->one;
    world->seed = 5;
    attention_passes(world, &(struct attention_shape){{70}, 1, 1, 8, 0, false, 100}, true);
    for (int i = 0; i < world->output_count; i++)
        for (int64_t j = 0; j < world->outputs[i].count; j++) assert_true(isfinite(world->outputs[i].values[j]));
    world_clear(world);
}

/* One key that is not a number reaches the queries that see it, and no others. */
static void test_nan_reaches_those_who_see_it(void **state)
{
    enum { TOKENS = 200, BAD = 70, DIM = 16 };
    struct rivals *rivals = *state;
    struct world *world = &rivals->one;
    const struct backend_ops *ops = world->backend->ops;
    const int64_t lengths[] = {TOKENS};
    struct test_batch batch;
    world->seed = 5;
    test_batch_fill(&batch, lengths, 1, 10);
    const struct matrix q = world_random(world, TOKENS, DIM, 0, 1), k = world_random(world, TOKENS, DIM, 0, 1),
                        out = world_zeros(world, TOKENS, DIM, 0);
    ops->fill(world->backend, matrix_rows(k, BAD, 1), (double)NAN);
    ops->attention_forward(world->backend, &(struct attention_args){.batch = &batch.batch,
                                                                    .heads = 1,
                                                                    .kv_heads = 1,
                                                                    .head_dim = DIM,
                                                                    .scale = 0.25,
                                                                    .q = {q, 0, DIM},
                                                                    .k = {k, 0, DIM},
                                                                    .v = {q, 0, DIM},
                                                                    .out = {out, 0, DIM}});
    double *values = world_read(world, out);
    for (int64_t i = 0; i < (int64_t)TOKENS * DIM; i++) assert_true((isnan(values[i]) != 0) == (i / DIM >= BAD));
    free(values);
    world_clear(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_shape_agrees),
        cmocka_unit_test(test_large_scores_do_not_overflow),
        cmocka_unit_test(test_nan_reaches_those_who_see_it),
    };
    return RUN_ON_ALL_MACHINES("fused attention", tests, open_rounding_rivals, rivals_close);
}
