/* Change points: how often there is an alarm where nothing changes, how often a change is found, and where. */
#include "base/random.h"
#include "eval/changepoint.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>

enum { POINTS = 20, RUNS = 150, MOST = 64 };

struct line {
    double x[MOST], y[MOST];
};

static struct changepoint find(const struct line *line, int64_t count)
{
    struct changepoint found;
    struct error error;
    assert_int_equal(changepoint_find(line->x, line->y, count, &found, &error), STATUS_OK);
    return found;
}

/* Trends as losses and ΔQL have them, over 0 … 1; each has a range of about 1. */
static double smooth(int shape, double u)
{
    switch (shape) {
    case 0:
        return 0;
    case 1:
        return u;
    case 2:
        return log(1 + 20 * u) / 3;
    case 3:
        return 1.2 / sqrt(1 + 20 * u);
    case 4:
        return exp(-4 * u);
    default:
        return u * u;
    }
}
enum { SHAPES = 6 };

static void fill(int shape, double noise, bool walk, uint64_t stream, struct line *out)
{
    double at = 0;
    for (int i = 0; i < POINTS; i++) {
        const double fresh = noise * random_normal((uint64_t)shape + 100 * walk, stream, (uint64_t)i);
        at = walk ? at + fresh : fresh;
        out->x[i] = 1000.0 * (i + 1);
        out->y[i] = smooth(shape, (double)i / (POINTS - 1)) + at;
    }
}

static int alarms(int shape, double noise, bool walk)
{
    int count = 0;
    for (uint64_t s = 0; s < RUNS; s++) {
        struct line line;
        fill(shape, noise, walk, s, &line);
        count += find(&line, POINTS).p <= 0.05;
    }
    return count;
}

/* 5 of 100, and three standard errors of so many runs. */
static const double allowed = RUNS * 0.05 + 3 * 2.67;

static void test_smooth_trends_with_noise_raise_few_alarms(void **state)
{
    (void)state;
    for (int shape = 0; shape < SHAPES; shape++) {
        const int found = alarms(shape, 0.05, false);
        if (found > allowed) fail_msg("shape %d: %d alarms of %d", shape, found, RUNS);
    }
}

static void test_random_walks_raise_few_alarms(void **state)
{
    (void)state;
    for (int shape = 0; shape < 3; shape++) { /* level, with a drift, with a drift that flattens */
        const int found = alarms(shape, 0.1, true);
        if (found > allowed) fail_msg("shape %d: %d alarms of %d", shape, found, RUNS);
    }
}

/* Both kinds, under both kinds of noise, of four times the noise for each step: found, told by kind, and the interval
 * holds the place in at least 85 of 100. */
static void test_changes_are_found_where_they_are(void **state)
{
    enum { AT = 13, TIMES = 60 };
    (void)state;
    for (int variant = 0; variant < 4; variant++) {
        const bool walk = variant & 1, bends = variant & 2;
        int found = 0, right = 0, held = 0;
        for (uint64_t s = 0; s < TIMES; s++) {
            struct line line;
            fill(1, 0.02, walk, s, &line);
            for (int i = AT + 1; i < POINTS; i++) line.y[i] += bends ? 0.08 * (i - AT) : 0.2;
            const struct changepoint change = find(&line, POINTS);
            if (change.p > 0.05) continue;
            found++;
            right += change.kind == (bends ? CHANGEPOINT_SLOPE : CHANGEPOINT_LEVEL);
            held += change.low <= AT && AT <= change.high;
            if (change.kind == CHANGEPOINT_LEVEL && !bends && change.after == AT)
                assert_true(fabs(change.size - 0.2) < 0.15);
        }
        if (found < TIMES * 8 / 10 || right < found * 9 / 10 || held < found * 85 / 100)
            fail_msg("variant %d: %d found, %d right, %d held", variant, found, right, held);
    }
}

/* Without noise to speak of the place and the sizes are exact, on uneven places too. */
static void test_a_clear_change_is_measured(void **state)
{
    struct line line;
    (void)state;
    for (int i = 0; i < POINTS; i++) {
        line.x[i] = 10.0 * i + (i % 3);
        line.y[i] = 2 + 1e-6 * random_normal(9, 9, (uint64_t)i);
        if (i > 8) line.y[i] += 0.003 * (line.x[i] - line.x[8]);
    }
    struct changepoint found = find(&line, POINTS);
    assert_true(found.p < 0.01 && found.kind == CHANGEPOINT_SLOPE);
    assert_true(found.after == 8 && found.low == 8 && found.high == 8);
    assert_true(fabs(found.size - 0.003) < 1e-6);
    for (int i = 9; i < POINTS; i++) line.y[i] = 1.5 + 1e-6 * random_normal(9, 9, (uint64_t)i);
    found = find(&line, POINTS);
    assert_true(found.p < 0.01 && found.kind == CHANGEPOINT_LEVEL && found.after == 8);
    assert_true(fabs(found.size + 0.5) < 1e-5);
}

static void test_few_points_and_exact_trends_have_no_test(void **state)
{
    struct line line;
    (void)state;
    fill(1, 0.1, false, 1, &line);
    assert_true(isnan(find(&line, CHANGEPOINT_LEAST - 1).p));
    assert_true(isfinite(find(&line, CHANGEPOINT_LEAST).p));
    for (int i = 0; i < POINTS; i++) line.y[i] = 0.25;
    assert_true(isnan(find(&line, POINTS).p));
    for (int i = 0; i < POINTS; i++) line.y[i] = 3 + 0.1 * line.x[i];
    assert_true(isnan(find(&line, POINTS).p));
}

static void test_the_unit_of_numbers_and_axis_does_not_matter(void **state)
{
    struct line line;
    (void)state;
    fill(2, 0.05, false, 3, &line);
    for (int i = 12; i < POINTS; i++) line.y[i] += 0.5;
    const struct changepoint a = find(&line, POINTS);
    for (int i = 0; i < POINTS; i++) line.x[i] *= 1024, line.y[i] *= 4096;
    const struct changepoint b = find(&line, POINTS);
    assert_true(a.p == b.p && a.after == b.after && a.low == b.low && a.high == b.high);
    assert_true(fabs(b.size / a.size - 4096) < 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_smooth_trends_with_noise_raise_few_alarms),
        cmocka_unit_test(test_random_walks_raise_few_alarms),
        cmocka_unit_test(test_changes_are_found_where_they_are),
        cmocka_unit_test(test_a_clear_change_is_measured),
        cmocka_unit_test(test_few_points_and_exact_trends_have_no_test),
        cmocka_unit_test(test_the_unit_of_numbers_and_axis_does_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
