#include "unit.h"

#include "store/measured.h"
#include "store/measurements.h"

#include <math.h>
#include <string.h>

static void test_known_names(void **state)
{
    (void)state;
    assert_true(measured_known("delta") && measured_known("learning_rate") && measured_known("mean_accuracy_norm_change"));
    assert_false(measured_known("") || measured_known("Delta") || measured_known("delta ") || measured_known("step"));
}

static void test_mistyped_names_have_a_nearest(void **state)
{
    static const struct {
        const char *typed, *meant; /* NULL: nothing is near */
    } cases[] = {
        {"dleta", "delta"},
        {"detla", "delta"},
        {"los_fp", "loss_fp"},
        {"loss-q", "loss_q"},
        {"top_eigenvalues", "top_eigenvalue"},
        {"mean_acuracy", "mean_accuracy"},
        {"kl_divergence", NULL},
        {"", NULL},
        {"a name far longer than forty characters, which no measured number has", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *nearest = measured_nearest(cases[i].typed);
        if (cases[i].meant == NULL)
            assert_null(nearest);
        else
            assert_string_equal(nearest, cases[i].meant);
    }
}

static void test_a_run_cannot_measure_what_has_no_name(void **state)
{
    struct error error;
    struct measurements list = {0};
    struct measurement item = {.value = 1, .low = NAN, .high = NAN, .metric = "dleta"};
    (void)state;
    assert_int_equal(measurements_add(&list, &item, &error), STATUS_INTERNAL);
    memcpy(item.metric, "delta", 6);
    assert_int_equal(measurements_add(&list, &item, &error), STATUS_OK);
    assert_int_equal(list.count, 1);
    measurements_reset(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_names),
        cmocka_unit_test(test_mistyped_names_have_a_nearest),
        cmocka_unit_test(test_a_run_cannot_measure_what_has_no_name),
    };
    return cmocka_run_group_tests_name("measured", tests, NULL, NULL);
}
