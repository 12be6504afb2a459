/* Differences of tokens: a worked example, equal measurements, and what intervals by tokens and by sequences hold where
 * the tokens of a sequence vary together. */
#include "base/random.h"
#include "eval/token_difference.h"
#include "unit.h"

#include <math.h>

enum { SEQUENCES = 20, PREDICTIONS = 12, TOKENS = SEQUENCES * PREDICTIONS };

static void near(double found, double expected)
{
    if (!(fabs(found - expected) <= 1e-12 * (1 + fabs(expected)))) fail_msg("%.17g instead of %.17g", found, expected);
}

/* Means of each sequence, as by_sequence wants them. */
static struct difference by_sequence(const float *a, const float *b, const int64_t *predictions, int64_t sequences)
{
    double means_a[SEQUENCES] = {0}, means_b[SEQUENCES] = {0};
    struct difference found;
    struct error error;
    for (int64_t s = 0, at = 0; s < sequences; s++) {
        for (const int64_t end = at + predictions[s]; at < end; at++) {
            means_a[s] += (double)a[at] / (double)predictions[s];
            means_b[s] += (double)b[at] / (double)predictions[s];
        }
    }
    const struct difference_pair pair = {{means_a, NULL}, {means_b, NULL}};
    assert_int_equal(difference_measure(&pair, 1, predictions, sequences, 0, &found, &error), STATUS_OK);
    return found;
}

static struct token_difference measure(const float *a, const float *b, const int64_t *predictions, int64_t sequences)
{
    const struct difference sequence = by_sequence(a, b, predictions, sequences);
    const struct token_pair pair = {{a, NULL}, {b, NULL}};
    struct token_difference found;
    struct error error;
    assert_int_equal(token_difference_measure(&pair, predictions, sequences, &sequence, 0, &found, &error), STATUS_OK);
    return found;
}

/* d = (1, 1 | -1, 3) of two sequences: mean 1, squares of d - 1 sum to 8, so that the squared error by tokens is
 * 4/3 * 8 / 16 = 2/3. The sequences' means are 1 and 1: no error at all, and a design effect of 0. Worse are 2 of 2 and
 * 1 of 2: a share of 3/4, e = 2 (1 - 3/4) / 4 = 1/8 = -e_2, half t(1) sqrt(2 * 2 / 64) = 12.7 / 4, which the ends of a
 * share cut off. */
static void test_a_worked_example(void **state)
{
    const float a[] = {1, 2, 3, 4}, b[] = {2, 3, 2, 7};
    const int64_t predictions[] = {2, 2};
    (void)state;
    const struct token_difference found = measure(a, b, predictions, 2);
    near(found.tokens.value, 1);
    near(found.tokens.standard_error, sqrt(2.0 / 3));
    assert_int_equal(found.tokens.interval.method, RATIO_STUDENT);
    near(found.tokens.interval.high, 1 + 3.18244630528371 * sqrt(2.0 / 3)); /* t of 3 degrees */
    assert_true(found.tokens.greater == 3 && found.tokens.smaller == 1);
    near(found.design_effect, 0);
    near(found.worse_share, 0.75);
    assert_true(found.worse_interval.low == 0 && found.worse_interval.high == 1);
}

/* By scipy 1.17.1: ttest_rel(b, a).confidence_interval(), sem(b - a), binomtest(7, 10). */
static void test_tokens_have_the_interval_of_scipy(void **state)
{
    const float a[] = {3.5f, 0.25f, 7.125f, 2.0f, 1.5f, 4.75f, 0.5f, 6.25f, 2.875f, 3.0f};
    const float b[] = {3.75f, 0.5f, 6.5f, 2.625f, 1.375f, 5.5f, 0.625f, 6.0f, 3.5f, 3.875f};
    const int64_t predictions[] = {4, 3, 3};
    (void)state;
    const struct token_difference found = measure(a, b, predictions, 3);
    near(found.tokens.value, 0.25);
    near(found.tokens.standard_error, 0.15252504348102605);
    near(found.tokens.interval.low, -0.09503561961671075);
    near(found.tokens.interval.high, 0.5950356196167108);
    near(found.tokens.sign_p, 0.34375);
    near(found.worse_share, 0.7);
}

/* Of ratios: 6/4 and 5/4, and tokens that are compared without dividing. */
static void test_a_ratio_of_tokens(void **state)
{
    const float over_a[] = {2, 4}, under_a[] = {1, 3}, over_b[] = {1, 4}, under_b[] = {2, 2};
    const int64_t predictions[] = {1, 1};
    const struct token_pair pair = {{over_a, under_a}, {over_b, under_b}};
    const struct difference sequence = {.standard_error = 1};
    struct token_difference found;
    struct error error;
    (void)state;
    assert_int_equal(token_difference_measure(&pair, predictions, 2, &sequence, 0, &found, &error), STATUS_OK);
    near(found.tokens.value, -0.25);
    assert_true(found.tokens.greater == 1 && found.tokens.smaller == 1); /* 2 to 0.5, and 4/3 to 2 */
    near(found.worse_share, 0.5);
    near(found.design_effect * found.tokens.standard_error * found.tokens.standard_error, 1);
}

static void test_equal_tokens_have_no_design_effect(void **state)
{
    const float losses[] = {1, 2, 3, 4};
    const int64_t predictions[] = {3, 1};
    (void)state;
    const struct token_difference found = measure(losses, losses, predictions, 2);
    assert_true(found.tokens.value == 0 && found.tokens.interval.low == 0 && found.tokens.interval.high == 0);
    assert_true(found.worse_share == 0 && found.worse_interval.low == 0 && found.worse_interval.high == 0);
    assert_true(isnan(found.design_effect));
    assert_int_equal(measure(losses, losses, predictions, 1).worse_interval.method, RATIO_NONE);
}

/* Two sequences in which every token is worse do not tell that all tokens are, nor in which none is. */
static void test_one_sided_tokens_have_no_interval_of_their_share(void **state)
{
    const float a[] = {1, 2, 3, 4}, b[] = {2, 3, 4, 7};
    const int64_t predictions[] = {3, 1};
    (void)state;
    const struct token_difference worse = measure(a, b, predictions, 2), better = measure(b, a, predictions, 2);
    assert_true(worse.worse_share == 1 && better.worse_share == 0);
    assert_true(isnan(worse.worse_interval.low) && isnan(worse.worse_interval.high));
    assert_true(isnan(better.worse_interval.low) && isnan(better.worse_interval.high));
    assert_true(worse.worse_interval.method == RATIO_NONE && better.worse_interval.method == RATIO_NONE);
}

/* A token's difference is 0.02 plus 0.05 z of its sequence plus 0.1 z of its own: a fifth of the variance is the
 * sequence's, the design effect 1 + 11 / 5 = 3.2. By sequences 95 % hold the mean; by tokens those within 1.96 / sqrt
 * 3.2 standard errors, 73 %. A token is worse with the probability that z is above -0.02 / sqrt 0.0125, 0.571; a
 * sequence's share of 12 is skewed enough to cost a few in a thousand. Bounds: three standard errors of a share of
 * 400, and a mean of 400 design effects, each with a relative standard deviation of sqrt(2 / 19). */
static void test_intervals_where_tokens_vary_together(void **state)
{
    enum { SAMPLES = 400 };
    int by_tokens = 0, by_sequences = 0, shares = 0;
    double design = 0;
    (void)state;
    for (int sample = 0; sample < SAMPLES; sample++) {
        const uint64_t seed = (uint64_t)(sample + 1);
        float a[TOKENS], b[TOKENS];
        int64_t predictions[SEQUENCES];
        for (int i = 0; i < TOKENS; i++) {
            const uint64_t s = (uint64_t)(i / PREDICTIONS);
            predictions[s] = PREDICTIONS;
            a[i] = (float)(3 + random_normal(seed, 0, (uint64_t)i));
            b[i] = (float)((double)a[i] + 0.02 + 0.05 * random_normal(seed, 1, s) +
                           0.1 * random_normal(seed, 2, (uint64_t)i));
        }
        const struct difference sequence = by_sequence(a, b, predictions, SEQUENCES);
        const struct token_difference found = measure(a, b, predictions, SEQUENCES);
        assert_int_equal(found.tokens.interval.method, RATIO_BOOTSTRAP);
        by_tokens += found.tokens.interval.low <= 0.02 && 0.02 <= found.tokens.interval.high;
        by_sequences += sequence.interval.low <= 0.02 && 0.02 <= sequence.interval.high;
        shares += found.worse_interval.low <= 0.571 && 0.571 <= found.worse_interval.high;
        design += found.design_effect / SAMPLES;
    }
    assert_in_range(by_sequences, 367, 393);
    assert_in_range(shares, 364, 393);
    assert_in_range(by_tokens, 264, 318);
    assert_true(fabs(design - 3.2) < 0.3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_worked_example),
        cmocka_unit_test(test_tokens_have_the_interval_of_scipy),
        cmocka_unit_test(test_a_ratio_of_tokens),
        cmocka_unit_test(test_equal_tokens_have_no_design_effect),
        cmocka_unit_test(test_one_sided_tokens_have_no_interval_of_their_share),
        cmocka_unit_test(test_intervals_where_tokens_vary_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
