/* Correlations against closed forms and worked examples. */
#include "base/random.h"
#include "eval/correlation.h"
#include "unit.h"

#include <math.h>
#include <string.h>

enum { MOST = 500 };

/* Of one trajectory. */
static struct correlation measure(const double *x, const double *y, int64_t n)
{
    static int64_t zeros[MOST], none[MOST];
    const struct correlation_points points = {x, y, zeros, zeros, none, n, n > 0};
    struct correlation found;
    struct error error;
    for (int i = 0; i < MOST; i++) none[i] = -1;
    assert_int_equal(correlation_measure(&points, CORRELATION_VALUES, &found, &error), STATUS_OK);
    return found;
}

static void test_lines_and_monotone_curves(void **state)
{
    (void)state;
    double x[12], up[12], curve[12];
    for (int i = 0; i < 12; i++) {
        x[i] = 1e6 + i;
        up[i] = 3 - 2.5 * i;
        curve[i] = exp(i);
    }
    const struct correlation line = measure(x, up, 12), bent = measure(x, curve, 12);
    assert_true(fabs(line.pearson + 1) < 1e-12 && fabs(line.spearman + 1) < 1e-12);
    assert_true(fabs(bent.spearman - 1) < 1e-12 && bent.pearson < 0.8 && bent.pearson > 0);
}

/* Pearson of (1,2,3,4,5) and (2,1,4,3,5): covariances give 8/10; no ties, so Spearman's is the same 1 - 6 sum d^2 /
 * n(n^2-1) = 0.8. */
static void test_the_same_and_the_opposite_order_are_one_exactly(void **state)
{
    double x[40], up[40], down[40];
    (void)state;
    for (int n = 3; n <= 40; n++) {
        for (int i = 0; i < n; i++) {
            x[i] = 0.1 * i;
            up[i] = exp(0.3 * i);
            down[i] = -up[i];
        }
        const double same = measure(x, up, n).spearman, opposite = measure(x, down, n).spearman;
        assert_true(same >= 1 && same <= 1 && opposite >= -1 && opposite <= -1);
    }
}

static void test_a_worked_example(void **state)
{
    (void)state;
    const double x[] = {1, 2, 3, 4, 5}, y[] = {2, 1, 4, 3, 5};
    const struct correlation found = measure(x, y, 5);
    assert_true(fabs(found.pearson - 0.8) < 1e-14 && fabs(found.spearman - 0.8) < 1e-14);
}

static void test_ties_share_the_mean_rank(void **state)
{
    (void)state;
    const double values[] = {3, 1, 3, 2, 3, -1}, expected[] = {5, 2, 5, 3, 5, 1};
    int64_t order[6];
    double ranks[6];
    correlation_ranks(values, NULL, 6, order, ranks);
    for (int i = 0; i < 6; i++) assert_true(fabs(ranks[i] - expected[i]) < 1e-15);
    /* x ranks 1.5 1.5 3 4, y ranks 1 2 3.5 3.5: deviations (-1, -1, .5, 1.5) and (-1.5, -.5, 1, 1) give 4/4.5 */
    const double x[] = {1, 1, 2, 3}, y[] = {10, 20, 30, 30};
    assert_true(fabs(measure(x, y, 4).spearman - 4.0 / 4.5) < 1e-14);
}

static void test_ranks_of_many_are_a_permutation(void **state)
{
    (void)state;
    double values[500], ranks[500];
    int64_t order[500];
    for (int i = 0; i < 500; i++) values[i] = random_normal(4, 0, (uint64_t)i);
    correlation_ranks(values, NULL, 500, order, ranks);
    for (int i = 1; i < 500; i++) assert_true(values[order[i - 1]] < values[order[i]] && ranks[order[i]] == i + 1);
}

/* Numbers so small and so large that the product of their variances is no double. */
static void test_any_size_of_numbers(void **state)
{
    (void)state;
    double x[] = {1, 2, 3, 4, 5}, y[] = {2, 1, 4, 3, 5};
    for (int i = 0; i < 5; i++) x[i] *= 1e-90, y[i] *= 1e-100;
    assert_true(fabs(measure(x, y, 5).pearson - 0.8) < 1e-14);
    for (int i = 0; i < 5; i++) x[i] *= 1e200, y[i] *= 1e180;
    assert_true(fabs(measure(x, y, 5).pearson - 0.8) < 1e-14);
}

static double plain_pearson(const double *x, const double *y, int n)
{
    double x_mean = 0, y_mean = 0, xx = 0, yy = 0, xy = 0;
    for (int i = 0; i < n; i++) x_mean += x[i] / n, y_mean += y[i] / n;
    for (int i = 0; i < n; i++) {
        xx += (x[i] - x_mean) * (x[i] - x_mean);
        yy += (y[i] - y_mean) * (y[i] - y_mean);
        xy += (x[i] - x_mean) * (y[i] - y_mean);
    }
    return xy / sqrt(xx * yy);
}

/* Ranks by counting: one more than those below, and half of those that are equal. */
static double plain_spearman(const double *x, const double *y, int n)
{
    double a[16], b[16];
    for (int i = 0; i < n; i++) {
        a[i] = b[i] = 0.5;
        for (int j = 0; j < n; j++) {
            a[i] += (x[j] < x[i]) + 0.5 * (x[j] >= x[i] && x[j] <= x[i]);
            b[i] += (y[j] < y[i]) + 0.5 * (y[j] >= y[i] && y[j] <= y[i]);
        }
    }
    return plain_pearson(a, b, n);
}

/* `units` trajectories of `count` points of two independent processes: random walks (noise 0) that drift, or noise. */
struct made {
    double x[MOST], y[MOST];
    int64_t trajectory[MOST], unit[MOST], budget[MOST];
    struct correlation_points points;
};

static void walk(uint64_t seed, int units, int count, double drift, double memory, bool budgets, struct made *out)
{
    for (int u = 0, i = 0; u < units; u++) {
        double x = 0, y = 0;
        for (int k = 0; k < count; k++, i++) {
            x = memory * x + drift + random_normal(seed, 0, (uint64_t)i);
            y = memory * y + drift + random_normal(seed, 1, (uint64_t)i);
            out->x[i] = x;
            out->y[i] = y;
            out->trajectory[i] = out->unit[i] = u;
            out->budget[i] = budgets ? k : -1;
        }
    }
    out->points = (struct correlation_points){
        out->x, out->y, out->trajectory, out->unit, out->budget, (int64_t)units * count, units};
}

static struct correlation correlate(const struct made *made, enum correlation_kind kind)
{
    struct correlation found;
    struct error error;
    assert_int_equal(correlation_measure(&made->points, kind, &found, &error), STATUS_OK);
    return found;
}

/* A pair whose changes are worth fewer than four has no interval. */
static bool excludes_zero(const struct correlation *found, int *without)
{
    *without += isnan(found->low);
    assert_true(isnan(found->low) || (found->low <= found->pearson && found->pearson <= found->high));
    return found->low > 0 || found->high < 0;
}

/* Intervals of what has nothing to do with each other exclude 0 in 5 of 100 pairs; 7 are let pass, and two standard
 * errors of so many pairs. The first rows are the 14 points of one trajectory. */
static void test_independent_walks_are_seldom_said_to_go_together(void **state)
{
    static const struct {
        const char *what;
        int units, count;
        double drift, memory;
        enum correlation_kind kind;
    } rows[] = {
        {"changes of one walk", 1, 14, 0, 1, CORRELATION_DIFFERENCES},
        {"changes of one walk that drifts", 1, 14, 1, 1, CORRELATION_DIFFERENCES},
        {"changes of noise", 1, 14, 0, 0, CORRELATION_DIFFERENCES},
        {"changes of three walks", 3, 6, 1, 1, CORRELATION_DIFFERENCES},
        {"changes of five walks", 5, 14, 1, 1, CORRELATION_DIFFERENCES},
        {"five walks", 5, 14, 0, 1, CORRELATION_VALUES},
        {"within five walks that drift alike", 5, 14, 1, 1, CORRELATION_WITHIN},
        {"within eight walks that drift alike", 8, 6, 1, 1, CORRELATION_WITHIN},
    };
    enum { PAIRS = 1000 };
    static struct made made;
    (void)state;
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        int excluded = 0, without = 0;
        for (int pair = 0; pair < PAIRS; pair++) {
            walk(100000 * (row + 1) + (uint64_t)pair, rows[row].units, rows[row].count, rows[row].drift,
                 rows[row].memory, true, &made);
            const struct correlation found = correlate(&made, rows[row].kind);
            excluded += excludes_zero(&found, &without);
        }
        print_message("%s: %d of %d\n", rows[row].what, excluded, PAIRS);
        assert_true(without < PAIRS / 10);
        assert_true(excluded < PAIRS * 0.07 + 2 * sqrt(PAIRS * 0.07 * 0.93));
    }
}

/* The points of few trajectories share a trend: no interval, and none of changes where trajectories share a unit. */
static void test_few_trajectories_have_an_interval_of_changes_only(void **state)
{
    static struct made made;
    (void)state;
    for (int units = 1; units < 5; units++) {
        walk(5, units, 14, 1, 1, true, &made);
        const struct correlation values = correlate(&made, CORRELATION_VALUES),
                                 within = correlate(&made, CORRELATION_WITHIN);
        const struct correlation changes = correlate(&made, CORRELATION_DIFFERENCES);
        assert_true(isfinite(values.pearson) && isnan(values.low) && isnan(values.spearman_high) && isnan(within.low));
        assert_true(isfinite(changes.low) && isfinite(changes.spearman_high) && changes.n == 13 * units);
    }
    for (int i = 0; i < 4 * 14; i++) made.unit[i] = made.trajectory[i] / 2;
    made.points.units = 2;
    assert_true(isnan(correlate(&made, CORRELATION_DIFFERENCES).low));
}

/* x and y rise alike from budget to budget and from trajectory to trajectory; what is left has the opposite sign. */
static void test_within_takes_off_the_means_of_trajectories_and_budgets(void **state)
{
    static struct made made;
    (void)state;
    walk(3, 6, 10, 0, 0, true, &made);
    for (int i = 0; i < 60; i++) {
        const double common = 50 * (i / 10) + 7 * (i % 10);
        made.y[i] = common - made.x[i];
        made.x[i] = common + made.x[i];
    }
    const struct correlation values = correlate(&made, CORRELATION_VALUES),
                             within = correlate(&made, CORRELATION_WITHIN);
    assert_true(values.pearson > 0.9 && values.low > 0.9);
    assert_true(within.pearson < -1 + 1e-12 && within.high < -0.99);
    for (int i = 0; i < 60; i++) made.budget[i] = -1;
    assert_true(correlate(&made, CORRELATION_WITHIN).pearson > 0.5); /* the rise along trajectories is still in it */
}

/* 40 trajectories of 6 points, each 3 budgets later than the one before, so that budgets join neighbours only. Means in
 * turns were far from least squares after 200 rounds: Spearman's was 0.87. Expected, with numpy: D the columns
 * [t == k] for all trajectories and [b == k] for all budgets of two points, r = v - D lstsq(D, v)[0] of x and y,
 * corrcoef of these and of argsort(argsort(r)). */
static void test_within_is_least_squares_where_trajectories_share_few_budgets(void **state)
{
    enum { N = 240 };
    static struct made made;
    (void)state;
    walk(1, 40, 6, 0, 0, false, &made);
    for (int i = 0; i < N; i++) {
        const int budget = i / 6 * 3 + i % 6;
        made.budget[i] = budget;
        made.x[i] = log(10.0 + budget) + 0.02 * sin(13.0 * i);
        made.y[i] = sqrt(10.0 + budget) / 4 + 0.02 * cos(78.0 * i);
    }
    const struct correlation found = correlate(&made, CORRELATION_WITHIN), again = correlate(&made, CORRELATION_WITHIN);
    assert_true(fabs(found.pearson - 0.912908449382) < 1e-9);
    assert_true(fabs(found.spearman - 0.760230212330) < 1e-9);
    assert_memory_equal(&found, &again, sizeof found);
    for (int i = 0; i < N; i++) made.x[i] += 1e6; /* digits that the means of trajectories take away again */
    assert_true(fabs(correlate(&made, CORRELATION_WITHIN).pearson - 0.912908449382) < 1e-6);
}

static bool agrees(double found, double expected)
{
    return fabs(found - expected) < 1e-12;
}

/* Doubles of decimals: the changes of a rate that falls by 0.0001 each time differ in their last bits, whose order said
 * 0.16 with an interval. Expected of the others: scipy's pearsonr and spearmanr of the same in whole numbers. */
static void test_what_differs_by_rounding_alone_is_equal(void **state)
{
    static const double decay[] = {0.001, 0.0009, 0.0008, 0.0007, 0.0006, 0.0005, 0.0004, 0.0003, 0.0002, 0.0001};
    static const double whole[] = {0.0002, 0.0004, 0.0006, 0.0008, 0.0008, 0.0008, 0.0007, 0.0006, 0.0005, 0.0004};
    static const double y[] = {3, 1, 4, 1.5, 9, 2.6, 5, 3.5, 8, 9.7};
    static const double apart[] = {0.1, 0.2, 0.3, 0.7, 0.8, 0.9};
    static const double budgets[] = {0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 1.4};
    static struct made made;
    (void)state;
    walk(1, 1, 10, 0, 0, false, &made);
    memcpy(made.y, y, sizeof y);
    memcpy(made.x, decay, sizeof decay);
    struct correlation found = correlate(&made, CORRELATION_DIFFERENCES);
    assert_true(found.n == 9 && isnan(found.pearson) && isnan(found.spearman) && isnan(found.low));
    memcpy(made.x, whole, sizeof whole);
    found = correlate(&made, CORRELATION_DIFFERENCES);
    assert_true(agrees(found.pearson, -0.24603984025272443) && agrees(found.spearman, -0.2939873661036668));
    /* One that diverged is no measure of the others, whose changes are far below its rounding. */
    made.x[9] = 1e16;
    made.y[9] = 9.8;
    found = correlate(&made, CORRELATION_DIFFERENCES);
    assert_true(agrees(found.spearman, -0.25993762245501817));
    walk(1, 2, 3, 0, 0, false, &made);
    memcpy(made.y, y, sizeof apart);
    memcpy(made.x, apart, sizeof apart);
    found = correlate(&made, CORRELATION_WITHIN);
    assert_true(agrees(found.pearson, 0.17152527960685335) && agrees(found.spearman, 0.23904572186687875));
    walk(1, 3, 3, 0, 0, false, &made); /* nor is another trajectory, where no budget joins them */
    const double third[] = {1e16, 2e16, 4e16};
    memcpy(made.y, y, 9 * sizeof *y);
    memcpy(made.x, apart, sizeof apart);
    memcpy(made.x + 6, third, sizeof third);
    assert_true(agrees(correlate(&made, CORRELATION_WITHIN).spearman, 0.45573271518764996));
    walk(1, 2, 4, 0, 0, true, &made);
    const double beside[] = {3, 1, 4, 1.5, 9, 2.6, 5, 3.5};
    memcpy(made.y, beside, sizeof beside);
    memcpy(made.x, budgets, sizeof budgets);
    found = correlate(&made, CORRELATION_WITHIN);
    assert_true(agrees(found.pearson, -0.19082600930253327) && agrees(found.spearman, -0.050062617432175896));
}

/* Appends trajectories of one point, each a unit of its own, with the budget of the last point before them. */
static void append_singles(struct made *made, int singles)
{
    const int64_t before = made->points.n, budget = made->budget[before - 1];
    for (int64_t i = before; i < before + singles; i++) {
        made->x[i] = random_normal(71, 0, (uint64_t)i);
        made->y[i] = random_normal(71, 1, (uint64_t)i);
        made->trajectory[i] = made->trajectory[before - 1] + 1 + (i - before);
        made->unit[i] = made->points.units++;
        made->budget[i] = budget;
    }
    made->points.n += singles;
}

static void assert_same(const struct correlation *found, const struct correlation *expected)
{
    assert_int_equal(found->n, expected->n);
    assert_int_equal(found->units, expected->units);
    const double a[] = {found->pearson, found->spearman, found->low, found->high};
    const double b[] = {expected->pearson, expected->spearman, expected->low, expected->high};
    for (int i = 0; i < 4; i++) assert_true((isnan(a[i]) && isnan(b[i])) || (a[i] >= b[i] && a[i] <= b[i]));
    assert_true(isnan(expected->spearman_low) || found->spearman_low >= expected->spearman_low);
}

/* Single checkpoints leave nothing within their trajectory and have no difference: with or without them the numbers are
 * the same. Three beside two walks made five units, of which intervals within held 0 82 times of 100. */
static void test_single_points_count_among_the_values_only(void **state)
{
    static struct made made;
    (void)state;
    for (int units = 2; units < 9; units += 3) {
        walk(21, units, 14, 1, 1, true, &made);
        made.budget[14 * units - 1] = 14 * units - 1; /* that only single points share */
        const struct correlation within = correlate(&made, CORRELATION_WITHIN);
        const struct correlation changes = correlate(&made, CORRELATION_DIFFERENCES);
        append_singles(&made, 3);
        const struct correlation more = correlate(&made, CORRELATION_WITHIN);
        const struct correlation more_changes = correlate(&made, CORRELATION_DIFFERENCES);
        assert_same(&more, &within);
        assert_same(&more_changes, &changes);
        assert_int_equal(more.units, units);
        assert_int_equal(more.n, 14 * units);
        assert_true(isnan(more.low) == (units < 5) && isfinite(more_changes.low));
        assert_int_equal(correlate(&made, CORRELATION_VALUES).units, units + 3);
    }
    /* the single point of a walk's unit is no trajectory that shares the unit */
    walk(22, 2, 14, 1, 1, true, &made);
    append_singles(&made, 1);
    made.unit[28] = --made.points.units - 1;
    assert_true(isfinite(correlate(&made, CORRELATION_DIFFERENCES).low));
}

/* Fisher's interval of the changes of one trajectory, worked out from the changes. */
static void test_the_interval_of_changes_is_fishers_of_the_effective_number(void **state)
{
    enum { N = 12 };
    static struct made made;
    double dx[N - 1], dy[N - 1], means[2] = {0}, squares[2] = {0}, lagged[2] = {0};
    (void)state;
    walk(11, 1, N, 0, 0, false, &made);
    for (int i = 0; i + 1 < N; i++) {
        dx[i] = made.x[i + 1] - made.x[i];
        dy[i] = made.y[i + 1] - made.y[i];
        means[0] += dx[i] / (N - 1);
        means[1] += dy[i] / (N - 1);
    }
    for (int i = 0; i + 1 < N; i++) {
        squares[0] += pow(dx[i] - means[0], 2);
        squares[1] += pow(dy[i] - means[1], 2);
        if (i > 0) lagged[0] += (dx[i] - means[0]) * (dx[i - 1] - means[0]);
        if (i > 0) lagged[1] += (dy[i] - means[1]) * (dy[i - 1] - means[1]);
    }
    double both = 0;
    for (int i = 0; i + 1 < N; i++) both += pow((dx[i] - means[0]) * (dy[i] - means[1]), 2);
    const double p = lagged[0] / squares[0] * lagged[1] / squares[1];
    const double size = fmin(N - 1, squares[0] * squares[1] / both) * (1 - p) / (1 + p);
    const struct correlation found = correlate(&made, CORRELATION_DIFFERENCES);
    assert_true(p > 0.05 && found.n == N - 1);
    assert_true(fabs(found.pearson - plain_pearson(dx, dy, N - 1)) < 1e-13);
    assert_true(fabs(found.spearman - plain_spearman(dx, dy, N - 1)) < 1e-13);
    const double half = 1.959963984540054 / sqrt(size - 3);
    assert_true(fabs(found.low - tanh(atanh(found.pearson) - half)) < 1e-12);
    assert_true(fabs(found.spearman_high - tanh(atanh(found.spearman) + sqrt(1 + pow(found.spearman, 2) / 2) * half)) <
                1e-12);
}

/* The gaps between checkpoints grow: walks 1.5 times as far apart each time, and ten near gaps before ten of five times
 * their length. By the number of differences 32 and 9 of 100 pairs would exclude 0. */
static void test_unevenly_spaced_walks_are_seldom_said_to_go_together(void **state)
{
    enum { PAIRS = 1000, COUNT = 21 };
    static struct made made;
    (void)state;
    for (int shape = 0; shape < 2; shape++) {
        int excluded = 0, without = 0;
        for (int pair = 0; pair < PAIRS; pair++) {
            walk(7000000 * (uint64_t)(shape + 1) + (uint64_t)pair, 1, COUNT, 0, 0, false, &made);
            for (int i = 1; i < COUNT; i++) {
                const double size = sqrt(shape == 0 ? pow(1.5, i) : i > 10 ? 5 : 1);
                made.x[i] = made.x[i - 1] + size * made.x[i];
                made.y[i] = made.y[i - 1] + size * made.y[i];
            }
            const struct correlation found = correlate(&made, CORRELATION_DIFFERENCES);
            excluded += excludes_zero(&found, &without);
        }
        print_message("unevenly spaced walks: %d of %d, %d without an interval\n", excluded, PAIRS, without);
        assert_true(excluded < PAIRS * 0.05 && without < PAIRS / 4);
    }
}

/* One point a unit, normal with correlation r: Spearman's interval of few holds 6 / pi asin(r / 2), and ranks that all
 * agree have none. The jackknife alone held it 34 times of 100 for five units and r = 0.99. */
static void test_spearmans_interval_of_few_units_holds_the_truth(void **state)
{
    static const double truths[] = {0, 0.5, 0.9, 0.99};
    enum { SAMPLES = 1000 };
    static struct made made;
    (void)state;
    for (int units = 5; units <= 12; units += units < 6 ? 1 : 6)
        for (int row = 0; row < 4; row++) {
            const double r = truths[row], truth = 6 / acos(-1) * asin(r / 2);
            int inside = 0, told = 0;
            for (int sample = 0; sample < SAMPLES; sample++) {
                walk(1000000 * (uint64_t)(4 * units + row) + (uint64_t)sample, units, 1, 0, 0, false, &made);
                for (int i = 0; i < units; i++) made.y[i] = r * made.x[i] + sqrt(1 - r * r) * made.y[i];
                const struct correlation found = correlate(&made, CORRELATION_VALUES);
                assert_true(isnan(found.spearman_low) == (fabs(found.spearman) >= 1));
                told += isfinite(found.spearman_low);
                inside += found.spearman_low <= truth && truth <= found.spearman_high;
            }
            print_message("Spearman of %d units, %g: %d of %d\n", units, r, inside, told);
            assert_true(inside >= 0.94 * told);
        }
}

static void test_too_little_gives_no_number(void **state)
{
    (void)state;
    const double x[] = {1, 2, 3}, flat[] = {5, 5, 5};
    assert_true(isnan(measure(x, x, 2).pearson) && isnan(measure(x, x, 0).low));
    assert_true(isnan(measure(x, flat, 3).pearson) && isnan(measure(flat, x, 3).spearman));
    assert_true(fabs(measure(x, x, 3).pearson - 1) < 1e-15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_and_monotone_curves),
        cmocka_unit_test(test_the_same_and_the_opposite_order_are_one_exactly),
        cmocka_unit_test(test_a_worked_example),
        cmocka_unit_test(test_ties_share_the_mean_rank),
        cmocka_unit_test(test_ranks_of_many_are_a_permutation),
        cmocka_unit_test(test_any_size_of_numbers),
        cmocka_unit_test(test_independent_walks_are_seldom_said_to_go_together),
        cmocka_unit_test(test_few_trajectories_have_an_interval_of_changes_only),
        cmocka_unit_test(test_within_takes_off_the_means_of_trajectories_and_budgets),
        cmocka_unit_test(test_within_is_least_squares_where_trajectories_share_few_budgets),
        cmocka_unit_test(test_what_differs_by_rounding_alone_is_equal),
        cmocka_unit_test(test_single_points_count_among_the_values_only),
        cmocka_unit_test(test_the_interval_of_changes_is_fishers_of_the_effective_number),
        cmocka_unit_test(test_unevenly_spaced_walks_are_seldom_said_to_go_together),
        cmocka_unit_test(test_spearmans_interval_of_few_units_holds_the_truth),
        cmocka_unit_test(test_too_little_gives_no_number),
    };
    return cmocka_run_group_tests_name("correlation", tests, NULL, NULL);
}
