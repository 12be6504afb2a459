/* Intervals of shares against those of statsmodels 0.15.0 (stats.proportion.proportion_confint, methods "wilson" and
 * "beta", computed with scipy 1.17.1). Bound: 1e-10, as log-gammas of 10,000 items are known to 1e-11. */
#include "eval/proportion.h"
#include "unit.h"

#include <math.h>

static const struct {
    int64_t k, n;
    double wilson_low, wilson_high, exact_low, exact_high;
} rows[] = {
    {0, 10, 0, 0.277532799862889, 0, 0.308497107818761},
    {3, 10, 0.107791267406301, 0.603221852538855, 0.0667395111777345, 0.652452850059997},
    {10, 10, 0.722467200137111, 1, 0.691502892181239, 1},
    {1, 1, 0.206549314377237, 1, 0.025, 1},
    {137, 1000, 0.117073130632995, 0.159705096027518, 0.116281689433681, 0.159880965105417},
    {4999, 10000, 0.490102100411125, 0.509697976388549, 0.490051409920257, 0.509748648348401},
};

static void near(double got, double expected)
{
    if (!(fabs(got - expected) <= 1e-10)) fail_msg("%.17g instead of %.17g", got, expected);
}

static void test_intervals_are_those_of_statsmodels(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double low, high;
        proportion_wilson(rows[i].k, rows[i].n, &low, &high);
        near(low, rows[i].wilson_low);
        near(high, rows[i].wilson_high);
        proportion_exact(rows[i].k, rows[i].n, &low, &high);
        near(low, rows[i].exact_low);
        near(high, rows[i].exact_high);
    }
}

static void test_nothing_counted_says_nothing(void **state)
{
    double low, high;
    (void)state;
    proportion_wilson(0, 0, &low, &high);
    assert_true(low == 0 && high == 1);
    proportion_exact(0, 0, &low, &high);
    assert_true(low == 0 && high == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_intervals_are_those_of_statsmodels),
        cmocka_unit_test(test_nothing_counted_says_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
