/* The bootstrap interval against the normal approximation it tends to, and at its edges. */
#include "base/random.h"
#include "eval/bootstrap.h"
#include "unit.h"

#include <math.h>

enum { COUNT = 400 };

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
        cmocka_unit_test(test_tends_to_the_normal_interval),
        cmocka_unit_test(test_pairs_stay_together),
        cmocka_unit_test(test_holds_the_value_even_of_one_sequence),
        cmocka_unit_test(test_gives_no_interval_to_what_is_not_finite),
    };
    return cmocka_run_group_tests_name("bootstrap", tests, NULL, NULL);
}
