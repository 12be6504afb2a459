/* Every optimizer, and averages of the weights, in whole runs: they resume and branch with the same bits, go on from
 * the states that are theirs, and take the memory that was counted. */
#include "engine/jobs/train_runs.h"
#include "eval/evaluate.h"

#include <stdlib.h>

enum { HIDDEN = 16 };    /* of MODEL: the largest smaller side of its matrices */
enum { SOAP_MOST = 24 }; /* its vocabulary of 31 is not rotated */
/* One request for each optimizer and for averages. */
enum { AVERAGED_ADAMW = OPTIMIZER_COUNT, AVERAGED_SAM, FLAVOURS };

static struct train_params flavoured(int i)
{
    struct train_params params = plain();
    params.optimizer.name = i < OPTIMIZER_COUNT ? i : OPTIMIZER_ADAMW;
    params.optimizer.settings.rho = i == OPTIMIZER_ASAM ? 0.5 : 0.05;
    params.optimizer.settings.eta = 0.01;
    params.optimizer.settings.momentum = 0.95;
    params.optimizer.settings.adamw_rate = 1;
    params.optimizer.settings.precondition_frequency = 3;
    params.optimizer.settings.max_precond_dim = SOAP_MOST;
    if (i == AVERAGED_ADAMW || i == OPTIMIZER_SCHEDULE_FREE) params.ema.decay = 0.9;
    if (i == AVERAGED_SAM) params.optimizer.name = OPTIMIZER_SAM, params.ema.decay = 0.99;
    if (params.optimizer.name == OPTIMIZER_SCHEDULE_FREE) params.schedule.decay = 0;
    return params;
}

static void test_every_optimizer_stopped_anywhere_ends_with_the_same_bits(void **state)
{
    (void)state;
    struct backend *backend = fast_backend(NULL);
    for (int i = 1; i < FLAVOURS; i++) {
        const struct train_params params = flavoured(i);
        struct train_result expected;
        struct place whole;
        place_open(&whole);
        ok(run(&whole, &params, NULL, backend, -1, 0, &expected));
        assert_int_equal(expected.checkpoint_count, params.ema.decay > 0 ? 8 : 4);
        assert_true(expected.validation_loss < expected.checkpoints[0].validation_loss);
        assert_true(isnan(expected.ema_loss) == (params.ema.decay == 0));
        resume_to_the_end(&params, 7, 1e-9, &whole, &expected); /* in the middle of steps with two gradients too */
        resume_to_the_end(&params, 8, 1e-9, &whole, &expected);
        resume_to_the_end(&params, 35, 1e9, &whole, &expected);
        train_result_reset(&expected);
        place_close(&whole);
    }
    backend_free(backend);
}

/* The optimizers are not one another: a row that did nothing of its own would pass what only compares runs with
 * themselves. */
static void test_every_optimizer_ends_elsewhere(void **state)
{
    (void)state;
    struct backend *backend = fast_backend(NULL);
    double losses[OPTIMIZER_COUNT];
    for (int i = 0; i < OPTIMIZER_COUNT; i++) {
        struct train_params params = flavoured(i);
        struct train_result result;
        struct place place;
        params.schedule.decay = 0;
        place_open(&place);
        ok(run(&place, &params, NULL, backend, -1, 0, &result));
        losses[i] = result.validation_loss;
        for (int k = 0; k < i; k++) assert_true(losses[k] != losses[i]);
        train_result_reset(&result);
        place_close(&place);
    }
    backend_free(backend);
}

/* The average leaves the run alone; its checkpoints hold what ema_loss was measured on, and no state. */
static void test_averages_are_checkpoints_beside_the_run(void **state)
{
    (void)state;
    struct train_params params = plain();
    struct train_result result[2];
    struct place place[2];
    struct model *model = NULL;
    struct evaluate_result evaluated;
    char path[900], state_path[920], *text = NULL;
    size_t size = 0;
    struct backend *backend = fast_backend(NULL);
    for (int i = 0; i < 2; i++) {
        params.ema.decay = i == 1 ? 0.9 : 0;
        place_open(&place[i]);
        ok(run(&place[i], &params, NULL, backend, -1, 0, &result[i]));
    }
    assert_int_equal(place[1].written, 8);
    assert_same_file(&place[0], &place[1], "step0000040", "model.safetensors");
    assert_true(result[0].validation_loss == result[1].validation_loss && isnan(result[0].ema_loss));
    assert_int_equal(result[1].checkpoints[6].averaged, 0);
    assert_int_equal(result[1].checkpoints[7].averaged, 1);
    assert_true(result[1].checkpoints[7].validation_loss == result[1].ema_loss);
    assert_true(result[1].ema_loss != result[1].validation_loss);
    int64_t starts[9];
    for (int64_t s = 0; s <= 8; s++) starts[s] = s * 16;
    const struct sequences sequences = {8, starts, stream};
    (void)snprintf(path, sizeof path, "%s/step0000040-ema", place[1].out);
    ok(model_open(path, &model, &error));
    ok(evaluate_run(model, backend, &sequences, NULL, &evaluated, &error));
    assert_true(fabs(evaluated.loss - result[1].ema_loss) < 1e-6);
    evaluate_result_reset(&evaluated);
    model_close(model);
    text = contents(place[1].out, "step0000040-ema", "training.json", &size);
    assert_non_null(strstr(text, "\"train_loss\": null"));
    assert_non_null(strstr(text, "\"updates\": 40}"));
    memory_free(text);
    (void)snprintf(state_path, sizeof state_path, "%s/training.state", path);
    assert_int_not_equal(access(state_path, F_OK), 0);
    for (int i = 0; i < 2; i++) {
        train_result_reset(&result[i]);
        place_close(&place[i]);
    }
    backend_free(backend);
}

/* For the state of every optimizer and of the average: a longer run from the middle of a shorter one is the longer
 * run. */
static void test_every_optimizer_branches_with_the_same_bits(void **state)
{
    (void)state;
    struct backend *backend = fast_backend(NULL);
    for (int i = 1; i < FLAVOURS; i++) {
        struct train_params params = flavoured(i), on;
        struct train_result result[2];
        struct place place[2];
        char from[900];
        params.schedule.decay = 0;
        on = params;
        on.model = NULL;
        on.from = "t/step0000020";
        for (int k = 0; k < 2; k++) place_open(&place[k]);
        ok(run(&place[0], &params, NULL, backend, -1, 0, &result[0]));
        (void)snprintf(from, sizeof from, "%s/step0000020", place[0].out);
        ok(run(&place[1], &on, from, backend, -1, 0, &result[1]));
        assert_same_file(&place[0], &place[1], "step0000040", "model.safetensors");
        if (params.ema.decay > 0) assert_same_file(&place[0], &place[1], "step0000040-ema", "model.safetensors");
        for (int k = 0; k < 2; k++) {
            train_result_reset(&result[k]);
            place_close(&place[k]);
        }
    }
    backend_free(backend);
}

static enum status branch_of(const struct train_params *params, struct train_params on, struct backend *backend)
{
    struct train_result result;
    struct place place[2];
    char from[900];
    for (int k = 0; k < 2; k++) place_open(&place[k]);
    ok(run(&place[0], params, NULL, backend, -1, 0, &result));
    train_result_reset(&result);
    on.model = NULL;
    on.from = "t/step0000020";
    (void)snprintf(from, sizeof from, "%s/step0000020", place[0].out);
    error = (struct error){0};
    const enum status status = run(&place[1], &on, from, backend, -1, 0, &result);
    train_result_reset(&result);
    for (int k = 0; k < 2; k++) place_close(&place[k]);
    return status;
}

static void test_which_states_an_optimizer_goes_on_from(void **state)
{
    (void)state;
    struct backend *backend = fast_backend(NULL);
    struct train_params on = flavoured(AVERAGED_ADAMW);
    const struct train_params adamw = flavoured(OPTIMIZER_ADAMW), sam = flavoured(OPTIMIZER_SAM),
                              averaged = flavoured(AVERAGED_ADAMW),
                              free_of_schedule = flavoured(OPTIMIZER_SCHEDULE_FREE);
    ok(branch_of(&adamw, flavoured(OPTIMIZER_SAM), backend));
    ok(branch_of(&sam, flavoured(OPTIMIZER_ASAM), backend));       /* the moments are the same */
    ok(branch_of(&adamw, flavoured(AVERAGED_ADAMW), backend));     /* an average begins */
    ok(branch_of(&averaged, flavoured(OPTIMIZER_ADAMW), backend)); /* or is left */
    assert_int_equal(branch_of(&adamw, flavoured(OPTIMIZER_SCHEDULE_FREE), backend), STATUS_INVALID);
    assert_string_equal(error.pointer, "/params/optimizer");
    assert_non_null(strstr(error.detail, "\"adamw\", which \"schedule_free\" cannot go on with"));
    assert_int_equal(branch_of(&free_of_schedule, flavoured(OPTIMIZER_SAM), backend), STATUS_INVALID);
    assert_int_equal(branch_of(&adamw, flavoured(OPTIMIZER_MUON), backend), STATUS_INVALID);
    assert_int_equal(branch_of(&adamw, flavoured(OPTIMIZER_SOAP), backend), STATUS_INVALID);
    struct train_params other_sides = flavoured(OPTIMIZER_SOAP);
    other_sides.optimizer.settings.max_precond_dim = 31;
    assert_int_equal(branch_of(&other_sides, flavoured(OPTIMIZER_SOAP), backend), STATUS_INVALID);
    assert_non_null(strstr(error.detail, "with other settings"));
    on.ema.decay = 0.5;
    assert_int_equal(branch_of(&averaged, on, backend), STATUS_INVALID);
    assert_string_equal(error.pointer, "/params/ema/decay");
    backend_free(backend);
}

/* Of a block of MODEL: four matrices of attention, [16, 16] and [8, 16] twice each, three of the MLP; grams and bases
 * of both sides, of the embedding of the right one. What it works in: two of the largest matrix, two squares of the
 * longest side and householder_basis's factors, [32, 32], and two stretches of 32; on the host a panel, its factor and
 * a row. */
static int64_t soaps_bytes(void)
{
    const int64_t hidden = 16 * 16, heads = 8 * 8, mlp = 24 * 24;
    const int64_t block = 2 * (2 * hidden) + 2 * (heads + hidden) + 3 * (hidden + mlp);
    const int64_t scratch = 2 * 31 * 16 + 2 * mlp + 32 * 32 + 2 * 32 * 24;
    return (2 * (2 * block + hidden) + scratch) * (int64_t)sizeof(float) +
           (24 * 32 + 32 * 32 + 32) * (int64_t)sizeof(double);
}

/* What an optimizer alone has decides the run, too. */
static void test_other_settings_do_not_go_on_with_a_run(void **state)
{
    (void)state;
    struct backend *backend = fast_backend(NULL);
    for (int i = 0; i < 2; i++) {
        struct train_params params = flavoured(i == 0 ? OPTIMIZER_MUON : OPTIMIZER_SOAP);
        struct train_result result;
        struct place place;
        place_open(&place);
        assert_int_equal(run(&place, &params, NULL, backend, 7, 1e-9, &result), STATUS_CANCELLED);
        train_result_reset(&result);
        params.optimizer.settings.momentum = 0.5;
        params.optimizer.settings.precondition_frequency = 4;
        assert_int_equal(run(&place, &params, NULL, backend, -1, 0, &result), STATUS_INPUT_CHANGED);
        train_result_reset(&result);
        place_close(&place);
    }
    backend_free(backend);
}

static void test_an_optimizers_buffers_count_as_memory(void **state)
{
    (void)state;
    const struct dataset_source *source = &stream_source;
    struct backend *backend = fast_backend(NULL);
    int64_t least[FLAVOURS];
    for (int i = 0; i < FLAVOURS; i++) {
        struct train_params params = flavoured(i);
        struct train_result result;
        struct place place;
        params.tokens = 20 * STEP;
        int64_t low = 1, high = 1 << 24; /* the least limit that is enough, to 256 bytes */
        while (high - low > 256) {
            const int64_t limit = (low + high) / 2;
            place_open(&place);
            const struct train_request request = {.params = &params,
                                                  .dataset = source,
                                                  .directory = place.out,
                                                  .work_directory = place.work,
                                                  .memory_limit = limit,
                                                  .backend = backend};
            if (train_run(&request, &result, &error) == STATUS_OK)
                high = limit;
            else
                low = limit;
            train_result_reset(&result);
            place_close(&place);
        }
        least[i] = high;
    }
    const int64_t buffer = least[1] - least[0]; /* home */
    assert_true(buffer > 10000);
    static const int buffers[FLAVOURS] = {[OPTIMIZER_SAM] = 1,
                                          [OPTIMIZER_ASAM] = 1,
                                          [OPTIMIZER_SCHEDULE_FREE] = 2,
                                          [AVERAGED_ADAMW] = 1,
                                          [AVERAGED_SAM] = 2};
    for (int i = 1; i < FLAVOURS; i++) {
        const int64_t squares = i == OPTIMIZER_MUON   ? 2 * HIDDEN * HIDDEN * (int64_t)sizeof(float)
                                : i == OPTIMIZER_SOAP ? soaps_bytes()
                                                      : 0;
        if (llabs(least[i] - least[0] - buffers[i] * buffer - squares) > 1024)
            fail_msg("%d: %lld bytes beside the buffers, not %lld", i,
                     (long long)(least[i] - least[0] - buffers[i] * buffer), (long long)squares);
    }
    backend_free(backend);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_optimizer_stopped_anywhere_ends_with_the_same_bits),
        cmocka_unit_test(test_every_optimizer_ends_elsewhere),
        cmocka_unit_test(test_averages_are_checkpoints_beside_the_run),
        cmocka_unit_test(test_every_optimizer_branches_with_the_same_bits),
        cmocka_unit_test(test_which_states_an_optimizer_goes_on_from),
        cmocka_unit_test(test_other_settings_do_not_go_on_with_a_run),
        cmocka_unit_test(test_an_optimizers_buffers_count_as_memory),
    };
    stream_fill();
    return cmocka_run_group_tests_name("train_optimizers", tests, NULL, NULL);
}
