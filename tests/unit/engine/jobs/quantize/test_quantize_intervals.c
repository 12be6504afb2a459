#include "unit.h"

#include "jobs/quantize/quantize_intervals.h"

#include <math.h>

/* Four sequences of as many predictions. Their t interval of 95 %, three degrees: the mean ± 3.182446 times the
 * deviation over 2. */
#define T_OF_THREE 3.182446305284263

static int64_t predictions[] = {10, 10, 10, 10};

struct values {
    double losses_fp[4], losses_q[4], kl[4], top1[4];
};

static double mean_of(const double *values)
{
    return (values[0] + values[1] + values[2] + values[3]) / 4;
}

static struct quantize_result result_of(struct values *values)
{
    struct quantize_result result = {.sequence_kl = values->kl, .sequence_top1 = values->top1};
    result.fp.sequences = result.q.sequences = 4;
    result.fp.sequence_predictions = result.q.sequence_predictions = predictions;
    result.fp.sequence_losses = values->losses_fp;
    result.q.sequence_losses = values->losses_q;
    result.fp.loss = mean_of(values->losses_fp);
    result.q.loss = mean_of(values->losses_q);
    result.kl = mean_of(values->kl);
    result.top1_agreement = mean_of(values->top1);
    return result;
}

static struct values usual(void)
{
    return (struct values){{3, 3.1, 3.2, 3.3}, {3.1, 3.2, 3.3, 3.4}, {0.01, 0, 0, 0}, {1, 1, 1, 0.9}};
}

/* Without its ends the interval of the agreement would be 0.975 ± 0.0796, that of the divergence 0.0025 ± 0.008. */
static void test_an_interval_ends_where_its_number_does(void **state)
{
    struct values values = usual();
    struct quantize_result result = result_of(&values);
    const struct ratio_interval *found = result.intervals;
    (void)state;
    quantize_intervals(&result);
    assert_true(fabs(found[QUANTIZE_TOP1].low - (0.975 - T_OF_THREE * 0.05 / 2)) < 1e-9);
    assert_true(found[QUANTIZE_TOP1].high <= 1 && found[QUANTIZE_TOP1].high >= 1);
    assert_true(found[QUANTIZE_KL].low >= 0 && found[QUANTIZE_KL].low <= 0);
    assert_true(fabs(found[QUANTIZE_KL].high - (0.0025 + T_OF_THREE * 0.005 / 2)) < 1e-9);
    assert_true(found[QUANTIZE_LOSS_Q].high > result.q.loss && found[QUANTIZE_LOSS_Q].low < result.q.loss);
}

static void test_a_share_of_exactly_one_has_none(void **state)
{
    struct values values = usual();
    values.top1[3] = 1;
    struct quantize_result result = result_of(&values);
    (void)state;
    quantize_intervals(&result);
    assert_int_equal(result.intervals[QUANTIZE_TOP1].method, RATIO_NONE);
    assert_true(isnan(result.intervals[QUANTIZE_TOP1].low) && isnan(result.intervals[QUANTIZE_TOP1].high));
}

/* The draws differ by far more than sequences do: what is quantized has wider intervals with them, full precision the
 * same one. */
static void test_what_lies_between_draws_is_part_of_the_interval(void **state)
{
    struct values values = usual();
    struct quantize_result one = result_of(&values), several = result_of(&values);
    const struct quantize_draws draws = {
        .count = 3, .losses = {2.25, 3.25, 4.25}, .kls = {0, 0.0025, 0.005}, .agreements = {0.95, 0.975, 1}};
    (void)state;
    quantize_intervals(&one);
    quantize_intervals_draws(&draws, &several);
    const struct ratio_interval alone = one.intervals[QUANTIZE_LOSS_Q], all = several.intervals[QUANTIZE_LOSS_Q];
    assert_true(all.high - all.low > 5 * (alone.high - alone.low));
    assert_true(several.intervals[QUANTIZE_TOP1].low < one.intervals[QUANTIZE_TOP1].low);
    const struct ratio_interval fp = one.intervals[QUANTIZE_LOSS_FP], same = several.intervals[QUANTIZE_LOSS_FP];
    assert_true(fabs(fp.low - same.low) < 1e-15 && fabs(fp.high - same.high) < 1e-15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_interval_ends_where_its_number_does),
        cmocka_unit_test(test_a_share_of_exactly_one_has_none),
        cmocka_unit_test(test_what_lies_between_draws_is_part_of_the_interval),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
