/* Forecasts of a trend: worked out elsewhere, the edges, and how often they hold what comes. */
#include "base/random.h"
#include "eval/extrapolate.h"
#include "unit.h"

#include <math.h>

static const double places[] = {1, 2, 4, 8, 16, 32};
enum { PLACES = sizeof places / sizeof places[0] };

static void near(double found, double expected, double tolerance)
{
    if (!(fabs(found - expected) <= tolerance)) fail_msg("%.17g instead of %.17g", found, expected);
}

/* Least squares on log2(x) = 0 … 5, whose squares about their mean sum to 17.5; t(4) = 2.77644510519780. */
static void test_a_worked_example(void **state)
{
    const double y[] = {2, 1.9, 1.82, 1.75, 1.66, 1.6};
    double mean = 0, slope = 0, squares = 0;
    (void)state;
    for (int i = 0; i < PLACES; i++) mean += y[i] / PLACES;
    for (int i = 0; i < PLACES; i++) slope += (i - 2.5) * y[i] / 17.5; /* log2 x = 0 … 5 */
    for (int i = 0; i < PLACES; i++) squares += pow(y[i] - mean - slope * (i - 2.5), 2);
    const double value = mean + slope * 3.5;
    const double half = 2.7764451051977987 * sqrt(squares / 4 * (1 + 1.0 / 6 + 3.5 * 3.5 / 17.5));
    const struct extrapolation found = extrapolate(EXTRAPOLATE_LOSS, places, y, PLACES, 64);
    near(found.value, value, 1e-12);
    near(found.low, value - half, 1e-12);
    near(found.high, value + half, 1e-12); /* the other trend scatters far more */
}

static void test_few_places_and_no_numbers_have_no_forecast(void **state)
{
    double y[] = {2, 1.9, 1.82, 1.75, 1.66, 1.6};
    (void)state;
    struct extrapolation found = extrapolate(EXTRAPOLATE_LOSS, places, y, EXTRAPOLATE_LEAST - 1, 64);
    assert_true(isnan(found.value) && isnan(found.low) && isnan(found.high));
    y[2] = NAN;
    found = extrapolate(EXTRAPOLATE_DAMAGE, places, y, PLACES, 64);
    assert_true(isnan(found.value) && isnan(found.low) && isnan(found.high));
}

/* Numbers that leave all trends open: the interval is the hull, and holds what each of them would give. */
static void test_what_is_not_known_of_the_trend_is_in_the_interval(void **state)
{
    const double x[] = {10, 11, 12, 13, 14}, y[] = {1, 1.12, 1.18, 1.33, 1.38};
    (void)state;
    const struct extrapolation found = extrapolate(EXTRAPOLATE_DAMAGE, x, y, 5, 56);
    const double slope = 0.097, straight = 1.202 + slope * (56 - 12);
    assert_true(found.low < 1.202 + slope * 12 * log(56.0 / 12) && found.high > straight);
}

static void test_errors_of_a_product_add_as_squares(void **state)
{
    const struct extrapolation base = {2, 1.7, 2.4}, part = {0.1, 0.05, 0.3};
    (void)state;
    const struct extrapolation found = extrapolate_product(&base, &part);
    near(found.value, 2.2, 1e-12);
    near(found.low, 2.2 - hypot(1.1 * 0.3, 2 * 0.05), 1e-12);
    near(found.high, 2.2 + hypot(1.1 * 0.4, 2 * 0.2), 1e-12);
}

/* Truths that are one of the trends or lie between two, noise from a thousandth to a tenth of the range, twice to
 * sixteen times as far: 95 % of the intervals or more hold one more noisy measurement, 3 standard errors less are let
 * pass. */
static void test_intervals_hold_what_comes(void **state)
{
    static const double powers[] = {-0.5, -0.25, 0, 0.5, 0.75, 1};
    static const double noises[] = {0.001, 0.01, 0.1};
    enum { RUNS = 400 };
    (void)state;
    for (int kind = 0; kind < 6; kind++) {
        int held = 0, all = 0;
        for (int run = 0; run < RUNS; run++) {
            const double power = powers[kind], noise = noises[run % 3], far = (double)(64 << (run % 4));
            double y[PLACES + 1];
            for (int i = 0; i <= PLACES; i++) {
                const double x = i < PLACES ? places[i] : far;
                const double u = power == 0 ? log(x) / log(32) : (pow(x, power) - 1) / (pow(32, power) - 1);
                y[i] = 3 - u + noise * random_normal((uint64_t)kind, (uint64_t)run, (uint64_t)i);
            }
            const struct extrapolation found =
                extrapolate(kind < 3 ? EXTRAPOLATE_LOSS : EXTRAPOLATE_DAMAGE, places, y, PLACES, far);
            held += found.low <= y[PLACES] && y[PLACES] <= found.high;
            all++;
        }
        if (held < 0.95 * all - 3 * sqrt(0.95 * 0.05 * all)) fail_msg("power %g: %d of %d", powers[kind], held, all);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_worked_example),
        cmocka_unit_test(test_few_places_and_no_numbers_have_no_forecast),
        cmocka_unit_test(test_what_is_not_known_of_the_trend_is_in_the_interval),
        cmocka_unit_test(test_errors_of_a_product_add_as_squares),
        cmocka_unit_test(test_intervals_hold_what_comes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
