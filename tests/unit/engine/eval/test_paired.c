/* McNemar's exact test against probabilities worked out by hand. */
#include "eval/paired.h"
#include "unit.h"

#include <math.h>

static void near(double got, double expected)
{
    if (!(fabs(got - expected) <= 1e-12 * (1 + expected))) fail_msg("%.17g instead of %.17g", got, expected);
}

static void test_exact_probabilities(void **state)
{
    (void)state;
    near(paired_mcnemar(0, 0), 1);
    near(paired_mcnemar(3, 3), 1);
    near(paired_mcnemar(0, 5), 2.0 / 32);
    near(paired_mcnemar(5, 0), 2.0 / 32);
    near(paired_mcnemar(1, 7), 2.0 * (1 + 8) / 256);
    near(paired_mcnemar(9, 2), 2.0 * (1 + 11 + 55) / 2048);
}

static void test_many_items_do_not_overflow(void **state)
{
    (void)state;
    assert_true(paired_mcnemar(20000, 20000) == 1);
    const double p = paired_mcnemar(10000, 10400); /* the normal approximation, with its correction, gives 0.00526 */
    assert_true(p > 0.0050 && p < 0.0055);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_exact_probabilities),
                                       cmocka_unit_test(test_many_items_do_not_overflow)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
