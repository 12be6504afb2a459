/* Schedules against their closed forms. */
#include "train/schedule.h"
#include "unit.h"

#include <math.h>

static void near(double found, double expected)
{
    if (!(fabs(found - expected) <= 1e-15)) fail_msg("%.17g, expected %.17g", found, expected);
}

static void test_wsd_warms_up_stays_and_falls_linearly(void **state)
{
    (void)state;
    const struct schedule s = {.kind = SCHEDULE_WSD, .peak = 1, .warmup = 4, .decay = 5, .total = 20};
    for (int64_t i = 0; i < 4; i++) near(schedule_rate(&s, i), 0.25 * (double)(i + 1));
    for (int64_t i = 4; i <= 15; i++) near(schedule_rate(&s, i), 1);
    for (int64_t i = 15; i < 20; i++) near(schedule_rate(&s, i), (double)(20 - i) / 5);
}

static void test_wsd_falls_by_one_minus_the_root(void **state)
{
    (void)state;
    const struct schedule s = {
        .kind = SCHEDULE_WSD, .peak = 2, .final = 0.1, .decay = 4, .shape = SCHEDULE_SHAPE_SQRT, .total = 10};
    near(schedule_rate(&s, 6), 2);
    near(schedule_rate(&s, 7), 2 * (0.1 + 0.9 * 0.5));
    near(schedule_rate(&s, 9), 2 * (0.1 + 0.9 * (1 - sqrt(0.75))));
}

static void test_cosine_and_linear_fall_from_the_warmup_on(void **state)
{
    (void)state;
    struct schedule s = {.kind = SCHEDULE_COSINE, .peak = 3, .warmup = 2, .total = 10};
    near(schedule_rate(&s, 1), 3);
    near(schedule_rate(&s, 2), 3);
    near(schedule_rate(&s, 6), 1.5);
    near(schedule_rate(&s, 4), 1.5 * (1 + sqrt(0.5)));
    s.kind = SCHEDULE_LINEAR;
    near(schedule_rate(&s, 2), 3);
    near(schedule_rate(&s, 6), 1.5);
    near(schedule_rate(&s, 9), 3.0 / 8);
}

static void test_constant_and_wsd_without_decay_stay(void **state)
{
    (void)state;
    struct schedule s = {.kind = SCHEDULE_CONSTANT, .peak = 1, .warmup = 2, .total = 5};
    near(schedule_rate(&s, 0), 0.5);
    for (int64_t i = 1; i < 5; i++) near(schedule_rate(&s, i), 1);
    s.kind = SCHEDULE_WSD;
    for (int64_t i = 1; i < 5; i++) near(schedule_rate(&s, i), 1);
}

/* A branch has another `total`; until its decay begins it must not differ. */
static void test_the_stable_part_does_not_depend_on_the_total(void **state)
{
    (void)state;
    const struct schedule a = {.kind = SCHEDULE_WSD, .peak = 0.3, .warmup = 7, .decay = 10, .total = 50};
    const struct schedule b = {.kind = SCHEDULE_CONSTANT, .peak = 0.3, .warmup = 7, .total = 1000};
    for (int64_t i = 0; i < 40; i++) assert_true(schedule_rate(&a, i) == schedule_rate(&b, i));
}

static void test_lengths_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    static const struct schedule bad[] = {
        {.kind = SCHEDULE_WSD, .peak = 1, .warmup = 6, .decay = 5, .total = 10},
        {.kind = SCHEDULE_WSD, .peak = 1, .decay = 11, .total = 10},
        {.kind = SCHEDULE_COSINE, .peak = 1, .warmup = 11, .total = 10},
        {.kind = SCHEDULE_COSINE, .peak = 0, .total = 10},
        {.kind = SCHEDULE_COSINE, .peak = NAN, .total = 10},
        {.kind = SCHEDULE_COSINE, .peak = 1, .final = 1.5, .total = 10},
        {.kind = SCHEDULE_CONSTANT, .peak = 1, .total = 0},
    };
    struct error error;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(schedule_check(&bad[i], &error), STATUS_INVALID);
    const struct schedule exact = {.kind = SCHEDULE_WSD, .peak = 1, .warmup = 5, .decay = 5, .total = 10};
    assert_int_equal(schedule_check(&exact, &error), STATUS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wsd_warms_up_stays_and_falls_linearly),
        cmocka_unit_test(test_wsd_falls_by_one_minus_the_root),
        cmocka_unit_test(test_cosine_and_linear_fall_from_the_warmup_on),
        cmocka_unit_test(test_constant_and_wsd_without_decay_stay),
        cmocka_unit_test(test_the_stable_part_does_not_depend_on_the_total),
        cmocka_unit_test(test_lengths_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}
