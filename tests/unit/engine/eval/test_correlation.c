/* Correlations against closed forms and worked examples. */
#include "base/random.h"
#include "eval/bootstrap.h"
#include "eval/correlation.h"
#include "unit.h"

#include <math.h>

static struct correlation measure(const double *x, const double *y, int64_t n, uint64_t seed)
{
    struct correlation found;
    struct error error;
    assert_int_equal(correlation_measure(x, y, n, seed, &found, &error), STATUS_OK);
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
    const struct correlation line = measure(x, up, 12, 0), bent = measure(x, curve, 12, 0);
    assert_true(fabs(line.pearson + 1) < 1e-12 && fabs(line.spearman + 1) < 1e-12);
    assert_true(line.low <= line.pearson && line.high < -1 + 1e-9);
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
        const double same = measure(x, up, n, 0).spearman, opposite = measure(x, down, n, 0).spearman;
        assert_true(same >= 1 && same <= 1 && opposite >= -1 && opposite <= -1);
    }
}

static void test_a_worked_example(void **state)
{
    (void)state;
    const double x[] = {1, 2, 3, 4, 5}, y[] = {2, 1, 4, 3, 5};
    const struct correlation found = measure(x, y, 5, 0);
    assert_true(fabs(found.pearson - 0.8) < 1e-14 && fabs(found.spearman - 0.8) < 1e-14);
    assert_true(found.low < found.pearson && found.high >= found.pearson);
}

static void test_ties_share_the_mean_rank(void **state)
{
    (void)state;
    const double values[] = {3, 1, 3, 2, 3, -1}, expected[] = {5, 2, 5, 3, 5, 1};
    int64_t order[6];
    double ranks[6];
    correlation_ranks(values, 6, order, ranks);
    for (int i = 0; i < 6; i++) assert_true(fabs(ranks[i] - expected[i]) < 1e-15);
    /* x ranks 1.5 1.5 3 4, y ranks 1 2 3.5 3.5: deviations (-1, -1, .5, 1.5) and (-1.5, -.5, 1, 1) give 4/4.5 */
    const double x[] = {1, 1, 2, 3}, y[] = {10, 20, 30, 30};
    assert_true(fabs(measure(x, y, 4, 0).spearman - 4.0 / 4.5) < 1e-14);
}

static void test_ranks_of_many_are_a_permutation(void **state)
{
    (void)state;
    double values[500], ranks[500];
    int64_t order[500];
    for (int i = 0; i < 500; i++) values[i] = random_normal(4, 0, (uint64_t)i);
    correlation_ranks(values, 500, order, ranks);
    for (int i = 1; i < 500; i++) assert_true(values[order[i - 1]] < values[order[i]] && ranks[order[i]] == i + 1);
}

/* For a bivariate normal sample Fisher's z has standard error 1/sqrt(n - 3). */
static void test_interval_tends_to_that_of_fisher(void **state)
{
    (void)state;
    enum { N = 400 };
    double x[N], y[N];
    for (int i = 0; i < N; i++) {
        x[i] = random_normal(9, 0, (uint64_t)i);
        y[i] = 0.6 * x[i] + 0.8 * random_normal(9, 1, (uint64_t)i);
    }
    const struct correlation found = measure(x, y, N, 3), again = measure(x, y, N, 3), other = measure(x, y, N, 4);
    const double z = atanh(found.pearson), half = 1.96 / sqrt(N - 3.0);
    assert_true(fabs(found.pearson - 0.6) < 0.1);
    assert_true(fabs(atanh(found.low) - (z - half)) < 0.25 * half &&
                fabs(atanh(found.high) - (z + half)) < 0.25 * half);
    assert_true(found.low == again.low && found.spearman_high == again.spearman_high && found.low != other.low);
}

/* Numbers so small and so large that the product of their variances is no double. */
static void test_any_size_of_numbers(void **state)
{
    (void)state;
    double x[] = {1, 2, 3, 4, 5}, y[] = {2, 1, 4, 3, 5};
    for (int i = 0; i < 5; i++) x[i] *= 1e-90, y[i] *= 1e-100;
    assert_true(fabs(measure(x, y, 5, 0).pearson - 0.8) < 1e-14);
    for (int i = 0; i < 5; i++) x[i] *= 1e200, y[i] *= 1e180;
    assert_true(fabs(measure(x, y, 5, 0).pearson - 0.8) < 1e-14);
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

/* Pairs are drawn together; each coefficient has the quantiles of its own draws. */
static void test_intervals_are_those_of_the_same_resamples(void **state)
{
    (void)state;
    enum { N = 9, SEED = 12 };
    static double pearsons[BOOTSTRAP_DRAWS], spearmans[BOOTSTRAP_DRAWS];
    double x[N], y[N], low, high;
    for (int i = 0; i < N; i++) {
        x[i] = random_normal(7, 0, (uint64_t)i);
        y[i] = exp(x[i]) + random_normal(7, 1, (uint64_t)i);
    }
    x[3] = x[5]; /* a tie */
    int64_t kept = 0;
    for (int draw = 0; draw < BOOTSTRAP_DRAWS; draw++) {
        double a[N], b[N];
        bool varies = false;
        for (int i = 0; i < N; i++) {
            const uint64_t pick = random_below(SEED, (uint64_t)draw, (uint64_t)i, N);
            a[i] = x[pick];
            b[i] = y[pick];
            varies = varies || a[i] < a[0] || a[i] > a[0];
        }
        if (!varies) continue; /* none of this seed's: see below */
        pearsons[kept] = plain_pearson(a, b, N);
        spearmans[kept++] = plain_spearman(a, b, N);
    }
    assert_int_equal(kept, BOOTSTRAP_DRAWS);
    const struct correlation found = measure(x, y, N, SEED);
    assert_true(fabs(found.pearson - plain_pearson(x, y, N)) < 1e-13);
    assert_true(fabs(found.spearman - plain_spearman(x, y, N)) < 1e-13);
    bootstrap_interval(pearsons, kept, found.pearson, &low, &high);
    assert_true(fabs(found.low - low) < 1e-12 && fabs(found.high - high) < 1e-12);
    bootstrap_interval(spearmans, kept, found.spearman, &low, &high);
    assert_true(fabs(found.spearman_low - low) < 1e-12 && fabs(found.spearman_high - high) < 1e-12);
    assert_true(fabs(found.low - found.spearman_low) > 1e-3);
}

static void test_too_little_gives_no_number(void **state)
{
    (void)state;
    const double x[] = {1, 2, 3}, flat[] = {5, 5, 5};
    assert_true(isnan(measure(x, x, 2, 0).pearson) && isnan(measure(x, x, 0, 0).low));
    assert_true(isnan(measure(x, flat, 3, 0).pearson) && isnan(measure(flat, x, 3, 0).spearman));
    assert_true(fabs(measure(x, x, 3, 0).pearson - 1) < 1e-15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_and_monotone_curves),
        cmocka_unit_test(test_the_same_and_the_opposite_order_are_one_exactly),
        cmocka_unit_test(test_a_worked_example),
        cmocka_unit_test(test_ties_share_the_mean_rank),
        cmocka_unit_test(test_ranks_of_many_are_a_permutation),
        cmocka_unit_test(test_interval_tends_to_that_of_fisher),
        cmocka_unit_test(test_any_size_of_numbers),
        cmocka_unit_test(test_intervals_are_those_of_the_same_resamples),
        cmocka_unit_test(test_too_little_gives_no_number),
    };
    return cmocka_run_group_tests_name("correlation", tests, NULL, NULL);
}
