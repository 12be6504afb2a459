/* Paired differences: a worked example, the edges, and how often intervals hold the true difference. */
#include "base/random.h"
#include "eval/difference.h"
#include "eval/student.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>

enum { MOST = 128 };

static struct difference measure(struct difference_side a, struct difference_side b, const int64_t *weights,
                                 int64_t count)
{
    const struct difference_pair pair = {a, b};
    struct difference found;
    struct error error;
    assert_int_equal(difference_measure(&pair, 1, weights, count, 0, &found, &error), STATUS_OK);
    return found;
}

static void near(double found, double expected)
{
    if (!(fabs(found - expected) <= 1e-12 * (1 + fabs(expected)))) fail_msg("%.17g instead of %.17g", found, expected);
}

/* w = (1, 2, 1); means 11/4 and 15/4: e = w (d - 1) / 4 of d = (0, 1, 2), over 1 - w / 4 (-1/3, 0, 1/3), squares 2/9;
 * variance 2/9 * 2/3 = 4/27, of 16/6 - 1 = 5/3 degrees. */
static void test_a_worked_mean(void **state)
{
    const double a[] = {2, 3, 3}, b[] = {2, 4, 5};
    const int64_t weights[] = {1, 2, 1};
    (void)state;
    const struct difference found =
        measure((struct difference_side){a, NULL}, (struct difference_side){b, NULL}, weights, 3);
    near(found.a, 11.0 / 4);
    near(found.b, 15.0 / 4);
    near(found.value, 1);
    assert_int_equal(found.interval.method, RATIO_STUDENT);
    near(found.interval.low, 1 - student_quantile(5.0 / 3) * sqrt(4.0 / 27));
    near(found.interval.high, 1 + student_quantile(5.0 / 3) * sqrt(4.0 / 27));
    assert_true(found.greater == 2 && found.smaller == 0 && found.sign_p == 0.5);
}

/* Ratios 3/2 and 5/4: e_1 = 5 (3 - 2.5) / 20 - 5 (1 - 1.5) / 10 = 0.375 = -e_2, so that an end lies t(1) sqrt(2 * 2 *
 * 0.375^2) = 0.75 t(1) away; t(1) = 12.7062047361747. */
static void test_a_worked_ratio(void **state)
{
    const double over_a[] = {1, 2}, under_a[] = {1, 1}, over_b[] = {3, 2}, under_b[] = {2, 2};
    const int64_t weights[] = {5, 5};
    (void)state;
    const struct difference found =
        measure((struct difference_side){over_a, under_a}, (struct difference_side){over_b, under_b}, weights, 2);
    near(found.value, -0.25);
    near(found.interval.high, -0.25 + 12.7062047361747 * 0.75);
    assert_true(found.greater == 1 && found.smaller == 1 && found.sign_p == 1);
}

static void test_equal_measurements_differ_by_exactly_nothing(void **state)
{
    double losses[MOST], quantized[MOST];
    int64_t weights[MOST];
    (void)state;
    for (int i = 0; i < MOST; i++) {
        losses[i] = 3 + random_normal(1, 0, (uint64_t)i) / 3;
        quantized[i] = losses[i] * (1.1 + random_normal(1, 1, (uint64_t)i) / 30);
        weights[i] = 7 + i % 5;
    }
    for (int64_t count = 2; count <= MOST; count += 63) {
        const struct difference_side side = {quantized, losses};
        const struct difference found = measure(side, side, weights, count);
        assert_true(found.value == 0 && found.interval.low == 0 && found.interval.high == 0 && found.sign_p == 1);
        /* 65 of these lengths are worth 63.4 */
        assert_int_equal(found.interval.method, count < MOST ? RATIO_STUDENT : RATIO_BOOTSTRAP);
    }
}

static void test_one_sequence_and_no_number_have_no_interval(void **state)
{
    double a[MOST], b[MOST];
    int64_t weights[MOST];
    (void)state;
    for (int i = 0; i < MOST; i++) {
        a[i] = b[i] = 1 + i;
        weights[i] = 1;
    }
    const struct difference_side first = {a, NULL}, second = {b, NULL};
    assert_int_equal(measure(first, second, weights, 1).interval.method, RATIO_NONE);
    b[1] = INFINITY;
    for (int64_t count = 2; count <= MOST; count += MOST - 2) {
        const struct difference found = measure(first, second, weights, count);
        assert_true(found.interval.method == RATIO_NONE && isnan(found.interval.low) && isnan(found.interval.high));
        assert_int_equal(found.greater, 1);
    }
}

/* More sequences than are drawn: Student's again, and the same interval as the percentiles within their noise, which is
 * 0.06 standard errors an end. */
static void test_many_sequences_have_students_interval(void **state)
{
    const int64_t count = DIFFERENCE_BOOTSTRAP_MOST + 1;
    double *a = calloc((size_t)count, sizeof *a), *b = calloc((size_t)count, sizeof *b);
    int64_t *weights = calloc((size_t)count, sizeof *weights);
    (void)state;
    assert_true(a != NULL && b != NULL && weights != NULL);
    for (int64_t i = 0; i < count; i++) {
        a[i] = 3 + random_normal(2, 0, (uint64_t)i);
        b[i] = a[i] + 0.01 * random_normal(2, 1, (uint64_t)i);
        weights[i] = 100;
    }
    const struct difference_side first = {a, NULL}, second = {b, NULL};
    const struct difference more = measure(first, second, weights, count);
    const struct difference most = measure(first, second, weights, count - 1);
    assert_int_equal(more.interval.method, RATIO_STUDENT);
    assert_int_equal(most.interval.method, RATIO_BOOTSTRAP);
    const double deviation = 0.01 / sqrt((double)count);
    assert_true(fabs(more.interval.low - most.interval.low) < 0.3 * deviation);
    assert_true(fabs(more.interval.high - most.interval.high) < 0.3 * deviation);
    free(a);
    free(b);
    free(weights);
}

/* Two quantizations of one model: losses spread by a quarter from sequence to sequence, what each quantization does to
 * a sequence by a third of the damage. The true difference of the ratios is 0.02. */
static int inside(int count, int samples)
{
    int held = 0;
    for (int sample = 0; sample < samples; sample++) {
        double full[MOST], a[MOST], b[MOST];
        int64_t weights[MOST];
        const uint64_t seed = (uint64_t)(sample + 10);
        for (int i = 0; i < count; i++) {
            weights[i] = 255;
            full[i] = 3 * exp(0.25 * random_normal(seed, 0, (uint64_t)i));
            a[i] = full[i] * (1 + 0.10 * (1 + random_normal(seed, 1, (uint64_t)i) / 3));
            b[i] = full[i] * (1 + 0.12 * (1 + random_normal(seed, 2, (uint64_t)i) / 3));
        }
        const struct difference found =
            measure((struct difference_side){a, full}, (struct difference_side){b, full}, weights, count);
        held += found.interval.low <= 0.02 && 0.02 <= found.interval.high;
    }
    return held;
}

/* 95 % within three standard errors of the share. */
static void test_intervals_hold_the_true_difference(void **state)
{
    (void)state;
    assert_in_range(inside(4, 4000), 3758, 3842);
    assert_in_range(inside(32, 1000), 929, 971);
    assert_in_range(inside(100, 300), 268, 297);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_worked_mean),
        cmocka_unit_test(test_a_worked_ratio),
        cmocka_unit_test(test_equal_measurements_differ_by_exactly_nothing),
        cmocka_unit_test(test_one_sequence_and_no_number_have_no_interval),
        cmocka_unit_test(test_many_sequences_have_students_interval),
        cmocka_unit_test(test_intervals_hold_the_true_difference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
