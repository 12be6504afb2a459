/* Philox4x32-10 against the known answers that its authors publish (Random123, kat_vectors). */
#include "base/random.h"
#include "unit.h"

static void test_known_answers(void **state)
{
    (void)state;
    assert_int_equal(random_bits(0, 0, 0), 0xe169c58d6627e8d5u);
    assert_int_equal(random_bits(UINT64_MAX, UINT64_MAX, UINT64_MAX), 0x41c83b0e408f276du);
}

static void test_normal_has_unit_variance(void **state)
{
    (void)state;
    const int64_t count = 100000;
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < count; i++) {
        const double x = random_normal(7, 1, (uint64_t)i);
        sum += x;
        squares += x * x;
    }
    /* five standard errors of the mean (1/sqrt n) and of the variance (sqrt(2/n)) */
    assert_true(sum / (double)count < 5 / 316.2 && sum / (double)count > -5 / 316.2);
    assert_true(squares / (double)count < 1 + 5 * 0.00447 && squares / (double)count > 1 - 5 * 0.00447);
}

static void test_below_stays_below(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 1000; i++) assert_true(random_below(1, 2, i, 7) < 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_answers),
        cmocka_unit_test(test_normal_has_unit_variance),
        cmocka_unit_test(test_below_stays_below),
    };
    return cmocka_run_group_tests_name("random", tests, NULL, NULL);
}
