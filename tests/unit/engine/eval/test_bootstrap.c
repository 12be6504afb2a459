/* The bootstrap interval: its ends worked out by hand and from the same resamples counted another way, the normal
 * approximation it tends to, and its edges. */
#include "base/random.h"
#include "eval/bootstrap.h"
#include "unit.h"

#include <math.h>

enum { COUNT = 400 };

static void near(double found, double expected)
{
    if (!(fabs(found - expected) <= 1e-13 * (1 + fabs(expected)))) fail_msg("%.17g instead of %.17g", found, expected);
}

/* Of n draws in order the quantile q stands at place q (n - 1), counted from 0, and between two places on the line
 * through them. */
static void test_the_ends_are_the_quantiles_of_2_5_and_97_5_percent(void **state)
{
    (void)state;
    double low, high, draws[2001];
    for (int i = 0; i < 2001; i++) draws[i] = (i * 1000 + 7) % 2001; /* 0 … 2000 in another order */
    bootstrap_interval(draws, 2001, 800, &low, &high);
    assert_true(low == 50 && high == 1950);
    double few[] = {10, 0, 40, 20, 30}; /* places 0.1 and 3.9 */
    bootstrap_interval(few, 5, 15, &low, &high);
    near(low, 1);
    near(high, 39);
    double below[] = {10, 0, 40, 20, 30}, above[] = {10, 0, 40, 20, 30};
    bootstrap_interval(below, 5, -3, &low, &high);
    assert_true(low == -3);
    near(high, 39);
    bootstrap_interval(above, 5, 50, &low, &high);
    near(low, 1);
    assert_true(high == 50);
    double one[] = {4};
    bootstrap_interval(one, 1, 4, &low, &high);
    assert_true(low == 4 && high == 4);
}

/* The value that `rank` others come before, found by counting. */
static double ranked(const double *values, int count, int rank)
{
    for (int i = 0; i < count; i++) {
        int before = 0;
        for (int j = 0; j < count; j++) before += values[j] < values[i] || (values[j] == values[i] && j < i);
        if (before == rank) return values[i];
    }
    return NAN;
}

/* Of 2000 draws: places 0.025 * 1999 = 49.975 and 0.975 * 1999 = 1949.025. */
static double expected_low(const double *draws)
{
    return 0.025 * ranked(draws, BOOTSTRAP_DRAWS, 49) + 0.975 * ranked(draws, BOOTSTRAP_DRAWS, 50);
}

static double expected_high(const double *draws)
{
    return 0.975 * ranked(draws, BOOTSTRAP_DRAWS, 1949) + 0.025 * ranked(draws, BOOTSTRAP_DRAWS, 1950);
}

/* The same resamples, kept as how often each sequence is in them. */
static void test_the_interval_is_that_of_the_same_resamples(void **state)
{
    (void)state;
    enum { N = 9, SEED = 77 };
    static double draws[BOOTSTRAP_DRAWS];
    double a[N], b[N], low, high;
    int64_t weights[N];
    struct error error;
    assert_int_equal(BOOTSTRAP_DRAWS, 2000);
    for (int i = 0; i < N; i++) {
        weights[i] = 20 + 30 * (i % 4);
        a[i] = 3 + 0.4 * random_normal(8, 0, (uint64_t)i);
        b[i] = a[i] * (1.1 + 0.05 * random_normal(8, 1, (uint64_t)i));
    }
    for (int draw = 0; draw < BOOTSTRAP_DRAWS; draw++) {
        int times[N] = {0};
        double loss_a = 0, loss_b = 0;
        for (int i = 0; i < N; i++) times[random_below(SEED, (uint64_t)draw, (uint64_t)i, N)]++;
        for (int i = 0; i < N; i++) {
            loss_a += (double)(times[i] * weights[i]) * a[i];
            loss_b += (double)(times[i] * weights[i]) * b[i];
        }
        draws[draw] = loss_b / loss_a - 1;
    }
    assert_int_equal(bootstrap_ratio(a, b, weights, N, 0.1, SEED, &low, &high, &error), STATUS_OK);
    assert_true(low < 0.1 && high > 0.1);
    near(low, expected_low(draws));
    near(high, expected_high(draws));
}

/* Rows stay whole, and each stream has resamples of its own. */
static void test_means_are_of_the_same_resamples(void **state)
{
    (void)state;
    enum { N = 6, COLUMNS = 3, SEED = 5 };
    static double draws[COLUMNS * BOOTSTRAP_DRAWS];
    double values[N * COLUMNS];
    for (int i = 0; i < N * COLUMNS; i++) values[i] = random_normal(3, 0, (uint64_t)i);
    for (uint32_t stream = 0; stream < 3; stream++) {
        bootstrap_means(values, N, COLUMNS, SEED, stream, draws);
        for (int draw = 0; draw < BOOTSTRAP_DRAWS; draw++) {
            double sums[COLUMNS] = {0};
            for (int i = 0; i < N; i++) {
                const uint64_t place = ((uint64_t)stream << 40) + (uint64_t)i;
                const uint64_t row = random_below(SEED, (uint64_t)draw, place, N);
                for (int c = 0; c < COLUMNS; c++) sums[c] += values[row * COLUMNS + (uint64_t)c];
            }
            for (int c = 0; c < COLUMNS; c++) near(draws[c * BOOTSTRAP_DRAWS + draw], sums[c] / N);
        }
    }
}

static void test_tends_to_the_normal_interval(void **state)
{
    (void)state;
    double a[COUNT], b[COUNT], sum_a = 0, sum_b = 0, spread = 0, low, high;
    int64_t weights[COUNT];
    struct error error;
    for (int i = 0; i < COUNT; i++) {
        weights[i] = 100 + i % 7;
        a[i] = 3 + 0.3 * random_normal(1, 0, (uint64_t)i);
        b[i] = 1.1 * a[i] + 0.1 * random_normal(1, 1, (uint64_t)i);
        sum_a += (double)weights[i] * a[i];
        sum_b += (double)weights[i] * b[i];
    }
    const double ratio = sum_b / sum_a;
    for (int i = 0; i < COUNT; i++) spread += pow((double)weights[i] * (b[i] - ratio * a[i]), 2);
    const double half = 1.96 * sqrt(spread) / sum_a;
    assert_int_equal(bootstrap_ratio(a, b, weights, COUNT, ratio - 1, 5, &low, &high, &error), STATUS_OK);
    /* 2000 draws know a 2.5 % quantile to about 6 % of a standard deviation */
    assert_true(fabs(low - (ratio - 1 - half)) < 0.2 * half && fabs(high - (ratio - 1 + half)) < 0.2 * half);
    double again_low, again_high;
    assert_int_equal(bootstrap_ratio(a, b, weights, COUNT, ratio - 1, 5, &again_low, &again_high, &error), STATUS_OK);
    assert_true(low == again_low && high == again_high);
    assert_int_equal(bootstrap_ratio(a, b, weights, COUNT, ratio - 1, 6, &again_low, &again_high, &error), STATUS_OK);
    assert_true(low != again_low);
}

/* A loss that all sequences share moves both of a pair: the interval is that of the ratio, not of either loss. */
static void test_pairs_stay_together(void **state)
{
    (void)state;
    double a[50], b[50], low, high;
    int64_t weights[50];
    struct error error;
    for (int i = 0; i < 50; i++) {
        weights[i] = 10;
        a[i] = exp(random_normal(2, 0, (uint64_t)i));
        b[i] = 1.25 * a[i];
    }
    assert_int_equal(bootstrap_ratio(a, b, weights, 50, 0.25, 0, &low, &high, &error), STATUS_OK);
    assert_true(fabs(low - 0.25) < 1e-12 && fabs(high - 0.25) < 1e-12);
}

static void test_holds_the_value_even_of_one_sequence(void **state)
{
    (void)state;
    const double a[] = {3.3}, b[] = {3.4};
    const int64_t weights[] = {7};
    const double value = b[0] / a[0] - 1 + 1e-15;
    double low, high;
    struct error error;
    assert_int_equal(bootstrap_ratio(a, b, weights, 1, value, 0, &low, &high, &error), STATUS_OK);
    assert_true(low <= value && value <= high && high - low < 1e-12);
}

static void test_gives_no_interval_to_what_is_not_finite(void **state)
{
    (void)state;
    const double a[] = {1, 2}, b[] = {INFINITY, 3};
    const int64_t weights[] = {1, 1};
    double low, high;
    struct error error;
    assert_int_equal(bootstrap_ratio(a, b, weights, 2, INFINITY, 0, &low, &high, &error), STATUS_OK);
    assert_true(isnan(low) && isnan(high));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_ends_are_the_quantiles_of_2_5_and_97_5_percent),
        cmocka_unit_test(test_the_interval_is_that_of_the_same_resamples),
        cmocka_unit_test(test_means_are_of_the_same_resamples),
        cmocka_unit_test(test_tends_to_the_normal_interval),
        cmocka_unit_test(test_pairs_stay_together),
        cmocka_unit_test(test_holds_the_value_even_of_one_sequence),
        cmocka_unit_test(test_gives_no_interval_to_what_is_not_finite),
    };
    return cmocka_run_group_tests_name("bootstrap", tests, NULL, NULL);
}
