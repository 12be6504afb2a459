/* Student's quantile against closed forms and an independent library's numbers. */
#include "eval/student.h"
#include "unit.h"

#include <math.h>

/* With one degree the distribution is Cauchy's, with two and four its distribution function is algebraic. */
static void test_closed_forms(void **state)
{
    (void)state;
    const double half = 0.475;
    assert_true(fabs(student_quantile(1) / tan(acos(-1) * half) - 1) < 1e-12);
    assert_true(fabs(student_quantile(2) / (2 * half * sqrt(2 / (1 - 4 * half * half))) - 1) < 1e-12);
    const double alpha = 4 * 0.975 * 0.025, q = cos(acos(sqrt(alpha)) / 3) / sqrt(alpha);
    assert_true(fabs(student_quantile(4) / (2 * sqrt(q - 1)) - 1) < 1e-12);
}

/* mpmath 1.3 with 30 digits, where the expansion serves (2000 degrees and more); else scipy 1.16,
 * scipy.stats.t.ppf(0.975, degrees), to the digits printed here. The expansion leaves out 6e-16 at most. */
static void test_known_values(void **state)
{
    static const struct {
        double degrees, t;
    } rows[] = {
        {1, 12.7062047361747},       {1.5, 6.01666310442793},    {2, 4.30265272974946},    {3, 3.18244630528371},
        {7, 2.36462425159278},       {15.5, 2.12547665923094},   {31, 2.03951344639641},   {63, 1.99834054252074},
        {127, 1.97881953470285},     {999, 1.96234146113345},    {1999, 1.96115142017056}, {2000, 1.96115082609943803},
        {5000, 1.96043855170650792}, {1e6, 1.95996635681410704},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const double found = student_quantile(rows[i].degrees);
        if (!(fabs(found / rows[i].t - 1) < (rows[i].degrees < 2000 ? 1e-12 : 2e-15)))
            fail_msg("%g: %.15g", rows[i].degrees, found);
    }
}

static void test_ends(void **state)
{
    (void)state;
    assert_true(fabs(student_quantile(INFINITY) - 1.959963984540054) < 1e-15);
    assert_true(isnan(student_quantile(0.9)) && isnan(student_quantile(NAN)) && isnan(student_quantile(-INFINITY)));
    for (double degrees = 1; degrees < 4000; degrees *= 1.1)
        assert_true(student_quantile(degrees) > student_quantile(1.1 * degrees));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_closed_forms),
        cmocka_unit_test(test_known_values),
        cmocka_unit_test(test_ends),
    };
    return cmocka_run_group_tests_name("student", tests, NULL, NULL);
}
