/* What an advice trains and measures, what it refuses, and when it recommends. */
#include "jobs/advice/advice_forecast.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STEP = 4 * 16 };

static const int64_t steps[] = {30, 40, 50, 60, 70, 80, 90, 100};
enum { MEMBERS = sizeof steps / sizeof steps[0] };

static struct train_params stable(void)
{
    struct train_params params = {.batch_sequences = 4, .sequence_length = 16, .tokens = 400 * STEP};
    params.schedule.name = SCHEDULE_CONSTANT;
    params.schedule.peak = 1e-2;
    params.schedule.warmup = 5 * STEP;
    return params;
}

static struct advice_request request_of(const struct train_params *train, const struct advice_option *options,
                                        int64_t count, int64_t budget)
{
    return (struct advice_request){.train = train,
                                   .steps = steps,
                                   .steady = MEMBERS - 2,
                                   .options = options,
                                   .option_count = count,
                                   .budget = budget * STEP};
}

static void list_of(const struct advice_request *request, struct advice_list *list)
{
    struct error error;
    if (advice_list_make(request, MEMBERS, list, &error) != STATUS_OK) fail_msg("%s", error.detail);
}

static void refused(const struct advice_request *request, const char *pointer, const char *words)
{
    struct advice_list list;
    struct error error;
    assert_int_equal(advice_list_make(request, MEMBERS, &list, &error), STATUS_INVALID);
    assert_string_equal(error.pointer, pointer);
    if (strstr(error.detail, words) == NULL) fail_msg("\"%s\" lacks \"%s\"", error.detail, words);
}

static void row_is(const struct advice_list *list, int64_t i, enum advice_act act, int64_t amount, int64_t before)
{
    const struct advice_row *row = &list->rows[i];
    if (row->act != act || row->amount != amount || row->before != before)
        fail_msg("row %lld: %d %lld %lld", (long long)i, (int)row->act, (long long)row->amount, (long long)row->before);
}

static void test_what_the_budget_reaches_is_trained_to_its_end(void **state)
{
    const struct advice_option options[] = {
        {.decay = 40 * STEP}, {.average = 3}, {.continue_ = 30 * STEP}, {.decay = 20 * STEP - 1}};
    const struct train_params train = stable();
    const struct advice_request request = request_of(&train, options, 4, 90);
    struct advice_list list;
    (void)state;
    list_of(&request, &list);
    assert_int_equal(list.count, 5);
    assert_int_equal(list.trained, 90);
    row_is(&list, 0, ADVICE_MEMBER, MEMBERS - 1, 0);
    row_is(&list, 1, ADVICE_AVERAGE, 3, 0);
    row_is(&list, 2, ADVICE_DECAY, 20, 0); /* whole steps that hold the tokens */
    row_is(&list, 3, ADVICE_DECAY, 40, 0);
    row_is(&list, 4, ADVICE_CONTINUE, 30, 0);
}

/* A decay out of reach: six lengths, doubling, within what going on leaves of the budget. */
static void test_a_long_decay_has_six_shorter_branches(void **state)
{
    const struct advice_option options[] = {{.decay = 380 * STEP}, {.continue_ = 10 * STEP}};
    const struct train_params train = stable();
    const struct advice_request request = request_of(&train, options, 2, 200);
    struct advice_list list;
    (void)state;
    list_of(&request, &list);
    assert_int_equal(list.count, 1 + ADVICE_DECAYS + 1);
    for (int i = 0; i < ADVICE_DECAYS; i++) row_is(&list, 1 + i, ADVICE_DECAY, 96 >> (5 - i), 0); /* 190 * 32 / 63 */
    row_is(&list, 7, ADVICE_CONTINUE, 10, 0);
    assert_true(list.trained <= 200);
}

/* Going on: the run's own steady checkpoints, then one branch in four parts, each from where the last one ended. */
static void test_going_on_far_is_seen_from_the_run_itself(void **state)
{
    const struct advice_option option = {.continue_ = 150 * STEP};
    const struct train_params train = stable();
    const struct advice_request request = request_of(&train, &option, 1, 40);
    struct advice_list list;
    (void)state;
    list_of(&request, &list);
    assert_int_equal(list.count, 1 + (MEMBERS - 3) + ADVICE_STOPS);
    for (int i = 0; i < MEMBERS - 3; i++) row_is(&list, 1 + i, ADVICE_MEMBER, 2 + i, 0);
    for (int i = 0; i < ADVICE_STOPS; i++) row_is(&list, MEMBERS - 2 + i, ADVICE_CONTINUE, 10 * (i + 1), 10 * i);
    assert_int_equal(list.trained, 40);
}

/* With every budget below the one that the refusal names the options are refused, and with it they are not. */
static void test_the_budget_that_is_named_is_the_least_that_will_do(void **state)
{
    static const struct {
        struct advice_option options[3];
        int64_t count, least; /* in steps */
    } cases[] = {
        {{{.decay = 10 * STEP}}, 1, 10}, /* too short for branches: it is trained to its end */
        {{{.decay = 40 * STEP}, {.decay = 30 * STEP}}, 2, 70},
        {{{.decay = 60 * STEP}, {.decay = 50 * STEP}, {.decay = 40 * STEP}}, 3, 150},
        {{{.continue_ = 3 * STEP}}, 1, 3},
        {{{.decay = 100 * STEP}, {.continue_ = 2000 * STEP}}, 2, 600}, /* going on 500, and a decay to its end */
        {{{.decay = 5000 * STEP}, {.continue_ = 10 * STEP}}, 2, 2471}, /* 1250 * 63 / 32, and 10 */
        {{{.decay = 400 * STEP}, {.continue_ = 900 * STEP}}, 2, 450},
    };
    const struct train_params train = stable();
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char named[32];
        (void)snprintf(named, sizeof named, "give %lld tokens", (long long)(cases[c].least * STEP));
        for (int64_t budget = 1; budget <= cases[c].least + 70; budget++) {
            const struct advice_request request = request_of(&train, cases[c].options, cases[c].count, budget);
            struct error error;
            if (budget < cases[c].least)
                refused(&request, "/params/budget", named);
            else
                assert_int_equal(advice_check(&request, MEMBERS, &error), STATUS_OK);
        }
    }
}

static void test_refusals_say_what_would_do(void **state)
{
    const struct advice_option far = {.decay = 10000 * STEP}, average = {.average = MEMBERS + 1},
                               both = {.decay = 1, .average = 1}, none = {0};
    const struct advice_option twice[] = {{.average = 2}, {.average = 2}};
    struct train_params train = stable();
    struct advice_request request = request_of(&train, &far, 1, 500);
    struct advice_list list;
    struct error error;
    (void)state;
    refused(&request, "/params/budget", "too small");
    /* the budget that it names is the least that will do: 10000 / 4 steps for the longest branch */
    request.budget = (2500 * 63 + 31) / 32 * STEP;
    list_of(&request, &list);
    assert_int_equal(list.rows[list.count - 1].amount, 2500);
    request.budget -= STEP;
    refused(&request, "/params/budget", "315008"); /* = 4922 steps */
    request.budget = 0;
    refused(&request, "/params/budget", "is missing");
    request = request_of(&train, &average, 1, 0);
    refused(&request, "/params/options/0", "8 checkpoints");
    request = request_of(&train, &both, 1, 100);
    refused(&request, "/params/options/0", "one of");
    request = request_of(&train, &none, 1, 100);
    refused(&request, "/params/options/0", "one of");
    request = request_of(&train, twice, 2, 100);
    refused(&request, "/params/options/1", "option 0 again");
    train.optimizer.name = OPTIMIZER_SCHEDULE_FREE;
    request = request_of(&train, &far, 1, 100000);
    refused(&request, "/params/options/0", "schedule_free");
    train = stable();
    train.schedule.name = SCHEDULE_COSINE;
    refused(&request, "/params/trajectory", "cosine");
    /* a decay that begins just at the last checkpoint is to come; one that began before it is not */
    train.schedule.name = SCHEDULE_WSD;
    train.schedule.decay = 300 * STEP;
    assert_int_equal(advice_check(&request, MEMBERS, &error), STATUS_OK);
    train.schedule.decay = 302 * STEP;
    refused(&request, "/params/trajectory", "not constant");
}

/* Losses of one sequence of `length` tokens each, the same for all but a share that is the sequence's own. */
enum { SEQUENCES = 4, WIDTH = ADVICE_NUMBERS + SEQUENCES };

static void fill(double *row, double fp, double q, const double *own)
{
    row[ADVICE_FP] = fp;
    row[ADVICE_Q] = q;
    row[ADVICE_DELTA] = q / fp - 1;
    for (int i = 0; i < SEQUENCES; i++) row[ADVICE_NUMBERS + i] = q + own[i];
}

static void test_options_are_told_apart_by_pairs_of_sequences(void **state)
{
    static int64_t starts[] = {0, 16, 32, 48, 64};
    const struct sequences evaluation = {.count = SEQUENCES, .starts = starts};
    const double hard[] = {-1, 1, 0.5, -0.5}, other[] = {-1, 1, 0.52, -0.52};
    const struct advice_option options[] = {{.average = 2}, {.average = 4}};
    const struct train_params train = stable();
    struct advice_request request = request_of(&train, options, 2, 0);
    struct advice_list list;
    struct advice_result found = {.points = NULL};
    double values[3 * WIDTH];
    (void)state;
    request.evaluation = &evaluation;
    list_of(&request, &list);
    const struct advice_measured measured = {.request = &request, .list = &list, .values = values};
    fill(values, 2, 2.5, hard);
    fill(values + WIDTH, 2, 2.4, hard);
    fill(values + 2 * WIDTH, 2, 2.3, other);
    advice_forecast_make(&measured, &found);
    assert_true(found.lowest == 1 && found.next == 0 && found.told_apart && found.forecasts[0].measured);
    assert_true(found.forecasts[0].q.low == 2.4 && found.forecasts[0].q.high == 2.4);
    /* differences -0.1 + (0, 0, 0.02, -0.02): Student's t(3) = 3.18244630528371 */
    const double half = 3.18244630528371 * sqrt(2 * 0.02 * 0.02 / 16 * 4 / 3);
    assert_true(fabs(found.forecasts[0].behind.low - (0.1 - half)) < 1e-12);
    assert_true(fabs(found.forecasts[0].behind.high - (0.1 + half)) < 1e-12);
    fill(values + 2 * WIDTH, 2, 2.39, other);
    advice_forecast_make(&measured, &found);
    assert_true(found.lowest == 1 && !found.told_apart);
    fill(values + 2 * WIDTH, 2, NAN, other);
    advice_forecast_make(&measured, &found);
    assert_true(found.lowest == 0 && !found.told_apart && isnan(found.forecasts[1].behind.low));
}

/* The option that stands for the doubt is the one without a number, wherever it stands in the request. */
static void test_an_option_without_a_number_is_next(void **state)
{
    static int64_t starts[] = {0, 16, 32, 48, 64};
    const struct sequences evaluation = {.count = SEQUENCES, .starts = starts};
    const double own[SEQUENCES] = {0};
    const struct advice_option options[] = {{.average = 2}, {.average = 3}, {.average = 4}};
    const struct train_params train = stable();
    struct advice_request request = request_of(&train, options, 3, 0);
    struct advice_list list;
    (void)state;
    request.evaluation = &evaluation;
    list_of(&request, &list);
    for (int place = 0; place < 3; place++) {
        struct advice_result found = {.points = NULL};
        double values[4 * WIDTH];
        for (int i = 0; i < 4; i++) fill(values + i * WIDTH, 2, i == 1 + place ? NAN : 2.5 + 0.1 * i, own);
        advice_forecast_make(&(struct advice_measured){&request, &list, values}, &found);
        assert_int_equal(found.lowest, place == 0 ? 1 : 0);
        assert_int_equal(found.next, place);
        assert_false(found.told_apart);
    }
}

/* What a trend gives is held to the function that fits it. */
static void test_a_decay_out_of_reach_is_extrapolated_over_its_length(void **state)
{
    static int64_t starts[] = {0, 16, 32, 48, 64};
    const struct sequences evaluation = {.count = SEQUENCES, .starts = starts};
    const double own[SEQUENCES] = {0};
    const struct advice_option option = {.decay = 380 * STEP};
    const struct train_params train = stable();
    struct advice_request request = request_of(&train, &option, 1, 200);
    struct advice_list list;
    struct advice_result found = {.points = NULL};
    double values[(1 + ADVICE_DECAYS) * WIDTH], x[ADVICE_DECAYS], fp[ADVICE_DECAYS], delta[ADVICE_DECAYS];
    (void)state;
    request.evaluation = &evaluation;
    list_of(&request, &list);
    fill(values, 3, 3.1, own);
    for (int i = 0; i < ADVICE_DECAYS; i++) {
        x[i] = (double)list.rows[1 + i].amount;
        fp[i] = 2.9 - 0.05 * i + (i % 2 ? 0.003 : -0.002);
        fill(values + (1 + i) * WIDTH, fp[i], fp[i] * (1.05 + 0.004 * i * i), own);
        delta[i] = values[(1 + i) * WIDTH + ADVICE_DELTA];
    }
    advice_forecast_make(&(struct advice_measured){&request, &list, values}, &found);
    const struct extrapolation loss = extrapolate(EXTRAPOLATE_LOSS, x, fp, ADVICE_DECAYS, 380);
    const struct extrapolation damage = extrapolate(EXTRAPOLATE_DAMAGE, x, delta, ADVICE_DECAYS, 380);
    const struct extrapolation q = extrapolate_product(&loss, &damage);
    const struct advice_forecast *forecast = &found.forecasts[0];
    assert_true(!forecast->measured && forecast->tokens == (100 + 380) * STEP);
    assert_memory_equal(&forecast->fp, &loss, sizeof loss);
    assert_memory_equal(&forecast->delta, &damage, sizeof damage);
    assert_memory_equal(&forecast->q, &q, sizeof q);
    assert_true(found.lowest == 0 && found.next == -1 && found.told_apart);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_the_budget_reaches_is_trained_to_its_end),
        cmocka_unit_test(test_a_long_decay_has_six_shorter_branches),
        cmocka_unit_test(test_going_on_far_is_seen_from_the_run_itself),
        cmocka_unit_test(test_the_budget_that_is_named_is_the_least_that_will_do),
        cmocka_unit_test(test_refusals_say_what_would_do),
        cmocka_unit_test(test_options_are_told_apart_by_pairs_of_sequences),
        cmocka_unit_test(test_an_option_without_a_number_is_next),
        cmocka_unit_test(test_a_decay_out_of_reach_is_extrapolated_over_its_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
