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

static struct changepoint find_with(struct changepoint_model **kept, const struct line *line, int64_t simulations)
{
    struct changepoint found;
    struct error error;
    assert_int_equal(changepoint_model_of(line->x, POINTS, simulations, kept, &error), STATUS_OK);
    changepoint_find(*kept, line->y, &found);
    return found;
}

static struct changepoint find(const struct line *line)
{
    struct changepoint_model *model = NULL;
    const struct changepoint found = find_with(&model, line, CHANGEPOINT_SIMULATIONS);
    changepoint_model_free(model);
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

/* Checkpoints at equal distances; closer at the end, as a decay is measured; at growing distances; and with one that
 * was written twice. */
enum spacing { EVEN, CLOSER, GROWING, TWICE, SPACINGS };

static double gap_of(enum spacing spacing, int i)
{
    if (spacing == CLOSER && i > POINTS / 2) return 100;
    if (spacing == GROWING) return 1000 * pow(1.3, i);
    return spacing == TWICE && i == POINTS - 1 ? 1 : 1000;
}

enum noise { WHITE, STEPS, GAPS, NOISES };

static void fill_at(enum spacing spacing, int shape, double size, enum noise noise, uint64_t stream, struct line *out)
{
    double walked = 0;
    out->x[0] = 1000;
    for (int i = 1; i < POINTS; i++) out->x[i] = out->x[i - 1] + gap_of(spacing, i);
    const double range = out->x[POINTS - 1] - out->x[0], usual = range / (POINTS - 1);
    for (int i = 0; i < POINTS; i++) {
        double fresh = size * random_normal((uint64_t)shape + 100 * (uint64_t)(noise != WHITE), stream, (uint64_t)i);
        if (noise == GAPS && i > 0) fresh *= sqrt(gap_of(spacing, i) / usual);
        walked = noise == WHITE ? fresh : walked + fresh;
        out->y[i] = smooth(shape, (out->x[i] - out->x[0]) / range) + walked;
    }
}

static void fill(int shape, double size, bool walk, uint64_t stream, struct line *out)
{
    fill_at(EVEN, shape, size, walk ? STEPS : WHITE, stream, out);
}

static int alarms(enum spacing spacing, int shape, double size, enum noise noise)
{
    int count = 0;
    struct changepoint_model *model = NULL;
    for (uint64_t s = 0; s < RUNS; s++) {
        struct line line;
        fill_at(spacing, shape, size, noise, s, &line);
        count += find_with(&model, &line, CHANGEPOINT_SIMULATIONS).p <= 0.05;
    }
    changepoint_model_free(model);
    return count;
}

/* 5 of 100, and three standard errors of so many runs. */
static const double allowed = RUNS * 0.05 + 3 * 2.67;

static void test_smooth_trends_with_noise_raise_few_alarms(void **state)
{
    (void)state;
    for (int shape = 0; shape < SHAPES; shape++) {
        const int found = alarms(EVEN, shape, 0.05, WHITE);
        if (found > allowed) fail_msg("shape %d: %d alarms of %d", shape, found, RUNS);
    }
}

static void test_random_walks_raise_few_alarms(void **state)
{
    (void)state;
    for (int shape = 0; shape < 3; shape++) { /* level, with a drift, with a drift that flattens */
        const int found = alarms(EVEN, shape, 0.1, STEPS);
        if (found > allowed) fail_msg("shape %d: %d alarms of %d", shape, found, RUNS);
    }
}

/* A walk goes further in a wide gap, which is no jump. */
static void test_uneven_gaps_raise_few_alarms(void **state)
{
    (void)state;
    for (int spacing = CLOSER; spacing < SPACINGS; spacing++)
        for (int noise = 0; noise < NOISES; noise++)
            for (int shape = 0; shape < 3; shape++) {
                const double size = noise == WHITE ? 0.05 : 0.1;
                const int found = alarms((enum spacing)spacing, shape, size, (enum noise)noise);
                if (found > allowed)
                    fail_msg("spacing %d, noise %d, shape %d: %d alarms of %d", spacing, noise, shape, found, RUNS);
            }
}

/* Between points that are close, where a walk does not go that far; a checkpoint written twice hides nothing. */
static void test_jumps_are_found_between_uneven_gaps(void **state)
{
    enum { TIMES = 60, AT = 13 };
    (void)state;
    for (int spacing = EVEN; spacing < SPACINGS; spacing++) {
        if (spacing == GROWING) continue; /* a jump there is at a wide gap */
        int found = 0;
        for (uint64_t s = 0; s < TIMES; s++) {
            struct line line;
            fill_at((enum spacing)spacing, 1, 0.02, WHITE, s, &line);
            for (int i = AT + 1; i < POINTS; i++) line.y[i] += 0.2;
            const struct changepoint change = find(&line);
            found += change.p <= 0.05 && change.kind == CHANGEPOINT_LEVEL && change.after == AT;
        }
        if (found < TIMES * 8 / 10) fail_msg("spacing %d: %d found", spacing, found);
    }
}

static void test_more_simulations_tell_smaller_p_values(void **state)
{
    struct line line;
    struct changepoint_model *model = NULL;
    (void)state;
    fill(1, 0.01, false, 1, &line);
    for (int i = 10; i < POINTS; i++) line.y[i] += 0.5;
    assert_true(fabs(find(&line).p - 1.0 / (1 + CHANGEPOINT_SIMULATIONS)) < 1e-15);
    const struct changepoint found = find_with(&model, &line, 9999);
    changepoint_model_free(model);
    assert_true(found.p < 0.001 && found.after == 9);
}

/* A model that has tested other series says the same as a new one, to the bit. */
static void test_a_shared_model_says_the_same(void **state)
{
    struct changepoint_model *model = NULL;
    (void)state;
    for (uint64_t s = 0; s < 20; s++) {
        struct line line;
        fill_at(s < 10 ? EVEN : CLOSER, 1, 0.05, WHITE, s, &line);
        if (s % 3 == 0)
            for (int i = 12; i < POINTS; i++) line.y[i] += 0.3;
        const struct changepoint alone = find(&line), shared = find_with(&model, &line, CHANGEPOINT_SIMULATIONS);
        assert_true(alone.p == shared.p && alone.kind == shared.kind && alone.after == shared.after);
        assert_true(alone.low == shared.low && alone.high == shared.high && alone.size == shared.size);
    }
    changepoint_model_free(model);
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
            const struct changepoint change = find(&line);
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
    struct changepoint found = find(&line);
    assert_true(found.p < 0.01 && found.kind == CHANGEPOINT_SLOPE);
    assert_true(found.after == 8 && found.low == 8 && found.high == 8);
    assert_true(fabs(found.size - 0.003) < 1e-6);
    for (int i = 9; i < POINTS; i++) line.y[i] = 1.5 + 1e-6 * random_normal(9, 9, (uint64_t)i);
    found = find(&line);
    assert_true(found.p < 0.01 && found.kind == CHANGEPOINT_LEVEL && found.after == 8);
    assert_true(fabs(found.size + 0.5) < 1e-5);
}

static void test_exact_trends_have_no_test(void **state)
{
    struct line line;
    (void)state;
    fill(1, 0.1, false, 1, &line);
    assert_true(isfinite(find(&line).p));
    for (int i = 0; i < POINTS; i++) line.y[i] = 0.25;
    assert_true(isnan(find(&line).p));
    for (int i = 0; i < POINTS; i++) line.y[i] = 3 + 0.1 * line.x[i];
    assert_true(isnan(find(&line).p));
}

static void test_the_unit_of_numbers_and_axis_does_not_matter(void **state)
{
    struct line line;
    (void)state;
    fill(2, 0.05, false, 3, &line);
    for (int i = 12; i < POINTS; i++) line.y[i] += 0.5;
    const struct changepoint a = find(&line);
    for (int i = 0; i < POINTS; i++) line.x[i] *= 1024, line.y[i] *= 4096;
    const struct changepoint b = find(&line);
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
        cmocka_unit_test(test_uneven_gaps_raise_few_alarms),
        cmocka_unit_test(test_jumps_are_found_between_uneven_gaps),
        cmocka_unit_test(test_more_simulations_tell_smaller_p_values),
        cmocka_unit_test(test_a_shared_model_says_the_same),
        cmocka_unit_test(test_exact_trends_have_no_test),
        cmocka_unit_test(test_the_unit_of_numbers_and_axis_does_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
