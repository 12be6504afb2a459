/* Which schedules a branch may have: those whose rate goes on where the run that made the checkpoint left it. */
#include "engine/jobs/train_runs.h"

static void refuse_branch(const struct train_params *params, int64_t step, const struct train_params *trunk,
                          const char *pointer, const char *words)
{
    assert_int_equal(train_check_branch(params, step, trunk, &error), STATUS_INVALID);
    assert_string_equal(error.pointer, pointer);
    if (strstr(error.detail, words) == NULL) fail_msg("\"%s\" lacks \"%s\"", error.detail, words);
}

/* Lengths that are no whole number of steps are rounded up, so a decay of what is left always fits. */
static void test_a_branch_may_not_bend_before_its_checkpoint(void **state)
{
    (void)state;
    struct train_params params = plain(), trunk = plain(); /* 40 steps of 64 tokens; 5 of warm-up, a decay of 10 */
    ok(train_check_branch(&params, 30, NULL, &error));
    refuse_branch(&params, 31, NULL, "/params/schedule/decay", "at most 576 tokens");
    ok(train_check_branch(&params, 31, &trunk, &error));
    refuse_branch(&params, 40, NULL, "/params/tokens", "has seen 2560 tokens already");
    trunk.batch_sequences = 2 * params.batch_sequences; /* its own steps tell what it has seen */
    refuse_branch(&params, 40, &trunk, "/params/tokens", "has seen 5120 tokens already");
    trunk = plain();
    for (int64_t tokens = 31 * STEP - 63; tokens <= 40 * STEP; tokens++) {
        params.tokens = tokens;
        params.schedule.decay = tokens - 30 * STEP;
        ok(train_check_branch(&params, 30, NULL, &error));
    }
    trunk.tokens = 41 * STEP; /* its decay began one step later */
    refuse_branch(&params, 31, &trunk, "/params/schedule/decay", "begins at step 30, before step 31");
    params = plain();
    refuse_branch(&params, 4, NULL, "/params/schedule/warmup", "at most 256 tokens");
    params.schedule.decay = 20 * STEP; /* the trunk was stopped in the warm-up that both have */
    ok(train_check_branch(&params, 4, &trunk, &error));
    params.schedule.name = SCHEDULE_SGDR;
    params.schedule.period = 8 * STEP;
    params.schedule.growth = 1;
    refuse_branch(&params, 20, &trunk, "/params/schedule/start", "begin at step 5, before step 20");
    params.schedule.start = 20 * STEP;
    ok(train_check_branch(&params, 20, &trunk, &error));
    trunk.schedule = params.schedule;
    ok(train_check_branch(&params, 33, &trunk, &error)); /* cycles do not depend on the end */
    params.schedule.name = SCHEDULE_CONSTANT;
    ok(train_check_branch(&params, 39, NULL, &error));
}

/* A run of 40 steps, 5 of them warm-up. */
static struct train_params with(int name, double peak, int64_t decay)
{
    struct train_params params = plain();
    params.schedule.name = name;
    params.schedule.peak = peak;
    params.schedule.decay = decay * STEP;
    return params;
}

/* What falls from the warm-up on is no continuation of a rate that did not, nor the other way round. */
static void test_a_branch_of_a_stable_run_may_not_have_fallen(void **state)
{
    (void)state;
    const int falling[] = {SCHEDULE_COSINE, SCHEDULE_LINEAR};
    const struct train_params trunk = with(SCHEDULE_WSD, 3e-3, 0);
    for (int i = 0; i < 2; i++) {
        struct train_params params = with(falling[i], 3e-3, 0);
        refuse_branch(&params, 20, &trunk, "/params/schedule/name", "falls from step 5 on, before step 20");
        refuse_branch(&params, 6, NULL, "/params/schedule/name", "at most 2176 tokens");
        ok(train_check_branch(&params, 5, NULL, &error));
        ok(train_check_branch(&params, 5, &trunk, &error));
        params.schedule.final = 1;
        ok(train_check_branch(&params, 20, &trunk, &error));
    }
    struct train_params linear = with(SCHEDULE_LINEAR, 3e-3, 0);
    linear.schedule.warmup = 0; /* a fifth of its 40 steps is left */
    refuse_branch(&linear, 32, &trunk, "/params/schedule/name", "jump from 0.003 to 0.0006; ");
}

static void test_a_schedule_over_more_tokens_is_another_one(void **state)
{
    (void)state;
    const struct train_params trunk = with(SCHEDULE_COSINE, 1, 0);
    struct train_params params = trunk;
    ok(train_check_branch(&params, 20, &trunk, &error));
    params.tokens = 80 * STEP;
    refuse_branch(&params, 20, &trunk, "/params/schedule", "with its 2560 tokens");
    refuse_branch(&params, 40, &trunk, "/params/schedule", "would jump from 0.00201285 to 0.552264 at step 40");
    assert_null(strstr(error.detail, "with its"));
}

/* The rate that was reached, the last one or the next, may be kept; six digits tell it. */
static void test_a_rate_that_was_reached_may_be_kept(void **state)
{
    (void)state;
    const struct train_params trunk = with(SCHEDULE_WSD, 3e-2, 15); /* 25 steps, then 2e-3 less at each */
    const double kept[] = {2e-2, 1.8e-2, 1.80001e-2};
    for (int i = 0; i < 3; i++) {
        struct train_params params = with(SCHEDULE_CONSTANT, kept[i], 0);
        ok(train_check_branch(&params, 31, &trunk, &error));
        params = with(SCHEDULE_WSD, kept[i], 9);
        ok(train_check_branch(&params, 31, &trunk, &error));
    }
    const double others[] = {3e-2, 1.9e-2, 1.8001e-2, 1e-2};
    for (int i = 0; i < 4; i++) {
        const struct train_params params = with(SCHEDULE_CONSTANT, others[i], 0);
        refuse_branch(&params, 31, &trunk, "/params/schedule", "give a schedule that has 0.02 there");
        ok(train_check_branch(&params, 31, NULL, &error)); /* nothing is known of the rate there */
    }
    struct train_params params = with(SCHEDULE_CONSTANT, 2e-3, 0); /* from the end, where 0 would be next */
    params.tokens = 50 * STEP;
    ok(train_check_branch(&params, 40, &trunk, &error));
}

static void test_a_branch_has_the_peak_of_its_stable_run(void **state)
{
    (void)state;
    const struct train_params trunk = with(SCHEDULE_CONSTANT, 3e-3, 0);
    struct train_params params = with(SCHEDULE_WSD, 1e-2, 20);
    refuse_branch(&params, 20, &trunk, "/params/schedule", "would jump from 0.003 to 0.01 at step 20");
    params.schedule.peak = 3e-3;
    ok(train_check_branch(&params, 20, &trunk, &error));
    params.tokens = 60 * STEP; /* from the last checkpoint of the run */
    ok(train_check_branch(&params, 40, &trunk, &error));
}

/* What the header of a training state says is held to the request before anything is read or trained. */
static void test_a_state_is_held_to_the_branch(void **state)
{
    (void)state;
    struct train_params params = plain();
    const struct state_about fits = {.optimizer = "adamw",
                                     .step = 39,
                                     .batch_sequences = params.batch_sequences,
                                     .sequence_length = params.sequence_length,
                                     .ema_updates = 39,
                                     .ema_decay = 0.5};
    struct state_about other = fits;
    ok(train_check_state(&params, &fits, &error));
    other.step = 40;
    assert_int_equal(train_check_state(&params, &other, &error), STATUS_INVALID);
    assert_string_equal(error.pointer, "/params/tokens");
    other = fits;
    other.sequence_length *= 2;
    assert_int_equal(train_check_state(&params, &other, &error), STATUS_INVALID);
    assert_string_equal(error.pointer, "/params/batch_sequences");
    params.ema.decay = 0.9;
    assert_int_equal(train_check_state(&params, &fits, &error), STATUS_INVALID);
    assert_string_equal(error.pointer, "/params/ema/decay");
    params.optimizer.name = OPTIMIZER_MUON;
    assert_int_equal(train_check_state(&params, &fits, &error), STATUS_INVALID);
    assert_string_equal(error.pointer, "/params/optimizer");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_branch_may_not_bend_before_its_checkpoint),
        cmocka_unit_test(test_a_branch_of_a_stable_run_may_not_have_fallen),
        cmocka_unit_test(test_a_schedule_over_more_tokens_is_another_one),
        cmocka_unit_test(test_a_rate_that_was_reached_may_be_kept),
        cmocka_unit_test(test_a_branch_has_the_peak_of_its_stable_run),
        cmocka_unit_test(test_a_state_is_held_to_the_branch),
    };
    return cmocka_run_group_tests_name("train branch", tests, NULL, NULL);
}
