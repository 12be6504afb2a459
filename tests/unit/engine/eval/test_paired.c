/* McNemar's exact test against probabilities worked out by hand, and intervals of changes against scipy's. */
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
    near(paired_mcnemar(24, 40), 0.059941189566999231); /* scipy 1.17.1, binomtest(24, 64) */
}

/* No p of 0.9999999999999991 or 0.25000000000000006: a few flips are counted in integers, and even splits are 1. */
static void test_probabilities_of_few_flips_are_exact(void **state)
{
    (void)state;
    assert_true(paired_mcnemar(3, 0) == 0.25 && paired_mcnemar(4, 2) == 0.6875 && paired_mcnemar(0, 6) == 0.03125);
    assert_true(paired_mcnemar(0, 61) == ldexp(1, -60));
    for (int64_t n = 0; n < 300; n++) {
        assert_true(paired_mcnemar(n, n) == 1 && paired_mcnemar(n, n + 1) == 1 && paired_mcnemar(n + 1, n) == 1);
        assert_true(paired_mcnemar(n, n + 2) < 1);
    }
}

/* Clopper and Pearson's limits (statsmodels 0.15.0, method "beta") of the flips up, times the limits of Wilson's of the
 * flips (method "wilson"). */
static void test_changes_have_the_limits_of_statsmodels(void **state)
{
    static const struct {
        int64_t up, down, n;
        double low, high;
    } rows[] = {
        {0, 0, 10, -0.277532799862889, 0.277532799862889},
        {3, 0, 10, -0.250455573158607, 0.603221852538855},
        {6, 0, 10, 0.0254778303840967, 0.831819670293764},
        {0, 6, 200, -0.0638942924545192, -0.00112613099881129},
        {1, 3, 10, -0.678652911140474, 0.42047807646956},
        {24, 40, 500, -0.0778151336218198, 0.00157696735801617},
        {60, 30, 1000, 0.00877445469204474, 0.0574192181471833},
        {9, 1, 10, 0.0794481039666126, 0.994942842911076},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double low, high;
        paired_change(rows[i].up, rows[i].down, rows[i].n, &low, &high);
        near(low, rows[i].low);
        near(high, rows[i].high);
    }
}

/* An interval that leaves out 0 and a test that does not see the change, or the other way round, would contradict each
 * other. */
static void test_a_change_is_certain_exactly_when_the_test_says_so(void **state)
{
    (void)state;
    for (int64_t up = 0; up <= 40; up++)
        for (int64_t down = 0; down <= 40; down++) {
            double low, high;
            paired_change(up, down, 100, &low, &high);
            const double change = (double)(up - down) / 100;
            assert_true(low <= change && change <= high);
            assert_int_equal(low > 0 || high < 0, paired_mcnemar(up, down) < 0.05);
        }
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
                                       cmocka_unit_test(test_probabilities_of_few_flips_are_exact),
                                       cmocka_unit_test(test_changes_have_the_limits_of_statsmodels),
                                       cmocka_unit_test(test_a_change_is_certain_exactly_when_the_test_says_so),
                                       cmocka_unit_test(test_many_items_do_not_overflow)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
