#include "unit.h"

#include "runs/parameter_grid.h"

#include <stdio.h>
#include <string.h>

static enum status expand(const char *base_text, const char *grid_text, struct faults *faults, json_t **out)
{
    struct error error;
    json_t *base = json_loads(base_text, 0, NULL), *grid = json_loads(grid_text, 0, NULL);
    const enum status status = parameter_grid_expand(NULL, base, grid, false, faults, out, &error);
    json_decref(base);
    json_decref(grid);
    return status;
}

static void test_lists_are_multiplied_out_first_key_slowest(void **state)
{
    struct faults faults = {0};
    json_t *runs;
    (void)state;
    assert_int_equal(expand("{\"m\":{\"n\":1}}", "{\"a\":[1,2],\"m.b\":[3,4]}", &faults, &runs), STATUS_OK);
    char *text = json_dumps(runs, JSON_COMPACT | JSON_SORT_KEYS);
    assert_string_equal(
        text, "[{\"a\":1,\"m\":{\"b\":3,\"n\":1}},{\"a\":1,\"m\":{\"b\":4,\"n\":1}},{\"a\":2,\"m\":{\"b\":3,\"n\":1}},"
              "{\"a\":2,\"m\":{\"b\":4,\"n\":1}}]");
    free(text);
    json_decref(runs);
}

static void test_no_grid_is_one_run(void **state)
{
    struct faults faults = {0};
    json_t *runs;
    (void)state;
    assert_int_equal(expand("{\"x\":1}", "{}", &faults, &runs), STATUS_OK);
    assert_int_equal(json_array_size(runs), 1);
    json_decref(runs);
}

static void test_objects_on_the_way_are_made(void **state)
{
    struct faults faults = {0};
    json_t *runs;
    (void)state;
    assert_int_equal(expand("{}", "{\"a.b.c\":[1]}", &faults, &runs), STATUS_OK);
    char *text = json_dumps(runs, JSON_COMPACT);
    assert_string_equal(text, "[{\"a\":{\"b\":{\"c\":1}}}]");
    free(text);
    json_decref(runs);
}

static void expect_fault(const char *base, const char *grid, const char *pointer)
{
    struct faults faults = {0};
    json_t *runs;
    assert_int_equal(expand(base, grid, &faults, &runs), STATUS_INVALID);
    assert_null(runs);
    assert_string_equal(faults.items[0].pointer, pointer);
}

static void test_faults_point_into_the_grid(void **state)
{
    char many[8192] = "{\"a\":[0";
    (void)state;
    expect_fault("{}", "{\"a\":1}", "/grid/a");
    expect_fault("{}", "{\"a\":[]}", "/grid/a");
    expect_fault("{\"a\":1}", "{\"a.b\":[1]}", "/grid/a.b");
    expect_fault("{}", "{\"a.\":[1]}", "/grid/a.");
    expect_fault("{}", "{\".a\":[1]}", "/grid/.a");
    for (int i = 0; i < PARAMETER_GRID_MOST; i++)
        (void)snprintf(many + strlen(many), sizeof many - strlen(many), ",%d", i);
    (void)snprintf(many + strlen(many), sizeof many - strlen(many), "]}");
    expect_fault("{}", many, "/grid/a");
}

static void test_pointers_go_back_to_grid_or_base(void **state)
{
    char out[160];
    json_t *grid = json_loads("{\"method.bits\":[1]}", 0, NULL);
    (void)state;
    parameter_grid_pointer(grid, "/params/method/bits", out, sizeof out);
    assert_string_equal(out, "/grid/method.bits");
    parameter_grid_pointer(grid, "/params/method/name", out, sizeof out);
    assert_string_equal(out, "/base/method/name");
    parameter_grid_pointer(grid, "", out, sizeof out);
    assert_string_equal(out, "");
    json_decref(grid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists_are_multiplied_out_first_key_slowest),
        cmocka_unit_test(test_no_grid_is_one_run),
        cmocka_unit_test(test_objects_on_the_way_are_made),
        cmocka_unit_test(test_faults_point_into_the_grid),
        cmocka_unit_test(test_pointers_go_back_to_grid_or_base),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
