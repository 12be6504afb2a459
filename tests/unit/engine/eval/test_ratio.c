/* Intervals of ratios: the formula worked out by hand, the edges, and how often they hold the true ratio. */
#include "base/random.h"
#include "eval/bootstrap.h"
#include "eval/leverage.h"
#include "eval/ratio.h"
#include "eval/student.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>

enum { MOST = 128 };

struct sample {
    double a[MOST], b[MOST];
    int64_t weights[MOST];
    double ratio; /* less 1 */
};

static struct ratio_interval measure(const struct sample *sample, int64_t count, uint64_t seed)
{
    struct ratio_interval found;
    struct error error;
    assert_int_equal(ratio_interval(sample->a, sample->b, sample->weights, count, sample->ratio, seed, &found, &error),
                     STATUS_OK);
    return found;
}

static void near(double found, double expected)
{
    if (!(fabs(found - expected) <= 1e-12 * (1 + fabs(expected)))) fail_msg("%.17g instead of %.17g", found, expected);
}

/* w = (1, 2, 1), a = (2, 3, 4), b = (3, 3, 5): sums 12 and 14, r = 7/6, residuals (2/3, -1, 1/3), over 1 - w / 4
 * (8/9, -2, 4/9), squares 404/81; variance 404/81 / 144 * 2/3 = 101/4374; degrees 16/6 - 1 = 5/3, of which t is
 * 5.26... (by student_quantile, which has a test of its own). */
static void test_a_worked_example(void **state)
{
    const struct sample sample = {{2, 3, 4}, {3, 3, 5}, {1, 2, 1}, 1.0 / 6};
    (void)state;
    near(ratio_variance(sample.a, sample.b, sample.weights, 3), 101.0 / 4374);
    const struct ratio_interval found = measure(&sample, 3, 0);
    assert_int_equal(found.method, RATIO_STUDENT);
    near(found.low, 1.0 / 6 - student_quantile(5.0 / 3) * sqrt(101.0 / 4374));
    near(found.high, 1.0 / 6 + student_quantile(5.0 / 3) * sqrt(101.0 / 4374));
}

/* w = (1, 2, 1), b = (3, 3, 5): mean 7/2, residuals (-1/2, -1, 3/2), over 1 - w / 4 (-2/3, -2, 2), squares 76/9;
 * variance 76/9 / 16 * 2/3 = 19/54. With equal weights (2, 2, 2) the mean is 11/3, the variance 4/9. */
static void test_a_mean(void **state)
{
    const struct sample sample = {.b = {3, 3, 5}, .weights = {1, 2, 1}};
    (void)state;
    const double variance = ratio_variance(NULL, sample.b, sample.weights, 3);
    near(variance, 19.0 / 54);
    near(ratio_variance(NULL, sample.b, (const int64_t[]){2, 2, 2}, 3), 4.0 / 9);
    const struct ratio_interval found = ratio_interval_mean(3.5, variance, 2);
    assert_int_equal(found.method, RATIO_STUDENT);
    near(found.low, 3.5 - 4.30265272974946 * sqrt(19.0 / 54));
    near(found.high, 3.5 + 4.30265272974946 * sqrt(19.0 / 54));
    assert_int_equal(ratio_interval_mean(3.5, NAN, 0).method, RATIO_NONE);
}

static void test_one_sequence_and_no_number_have_no_interval(void **state)
{
    struct sample sample = {{2, 3}, {3, 3}, {1, 1}, 0.5};
    (void)state;
    struct ratio_interval found = measure(&sample, 1, 0);
    assert_true(found.method == RATIO_NONE && isnan(found.low) && isnan(found.high));
    sample.b[1] = INFINITY;
    sample.ratio = INFINITY;
    found = measure(&sample, 2, 0);
    assert_true(found.method == RATIO_NONE && isnan(found.low) && isnan(found.high));
    found = ratio_interval_draws(0.1, NAN, 0, 0.01, 4);
    assert_true(found.method == RATIO_NONE && isnan(found.low) && isnan(found.high));
    found = ratio_interval_draws(0.1, 0, 7, 0, 4);
    assert_true(found.method == RATIO_DRAWS && found.low == 0.1 && found.high == 0.1);
}

/* Losses of sequences are lognormal and spread by a quarter, as those of text. What quantization does to a sequence of
 * 256 tokens is a mean over them, 0.1 of the loss and spread by a third of that, as GPTQ's 4 bits do to a small trained
 * model. `effect` is that of the calibration sample on all sequences, relative to the damage. */
static void draw(uint64_t seed, int count, double effect, struct sample *out)
{
    double sum_a = 0, sum_b = 0;
    for (int i = 0; i < count; i++) {
        out->weights[i] = 255;
        out->a[i] = 3 * exp(0.25 * random_normal(seed, 0, (uint64_t)i));
        out->b[i] = out->a[i] * (1 + 0.1 * (1 + random_normal(seed, 1, (uint64_t)i) / 3 + effect));
        sum_a += out->a[i];
        sum_b += out->b[i];
    }
    out->ratio = sum_b / sum_a - 1;
}

static const double truth = 0.1;

/* `least` to `most`, and three standard errors of a share of so many samples on either side. */
static void check_coverage(const char *what, int inside, int samples, double least, double most)
{
    const double share = (double)inside / samples, error = 3 * sqrt(0.95 * 0.05 / samples);
    if (share < least - error || share > most + error) fail_msg("%s: %.4f of %d", what, share, samples);
    print_message("%s: %.4f of %d\n", what, share, samples);
}

static void test_intervals_hold_the_truth_as_often_as_they_say(void **state)
{
    static const struct {
        int count, samples;
        enum ratio_method method;
    } rows[] = {{4, 20000, RATIO_STUDENT},  {8, 20000, RATIO_STUDENT},  {16, 10000, RATIO_STUDENT},
                {32, 10000, RATIO_STUDENT}, {64, 600, RATIO_BOOTSTRAP}, {128, 300, RATIO_BOOTSTRAP}};
    static struct sample sample;
    (void)state;
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        char what[32];
        int inside = 0;
        for (int i = 0; i < rows[row].samples; i++) {
            const uint64_t seed = 1000003 * (row + 1) + (uint64_t)i;
            draw(seed, rows[row].count, 0, &sample);
            const struct ratio_interval found = measure(&sample, rows[row].count, seed);
            assert_int_equal(found.method, rows[row].method);
            inside += found.low <= truth && truth <= found.high;
        }
        (void)snprintf(what, sizeof what, "%d sequences", rows[row].count);
        check_coverage(what, inside, rows[row].samples, 0.94, 0.96);
    }
}

/* Documents of very unlike lengths, equally noisy or noisier where shorter: intervals are a little too wide, where
 * those of the plain residuals and n - 1 degrees held the mean 88 to 93 times of 100. */
static void test_intervals_of_unlike_sequences_hold_the_truth(void **state)
{
    enum { SAMPLES = 4000 };
    static struct sample sample;
    (void)state;
    for (int count = 3; count <= 20; count += count < 6 ? 1 : 7)
        for (int shorter = 0; shorter < 2; shorter++) {
            char what[64];
            int inside = 0;
            for (int i = 0; i < SAMPLES; i++) {
                const uint64_t seed = 90001 * (uint64_t)(2 * count + shorter) + (uint64_t)i;
                double sum = 0, total = 0;
                for (int k = 0; k < count; k++) {
                    sample.weights[k] = 1 + (int64_t)(20 * exp(random_normal(seed, 1, (uint64_t)k)));
                    const double size = shorter ? 1 / sqrt((double)sample.weights[k]) : 1;
                    sample.b[k] = size * random_normal(seed, 0, (uint64_t)k);
                    sum += (double)sample.weights[k] * sample.b[k];
                    total += (double)sample.weights[k];
                }
                const struct ratio_interval found =
                    ratio_interval_mean(sum / total, ratio_variance(NULL, sample.b, sample.weights, count),
                                        leverage_degrees(sample.weights, count));
                inside += found.low <= 0 && 0 <= found.high;
            }
            (void)snprintf(what, sizeof what, "%d unlike sequences%s", count, shorter ? ", noisier if short" : "");
            check_coverage(what, inside, SAMPLES, 0.95, 0.985);
        }
}

/* 64 documents of lengths that spread like a lognormal of 1.5 are worth some 15 of one length: too few for percentiles,
 * which held the truth 92 times of 100. */
static void test_many_sequences_of_which_few_are_long_have_students_interval(void **state)
{
    enum { SAMPLES = 4000, COUNT = 64 };
    static struct sample sample;
    int inside = 0;
    (void)state;
    for (int i = 0; i < SAMPLES; i++) {
        const uint64_t seed = 700001 + (uint64_t)i;
        double sum_a = 0, sum_b = 0;
        for (int k = 0; k < COUNT; k++) {
            sample.weights[k] = 10 + (int64_t)(300 * exp(1.5 * random_normal(seed, 2, (uint64_t)k)));
            sample.a[k] = 3 + 0.4 * random_normal(seed, 0, (uint64_t)k);
            sample.b[k] = sample.a[k] * (1.1 + 0.03 * random_normal(seed, 1, (uint64_t)k));
            sum_a += (double)sample.weights[k] * sample.a[k];
            sum_b += (double)sample.weights[k] * sample.b[k];
        }
        sample.ratio = sum_b / sum_a - 1;
        const struct ratio_interval found = measure(&sample, COUNT, seed);
        assert_int_equal(found.method, RATIO_STUDENT);
        inside += found.low <= truth && truth <= found.high;
    }
    check_coverage("64 sequences, few of them long", inside, SAMPLES, 0.94, 0.965);
}

/* The worth of 128 sequences of which `heavy` weigh 1000 and the others 1: (1000 h + 128 - h)^2 / (10^6 h + 128 - h),
 * 64.1 for 64 of them, 63.1 for 63. */
static void test_percentiles_begin_where_sequences_are_worth_64(void **state)
{
    static struct sample sample;
    (void)state;
    for (int heavy = 63; heavy <= 64; heavy++) {
        draw(3, 128, 0, &sample);
        for (int i = 0; i < 128; i++) sample.weights[i] = i < heavy ? 1000 : 1;
        assert_int_equal(measure(&sample, 128, 0).method, heavy < 64 ? RATIO_STUDENT : RATIO_BOOTSTRAP);
    }
    assert_true(ratio_resampled(63) && !ratio_resampled(62.999));
}

/* Of four they hold the truth some 79 times of 100: why few sequences get Student's interval. */
static void test_percentiles_of_few_sequences_are_too_close_together(void **state)
{
    enum { SAMPLES = 1000 };
    static struct sample sample;
    struct error error;
    int inside = 0;
    (void)state;
    for (int i = 0; i < SAMPLES; i++) {
        double low, high;
        draw((uint64_t)i, 4, 0, &sample);
        assert_int_equal(
            bootstrap_ratio(sample.a, sample.b, sample.weights, 4, sample.ratio, (uint64_t)i, &low, &high, &error),
            STATUS_OK);
        inside += low <= truth && truth <= high;
    }
    assert_true(inside < 0.85 * SAMPLES);
}

/* Every draw of a calibration sample shifts the damage of all sequences by its own effect and that of each by a part of
 * it; all draws share the sequences. */
static void simulate(uint64_t seed, int count, int draws, double effect, struct ratio_interval *out)
{
    static struct sample sample;
    double means[MOST] = {0}, ratios[16], mean = 0, between = 0;
    for (int k = 0; k < draws; k++) {
        const double shift = effect * random_normal(seed, 2, (uint64_t)k);
        draw(seed, count, shift, &sample);
        double sum_a = 0, sum_b = 0;
        for (int i = 0; i < count; i++) {
            sample.b[i] += sample.a[i] * 0.1 * 0.1 * random_normal(seed, 3 + (uint64_t)k, (uint64_t)i);
            means[i] += sample.b[i] / draws;
            sum_a += sample.a[i];
            sum_b += sample.b[i];
        }
        ratios[k] = sum_b / sum_a - 1;
        mean += ratios[k] / draws;
    }
    for (int k = 0; k < draws; k++) between += (ratios[k] - mean) * (ratios[k] - mean) / (draws - 1);
    *out =
        ratio_interval_draws(mean, ratio_variance(sample.a, means, sample.weights, count), count - 1, between, draws);
}

static void test_intervals_over_draws_hold_the_truth_as_often_as_they_say(void **state)
{
    static const struct {
        int count, draws;
        double effect; /* relative standard deviation of the damage between calibration samples */
    } rows[] = {{16, 4, 0.07}, {64, 4, 0.07}, {64, 4, 0.3}, {128, 8, 0.07}, {64, 2, 0.3}, {128, 3, 0.02}};
    enum { SAMPLES = 4000 };
    (void)state;
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        char what[64];
        int inside = 0;
        for (int i = 0; i < SAMPLES; i++) {
            struct ratio_interval found;
            simulate(7777777 * (row + 1) + (uint64_t)i, rows[row].count, rows[row].draws, rows[row].effect, &found);
            assert_int_equal(found.method, RATIO_DRAWS);
            inside += found.low <= truth && truth <= found.high;
        }
        (void)snprintf(what, sizeof what, "%d sequences, %d draws, effect %g", rows[row].count, rows[row].draws,
                       rows[row].effect);
        check_coverage(what, inside, SAMPLES, 0.945, 0.98);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_worked_example),
        cmocka_unit_test(test_a_mean),
        cmocka_unit_test(test_one_sequence_and_no_number_have_no_interval),
        cmocka_unit_test(test_intervals_hold_the_truth_as_often_as_they_say),
        cmocka_unit_test(test_intervals_of_unlike_sequences_hold_the_truth),
        cmocka_unit_test(test_many_sequences_of_which_few_are_long_have_students_interval),
        cmocka_unit_test(test_percentiles_begin_where_sequences_are_worth_64),
        cmocka_unit_test(test_percentiles_of_few_sequences_are_too_close_together),
        cmocka_unit_test(test_intervals_over_draws_hold_the_truth_as_often_as_they_say),
    };
    return cmocka_run_group_tests_name("ratio", tests, NULL, NULL);
}
