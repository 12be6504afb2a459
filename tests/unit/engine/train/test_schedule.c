/* Schedules against their closed forms. */
#include "train/schedule.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>

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

static void test_sgdr_restarts_in_cycles_that_grow(void **state)
{
    (void)state;
    struct schedule s = {.kind = SCHEDULE_SGDR, .peak = 2, .warmup = 2, .period = 4, .growth = 2, .total = 30};
    near(schedule_rate(&s, 0), 1);
    near(schedule_rate(&s, 2), 2);
    near(schedule_rate(&s, 4), 1);
    near(schedule_rate(&s, 5), 1 + cos(3 * M_PI / 4));
    near(schedule_rate(&s, 6), 2); /* 8 steps from here */
    near(schedule_rate(&s, 10), 1);
    near(schedule_rate(&s, 14), 2); /* 16 steps from here */
    near(schedule_rate(&s, 22), 1);
    s.growth = 1;
    for (int64_t i = 2; i < 26; i++) near(schedule_rate(&s, i), schedule_rate(&s, i + 4));
    s.final = 0.5;
    near(schedule_rate(&s, 4), 1.5);
}

/* The cosine in the cycle of `length` steps that began at `start`. */
static void in_cycle(const struct schedule *s, int64_t step, int64_t start, int64_t length)
{
    const double expected = 0.5 * (1 + cos(M_PI * (double)(step - start) / (double)length));
    const double found = schedule_rate(s, step);
    if (!(fabs(found - expected) <= 1e-9))
        fail_msg("period %lld, growth %g: %.17g at step %lld, expected %.17g", (long long)s->period, s->growth, found,
                 (long long)step, expected);
}

/* Whole lengths may be slightly above or below their products in double: 100 * 1.1 is above 110. */
static void test_cycles_of_whole_lengths_begin_at_their_steps(void **state)
{
    static const struct {
        int64_t period, up, down;
        int cycles; /* of whole lengths */
    } rows[] = {{100, 11, 10, 3}, {1000000000, 11, 10, 10}, {1000000000, 12, 10, 10}, {1000, 13, 10, 4}, {4, 2, 1, 30}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct schedule s = {.kind = SCHEDULE_SGDR,
                                   .peak = 1,
                                   .period = rows[i].period,
                                   .growth = (double)rows[i].up / (double)rows[i].down,
                                   .total = INT64_MAX};
        int64_t start = 0, length = rows[i].period;
        for (int cycle = 0; cycle < rows[i].cycles;
             cycle++, start += length, length = length * rows[i].up / rows[i].down)
            for (int64_t k = 0; k < 4; k++) in_cycle(&s, start + k * (length - 1) / 3, start, length);
        near(schedule_rate(&s, start), 1);
    }
    for (int64_t tenths = 11; tenths <= 30; tenths++)
        for (int64_t period = 10; period <= 1000; period += 10) {
            const struct schedule s = {
                .kind = SCHEDULE_SGDR, .peak = 1, .period = period, .growth = (double)tenths / 10, .total = INT64_MAX};
            const int64_t length = period * tenths / 10, next = period + length;
            in_cycle(&s, next - 1, period, length);
            near(schedule_rate(&s, next), 1);
        }
}

/* The cycle k begins at period (growth^k - 1) / (growth - 1), between two steps. */
static void test_many_cycles_do_not_drift(void **state)
{
    const struct schedule s = {.kind = SCHEDULE_SGDR, .peak = 1, .period = 100, .growth = 1.1, .total = INT64_MAX};
    (void)state;
    for (int k = 4; k < 200; k++) {
        const long double growth = (long double)s.growth, power = powl(growth, k);
        const long double start = 100 * (power - 1) / (growth - 1), step = ceill(start);
        const double x = (double)((step - start) / (100 * power));
        assert_true(fabs(schedule_rate(&s, (int64_t)step) - 0.5 * (1 + cos(M_PI * x))) <= 1e-9);
        assert_true(schedule_rate(&s, (int64_t)step - 1) < 0.01);
    }
}

static void test_oscillation_falls_and_rises_from_its_start(void **state)
{
    (void)state;
    const struct schedule s = {
        .kind = SCHEDULE_OSCILLATING, .peak = 4, .final = 0.25, .start = 10, .period = 8, .total = 40};
    for (int64_t i = 0; i <= 10; i++) near(schedule_rate(&s, i), 4);
    near(schedule_rate(&s, 12), 2.5);
    near(schedule_rate(&s, 14), 1);
    near(schedule_rate(&s, 16), 2.5);
    near(schedule_rate(&s, 18), 4);
    assert_true(schedule_falls(&s));
}

/* A branch has another `total`; until its decay begins it must not differ. */
static void test_the_stable_part_does_not_depend_on_the_total(void **state)
{
    (void)state;
    const struct schedule a = {.kind = SCHEDULE_WSD, .peak = 0.3, .warmup = 7, .decay = 10, .total = 50};
    const struct schedule b = {.kind = SCHEDULE_CONSTANT, .peak = 0.3, .warmup = 7, .total = 1000};
    for (int64_t i = 0; i < 40; i++) assert_true(schedule_rate(&a, i) == schedule_rate(&b, i));
}

static void test_a_schedule_is_at_its_peak_until_it_bends(void **state)
{
    (void)state;
    const struct {
        struct schedule schedule;
        int64_t bend;
        double after; /* the last step */
    } rows[] = {{{.kind = SCHEDULE_WSD, .decay = 4, .final = 0.5}, 16, 0.5},
                {{.kind = SCHEDULE_WSD}, 20, 1},
                {{.kind = SCHEDULE_CONSTANT, .decay = 4}, 20, 1},
                {{.kind = SCHEDULE_COSINE}, 3, 0},
                {{.kind = SCHEDULE_LINEAR, .final = 0.25}, 3, 0.25},
                {{.kind = SCHEDULE_SGDR, .period = 17, .growth = 1}, 3, 1},
                {{.kind = SCHEDULE_OSCILLATING, .period = 4, .start = 16}, 16, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct schedule schedule = rows[i].schedule;
        schedule.peak = 1;
        schedule.warmup = 3;
        schedule.total = 20;
        assert_int_equal(schedule_bend(&schedule), rows[i].bend);
        for (int64_t step = 3; step < 20; step++)
            assert_true((schedule_rate(&schedule, step) < 1) <= (step > rows[i].bend));
        if (rows[i].bend < 19) assert_true(schedule_rate(&schedule, rows[i].bend + 1) < 1);
        near(schedule_rate(&schedule, 20), rows[i].after);
    }
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
        {.kind = SCHEDULE_SGDR, .peak = 1, .growth = 1, .total = 10},
        {.kind = SCHEDULE_SGDR, .peak = 1, .period = 2, .growth = 0.5, .total = 10},
        {.kind = SCHEDULE_OSCILLATING, .peak = 1, .period = 2, .start = -1, .total = 10},
        {.kind = SCHEDULE_OSCILLATING, .peak = 1, .total = 10},
    };
    struct error error;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(schedule_check(&bad[i], &error), STATUS_INVALID);
    const struct schedule exact = {.kind = SCHEDULE_WSD, .peak = 1, .warmup = 5, .decay = 5, .total = 10};
    assert_int_equal(schedule_check(&exact, &error), STATUS_OK);
}

static void test_cycles_that_cannot_be_are_refused_at_their_field(void **state)
{
    (void)state;
    static const struct {
        struct schedule schedule;
        const char *field; /* NULL: accepted */
    } rows[] = {
        {{.kind = SCHEDULE_SGDR, .period = 1}, "period"},
        {{.kind = SCHEDULE_SGDR, .period = 2}, NULL},
        {{.kind = SCHEDULE_OSCILLATING, .period = 3}, "period"},
        {{.kind = SCHEDULE_OSCILLATING, .period = 4}, NULL},
        {{.kind = SCHEDULE_OSCILLATING, .period = 4, .start = 10}, "start"},
        {{.kind = SCHEDULE_SGDR, .period = 4, .start = 9}, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct schedule schedule = rows[i].schedule;
        struct error error;
        char pointer[60];
        schedule.peak = schedule.growth = 1;
        schedule.total = 10;
        assert_int_equal(schedule_check(&schedule, &error), rows[i].field == NULL ? STATUS_OK : STATUS_INVALID);
        if (rows[i].field == NULL) continue;
        (void)snprintf(pointer, sizeof pointer, "/params/schedule/%s", rows[i].field);
        assert_string_equal(error.pointer, pointer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wsd_warms_up_stays_and_falls_linearly),
        cmocka_unit_test(test_wsd_falls_by_one_minus_the_root),
        cmocka_unit_test(test_cosine_and_linear_fall_from_the_warmup_on),
        cmocka_unit_test(test_constant_and_wsd_without_decay_stay),
        cmocka_unit_test(test_sgdr_restarts_in_cycles_that_grow),
        cmocka_unit_test(test_cycles_of_whole_lengths_begin_at_their_steps),
        cmocka_unit_test(test_many_cycles_do_not_drift),
        cmocka_unit_test(test_oscillation_falls_and_rises_from_its_start),
        cmocka_unit_test(test_the_stable_part_does_not_depend_on_the_total),
        cmocka_unit_test(test_a_schedule_is_at_its_peak_until_it_bends),
        cmocka_unit_test(test_lengths_that_do_not_fit_are_refused),
        cmocka_unit_test(test_cycles_that_cannot_be_are_refused_at_their_field),
    };
    return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}
