/* From losses of tokens to the loss of a data set and its standard error, worked out by hand. */
#include "eval/evaluate.h"
#include "unit.h"

#include <math.h>

static void near(double found, double expected)
{
    if (!(fabs(found - expected) <= 1e-14 * (1 + fabs(expected)))) fail_msg("%.17g instead of %.17g", found, expected);
}

/* Three sequences of 3, 2 and 5 tokens in two chunks; the last token of each predicts nothing. */
static void test_means_weigh_predictions_and_errors_sequences(void **state)
{
    (void)state;
    static const int64_t starts[] = {0, 3, 5}, last[] = {0, 5};
    struct chunk list[] = {
        {.first_token = 0, .first_sequence = 0, .batch = {.tokens = 5, .sequences = 2, .longest = 3, .starts = starts}},
        {.first_token = 5, .first_sequence = 2, .batch = {.tokens = 5, .sequences = 1, .longest = 5, .starts = last}}};
    const struct chunks chunks = {.chunks = list, .count = 2, .sequences = 3, .tokens = 10, .predictions = 7};
    const double losses[] = {1, 2, 0, 5, 0, 2, 3, 4, 3, 0};
    struct evaluate_result found;
    struct error error;
    assert_int_equal(evaluate_summarise(&chunks, losses, &found, &error), STATUS_OK);
    assert_true(found.sequences == 3 && found.tokens == 10 && found.predictions == 7);
    near(found.sequence_losses[0], 1.5);
    near(found.sequence_losses[1], 5);
    near(found.sequence_losses[2], 3);
    assert_true(found.sequence_predictions[0] == 2 && found.sequence_predictions[1] == 1 &&
                found.sequence_predictions[2] == 4);
    near(found.loss, 20.0 / 7);
    /* what each sequence's sum is off by: 3 - 40/7, 5 - 20/7, 12 - 80/7, that is (-19, 15, 4) / 7 */
    /* each over 1 - w / 7, w = 2, 1, 4: (-19 / 5, 15 / 6, 4 / 3); 49 / 21 - 1 degrees */
    near(found.loss_stderr, sqrt((3.8 * 3.8 + 2.5 * 2.5 + 16.0 / 9) * 2 / 3) / 7);
    near(found.loss_degrees, 4.0 / 3);
    evaluate_result_reset(&found);
}

static void test_one_sequence_has_no_standard_error(void **state)
{
    (void)state;
    static const int64_t starts[] = {0, 3};
    struct chunk list[] = {{.batch = {.tokens = 3, .sequences = 1, .longest = 3, .starts = starts}}};
    const struct chunks chunks = {.chunks = list, .count = 1, .sequences = 1, .tokens = 3, .predictions = 2};
    const double losses[] = {1, 2, 0};
    struct evaluate_result found;
    struct error error;
    assert_int_equal(evaluate_summarise(&chunks, losses, &found, &error), STATUS_OK);
    near(found.loss, 1.5);
    assert_true(isnan(found.loss_stderr));
    evaluate_result_reset(&found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_means_weigh_predictions_and_errors_sequences),
        cmocka_unit_test(test_one_sequence_has_no_standard_error),
    };
    return cmocka_run_group_tests_name("evaluate", tests, NULL, NULL);
}
