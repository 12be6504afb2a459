#include "unit.h"

#include "runs/parameter_grid.h"

#include <stdio.h>
#include <stdlib.h>
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
    assert_string_equal(parameter_grid_pointer(grid, "/params/method/bits", out, sizeof out), "");
    assert_string_equal(out, "/grid/method.bits");
    assert_string_equal(parameter_grid_pointer(grid, "/params/method/bits_more", out, sizeof out), "");
    assert_string_equal(out, "/base/method/bits_more");
    assert_string_equal(parameter_grid_pointer(grid, "/params/method/name", out, sizeof out), "");
    assert_string_equal(out, "/base/method/name");
    assert_string_equal(parameter_grid_pointer(grid, "", out, sizeof out), "");
    assert_string_equal(out, "");
    json_decref(grid);
    grid = json_loads("{\"method\":[{}],\"method.bits\":[1]}", 0, NULL);
    assert_string_equal(parameter_grid_pointer(grid, "/params/method/scales/type", out, sizeof out), "scales/type");
    assert_string_equal(out, "/grid/method");
    assert_string_equal(parameter_grid_pointer(grid, "/params/method/bits", out, sizeof out), "");
    assert_string_equal(out, "/grid/method.bits");
    json_decref(grid);
}

/* `more` NULL: none. Out: the compact text, or the pointer of the first fault; owned. */
static char *lay(const char *base_text, const char *grid_text, const char *more_text)
{
    struct faults faults = {0};
    struct error error;
    json_t *base = json_loads(base_text, 0, NULL), *grid = json_loads(grid_text, 0, NULL), *out;
    json_t *more = more_text != NULL ? json_loads(more_text, 0, NULL) : NULL;
    const enum status status = parameter_grid_lay(base, grid, more, &faults, &out, &error);
    assert_int_equal(status, faults.count == 0 ? STATUS_OK : STATUS_INVALID);
    char *text = status == STATUS_OK ? json_dumps(out, JSON_COMPACT) : strdup(faults.items[0].pointer);
    json_decref(out);
    json_decref(more);
    json_decref(base);
    json_decref(grid);
    return text;
}

static const struct {
    const char *base, *grid, *more, *out;
} laid[] = {
    /* objects are laid over base's, and what both have is the grid's */
    {"{'m':{'b':3,'g':32}}", "{'m':[{'n':1},{'n':2,'b':4}]}", NULL,
     "{'m':[{'b':3,'g':32,'n':1},{'b':4,'g':32,'n':2}]}"},
    {"{'m':{'o':{'x':1,'y':2}}}", "{'m':[{'o':{'y':3}}]}", NULL, "{'m':[{'o':{'x':1,'y':3}}]}"},
    {"{'m':{'o':{'x':1}}}", "{'m.o':[{'y':3}]}", NULL, "{'m.o':[{'x':1,'y':3}]}"},
    {"{'m':{'n':1}}", "{'m.b':[2]}", NULL, "{'m.b':[2]}"},
    /* what is laid stays so */
    {"{'m':{'b':3}}", "{'m':[{'b':3,'n':1}]}", NULL, "{'m':[{'b':3,'n':1}]}"},
    /* a field comes behind those that it is a part of, and all others stay in their order */
    {"{}", "{'z':[0],'m.b.c':[1],'a':[2],'m.b':[{}],'m':[{}]}", NULL,
     "{'z':[0],'m':[{}],'m.b':[{}],'m.b.c':[1],'a':[2]}"},
    {"{}", "{'mb':[1],'m':[{}]}", NULL, "{'mb':[1],'m':[{}]}"},
    {"{}", "{'checkpoint':{'trajectory':'t'}}", NULL, "{'checkpoint':{'trajectory':'t'}}"},
    /* given twice */
    {"{'c':1}", "{'c':[1]}", NULL, "/grid/c"},
    {"{'c':null}", "{'c':[1]}", NULL, "/grid/c"},
    {"{'c':1}", "{'c':{'trajectory':'t'}}", NULL, "/grid/c"},
    {"{'c':{}}", "{'c':{'trajectory':'t'}}", NULL, "/grid/c"},
    {"{'c':{}}", "{'c':[{},null]}", NULL, "/grid/c"},
    {"{'c':1}", "{'c':[{}]}", NULL, "/grid/c"},
    {"{'m':{'b':3}}", "{'m.b':[3]}", NULL, "/grid/m.b"},
    {"{}", "{'m.b':[3],'m':[{},{'b':4}]}", NULL, "/grid/m"},
    {"{}", "{'m':[{},null],'m.b':[3]}", NULL, "/grid/m"},
    {"{}", "{'m':[{'b':1}],'m.b.c':[3]}", NULL, "/grid/m"},
    {"{}", "{'m':[{'b':{'c':1}}],'m.b.c':[3]}", NULL, "/grid/m"},
    {"{}", "{'m':[{'b':{'d':1}}],'m.b.c':[3]}", NULL, "{'m':[{'b':{'d':1}}],'m.b.c':[3]}"},
    /* further values of a stored sweep */
    {"{'m':{'g':32}}", "{'m':[{'n':1}],'a':[1]}", "{'m':[{'n':2}]}", "{'m':[{'g':32,'n':2}]}"},
    {"{'m':{'g':32}}", "{'m':[{'n':1}]}", "{'m':[null]}", "/grid/m"},
    {"{'c':1}", "{'c':[1]}", "{'c':[2]}", "{'c':[2]}"},
    {"{}", "{'m':[{'n':1,'b':4}],'m.b':[3]}", "{'m.b':[2]}", "{'m.b':[2]}"},
    {"{}", "{'m':[{'n':1}],'m.b':[3]}", "{'m':[{'n':2,'b':3}]}", "/grid/m"},
};

static char *quoted(const char *text)
{
    char *out = text != NULL ? strdup(text) : NULL;
    for (char *at = out; at != NULL && *at != '\0'; at++)
        if (*at == '\'') *at = '"';
    return out;
}

static void test_a_grid_is_laid_over_its_base(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof laid / sizeof laid[0]; i++) {
        char *base = quoted(laid[i].base), *grid = quoted(laid[i].grid), *more = quoted(laid[i].more);
        char *wanted = quoted(laid[i].out), *out = lay(base, grid, more);
        assert_string_equal(out, wanted);
        free(base);
        free(grid);
        free(more);
        free(wanted);
        free(out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists_are_multiplied_out_first_key_slowest),
        cmocka_unit_test(test_no_grid_is_one_run),
        cmocka_unit_test(test_objects_on_the_way_are_made),
        cmocka_unit_test(test_faults_point_into_the_grid),
        cmocka_unit_test(test_pointers_go_back_to_grid_or_base),
        cmocka_unit_test(test_a_grid_is_laid_over_its_base),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
