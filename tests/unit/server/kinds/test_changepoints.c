#include "base/random.h"
#include "kinds/changepoints.h"
#include "unit.h"

#include <math.h>

/* A series with noise, and a jump in its middle. */
static json_t *series_of(int64_t count, double jump, uint64_t stream)
{
    json_t *points = json_array();
    for (int64_t i = 0; i < count; i++) {
        const double y = 0.1 * random_normal(7, stream, (uint64_t)i) + (i >= count / 2 ? jump : 0);
        json_array_append_new(points, json_pack("{si sf}", "x", (int)i, "y", y));
    }
    return json_pack("{so}", "points", points);
}

/* Tests the series at `place` of a list as one of them. */
static json_t *tested(const json_t *list, size_t place, struct changepoints_tests *tests)
{
    struct changepoints_series series;
    struct error error;
    const json_t *points = json_object_get(json_array_get(list, place), "points");
    json_t *row = json_object();
    assert_int_equal(changepoints_take(points, 0, &series, &error), STATUS_OK);
    assert_int_equal(changepoints_test(points, &series, tests, row, &error), STATUS_OK);
    changepoints_reset(&series);
    return row;
}

/* As many simulations are drawn as a change among many series needs to be told. */
static void test_a_change_is_told_among_many_series(void **state)
{
    enum { SERIES = 60 };
    json_t *list = json_array();
    struct changepoints_tests tests;
    struct error error;
    (void)state;
    for (int i = 0; i < SERIES; i++) json_array_append_new(list, series_of(24, i == 5 ? 3 : 0, (uint64_t)i));
    assert_int_equal(changepoints_tests_of(list, 0, &tests, &error), STATUS_OK);
    assert_int_equal(tests.count, SERIES);
    json_t *changed = tested(list, 5, &tests), *other = tested(list, 6, &tests);
    const double p = json_number_value(json_object_get(changed, "p_value"));
    assert_true(p * SERIES <= 0.05);
    assert_true(fabs(json_number_value(json_object_get(changed, "adjusted_p_value")) - p * SERIES) < 1e-12);
    assert_true(json_is_object(json_object_get(changed, "change")));
    assert_true(json_is_null(json_object_get(other, "change")));
    json_decref(changed);
    json_decref(other);
    changepoints_tests_reset(&tests);
    json_decref(list);
}

/* Series with too few points or too many are not tested, nor counted among the tests. */
static void test_what_cannot_be_tested_does_not_count(void **state)
{
    const int64_t counts[] = {CHANGEPOINT_LEAST - 1, CHANGEPOINT_LEAST, CHANGEPOINT_MOST, CHANGEPOINT_MOST + 1};
    json_t *list = json_array();
    struct changepoints_tests tests;
    struct error error;
    (void)state;
    for (size_t i = 0; i < 4; i++) json_array_append_new(list, series_of(counts[i], 0, i));
    assert_int_equal(changepoints_tests_of(list, 0, &tests, &error), STATUS_OK);
    assert_int_equal(tests.count, 2);
    for (size_t i = 0; i < 4; i++) {
        json_t *row = tested(list, i, &tests);
        assert_int_equal(json_integer_value(json_object_get(row, "points")), counts[i]);
        assert_int_equal(json_is_number(json_object_get(row, "p_value")), i == 1 || i == 2);
        json_decref(row);
    }
    changepoints_tests_reset(&tests);
    json_decref(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_change_is_told_among_many_series),
        cmocka_unit_test(test_what_cannot_be_tested_does_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
