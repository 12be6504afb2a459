#include "unit.h"

#include "kinds/measure.h"
#include "kinds/metrics.h"

#include <math.h>
#include <string.h>

static void test_known_names(void **state)
{
    (void)state;
    assert_true(metrics_find("delta") != NULL && metrics_find("learning_rate") != NULL &&
                metrics_find("mean_accuracy_norm_change") != NULL);
    assert_false(metrics_find("") != NULL || metrics_find("Delta") != NULL || metrics_find("delta ") != NULL ||
                 metrics_find("step") != NULL);
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
        const char *nearest = metrics_nearest(cases[i].typed);
        if (cases[i].meant == NULL)
            assert_null(nearest);
        else
            assert_string_equal(nearest, cases[i].meant);
    }
}

/* Every metric is told whole, and once. */
static void test_the_list(void **state)
{
    struct metric all[METRICS_MOST];
    const size_t count = metrics_list(all);
    (void)state;
    assert_in_range(count, 38, METRICS_MOST);
    for (size_t i = 0; i < count; i++) {
        const struct result_metric *about = all[i].about;
        assert_true(about->label != NULL && about->help != NULL);
        assert_ptr_equal(metrics_find(about->name), about);
        assert_true(all[i].kind_count > 0 || strcmp(about->name, "learning_rate") == 0);
    }
}

struct thing {
    double value, error, low, high;
    bool there;
    double part;
    int64_t count;
};

static void test_measuring_by_rows(void **state)
{
    const struct result_metric *delta = metrics_find("delta"), *loss = metrics_find("loss_fp");
    const struct result_field inner[] = {{.name = "part", .type = RESULT_NUMBER, .metric = delta}, {0}};
    const struct result_shape part = {.fields = inner};
    const struct result_field fields[] = {
        {.name = "loss",
         .type = RESULT_NUMBER,
         .metric = loss,
         .spread = RESULT_STDERR,
         .spread_low = offsetof(struct thing, error),
         .spread_count = offsetof(struct thing, count)},
        {.name = "delta",
         .type = RESULT_NUMBER,
         .metric = delta,
         .spread = RESULT_BETWEEN,
         .spread_low = offsetof(struct thing, low),
         .spread_high = offsetof(struct thing, high)},
        {.name = "sum", .type = RESULT_NUMBER, .metric = delta, .unkept = true},
        {.type = RESULT_MERGED,
         .offset = offsetof(struct thing, part),
         .shape = &part,
         .absence = RESULT_NULL,
         .has_when = true,
         .when = offsetof(struct thing, there)},
        {0},
    };
    const struct result_shape shape = {.fields = fields};
    const struct measurement series = {.method = "gptq", .label = "gptq 4-bit", .bits = 4, .dataset = "d"};
    struct thing thing = {.value = 2, .error = 0.5, .low = 1, .high = 4, .part = 8, .count = 5};
    struct measurements list = {0};
    struct error error;
    (void)state;
    assert_int_equal(measure_result(&shape, &thing, &series, &list, &error), STATUS_OK);
    assert_int_equal(list.count, 2);
    assert_string_equal(list.items[0].metric, "loss_fp");
    const double half = 2.77644510519779 * 0.5; /* Student's t of 4 degrees */
    assert_true(fabs(list.items[0].low - (2 - half)) < 1e-12 && fabs(list.items[0].high - (2 + half)) < 1e-12);
    assert_true(list.items[0].method[0] == 0 && list.items[0].label[0] == 0 && list.items[0].bits == 0);
    assert_true(list.items[1].low == 1 && list.items[1].high == 4 && list.items[1].bits == 4);
    assert_string_equal(list.items[1].dataset, "d");
    thing.there = true;
    thing.value = NAN;
    assert_int_equal(measure_result(&shape, &thing, &series, &list, &error), STATUS_OK);
    assert_int_equal(list.count, 3);
    assert_true(list.items[2].value == 8 && isnan(list.items[2].low));
    thing = (struct thing){.value = 2, .error = NAN, .count = 1};
    assert_int_equal(measure_result(&shape, &thing, &series, &list, &error), STATUS_OK);
    assert_true(list.items[3].value == 2 && isnan(list.items[3].low) && isnan(list.items[3].high));
    measurements_reset(&list);
}

static void test_a_run_cannot_measure_what_no_kind_lists(void **state)
{
    static const struct result_metric unknown = {.name = "dleta"}, twin = {.name = "delta"};
    const struct result_metric *const wrong[] = {&unknown, &twin};
    const double value = 1;
    (void)state;
    for (int i = 0; i < 2; i++) {
        const struct result_field fields[] = {{.name = "delta", .type = RESULT_NUMBER, .metric = wrong[i]}, {0}};
        const struct result_shape shape = {.fields = fields};
        const struct measurement series = {0};
        struct measurements list = {0};
        struct error error;
        assert_int_equal(measure_result(&shape, &value, &series, &list, &error), STATUS_INTERNAL);
        assert_int_equal(list.count, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_names),
        cmocka_unit_test(test_mistyped_names_have_a_nearest),
        cmocka_unit_test(test_the_list),
        cmocka_unit_test(test_measuring_by_rows),
        cmocka_unit_test(test_a_run_cannot_measure_what_no_kind_lists),
    };
    return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
