/* Lists of a table of parameters: their items and bounds, and the references in them. */
#include "unit.h"

#include "schema/schema.h"

static const char *const colors[] = {"red", "green", NULL};

struct lists {
    struct param_list counts, shares, names, colors;
};

static const struct param count_item = {.type = PARAM_INTEGER, .minimum = 1, .maximum = 9};
static const struct param share_item = {.type = PARAM_NUMBER};
static const struct param checkpoint_item = {.type = PARAM_CHECKPOINT};
static const struct param color_item = {.type = PARAM_CHOICE, .choices = colors};
static const struct param lists_table[] = {
    {.name = "counts",
     .type = PARAM_LIST,
     .offset = offsetof(struct lists, counts),
     .item = &count_item,
     .minimum = 1,
     .maximum = 3},
    {.name = "shares",
     .type = PARAM_LIST,
     .offset = offsetof(struct lists, shares),
     .item = &share_item,
     .fallback = "[1, 0.5]"},
    {.name = "names",
     .type = PARAM_LIST,
     .offset = offsetof(struct lists, names),
     .item = &checkpoint_item,
     .fallback = "null",
     .nullable = true},
    {.name = "colors",
     .type = PARAM_LIST,
     .offset = offsetof(struct lists, colors),
     .item = &color_item,
     .fallback = "[]"},
    {0},
};

static enum status visit_upper(void *context, enum param_type type, const char *pointer, json_t *value,
                               struct error *error)
{
    (void)error;
    assert_int_equal(type, PARAM_CHECKPOINT);
    assert_string_equal(pointer, *(int *)context == 0 ? "/params/names/0" : "/params/names/1");
    ++*(int *)context;
    return json_string_set(value, "X") == 0 ? STATUS_OK : STATUS_NO_MEMORY;
}

static void test_lists_are_filled_and_their_references_visited(void **state)
{
    struct schema_filled filled;
    struct error error;
    int visits = 0;
    json_t *document =
        json_loads("{\"counts\": [3.0, 9, 1], \"names\": [\"a\", \"b\"], \"colors\": [\"green\"]}", 0, NULL);
    (void)state;
    assert_int_equal(schema_fill(lists_table, sizeof(struct lists), document, "/params", NULL, &filled, &error),
                     STATUS_OK);
    const struct lists *lists = filled.params;
    assert_true(lists->counts.count == 3 && lists->counts.integers[0] == 3 && lists->counts.integers[1] == 9);
    assert_true(lists->shares.count == 2 && lists->shares.numbers[0] == 1 && lists->shares.numbers[1] == 0.5);
    assert_true(lists->names.count == 2 && lists->colors.count == 1 && lists->colors.choices[0] == 1);
    assert_string_equal(lists->names.texts[1], "b");
    assert_true(json_is_real(json_array_get(json_object_get(document, "shares"), 0)));
    assert_true(json_is_integer(json_array_get(json_object_get(document, "counts"), 0)));
    assert_int_equal(schema_references(lists_table, document, "/params", visit_upper, &visits, &error), STATUS_OK);
    assert_int_equal(visits, 2);
    assert_string_equal(json_string_value(json_array_get(json_object_get(document, "names"), 0)), "X");
    schema_filled_reset(&filled);
    json_decref(document);
}

static void test_faults_of_lists_point_at_the_item(void **state)
{
    static const struct {
        const char *text, *pointer;
    } cases[] = {
        {"{\"counts\": [1, 0]}", "/params/counts/1"},
        {"{\"counts\": []}", "/params/counts"},
        {"{\"counts\": [1, 2, 3, 4]}", "/params/counts"},
        {"{\"counts\": 3}", "/params/counts"},
        {"{\"counts\": [null]}", "/params/counts/0"},
        {"{\"counts\": [1], \"names\": [\"\"]}", "/params/names/0"},
        {"{\"counts\": [1], \"colors\": [\"red\", 1]}", "/params/colors/1"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct faults faults = {0};
        struct schema_filled filled;
        struct error error;
        json_t *document = json_loads(cases[i].text, 0, NULL);
        assert_int_equal(schema_fill(lists_table, sizeof(struct lists), document, "/params", &faults, &filled, &error),
                         STATUS_INVALID);
        assert_int_equal(faults.count, 1);
        assert_string_equal(faults.items[0].pointer, cases[i].pointer);
        json_decref(document);
    }
}

static void test_bounds_are_told_in_digits_that_can_be_copied(void **state)
{
    static const struct param pair[] = {
        {.name = "seed", .type = PARAM_INTEGER, .fallback = "0", .minimum = 0, .maximum = 9007199254740992},
        {.name = "grid",
         .type = PARAM_LIST,
         .offset = 16,
         .item = &count_item,
         .fallback = "[1, 1]",
         .minimum = 2,
         .maximum = 2},
        {0},
    };
    struct faults faults = {0};
    struct schema_filled filled;
    struct error error;
    json_t *document = json_loads("{\"seed\": -1234567890123456789, \"grid\": []}", 0, NULL);
    (void)state;
    assert_int_equal(schema_fill(pair, 64, document, "/params", &faults, &filled, &error), STATUS_INVALID);
    assert_int_equal(faults.count, 2);
    assert_string_equal(faults.items[0].detail, "must be from 0 to 9007199254740992, found -1234567890123456789");
    assert_string_equal(faults.items[1].detail, "must have 2 items, found 0");
    json_decref(document);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists_are_filled_and_their_references_visited),
        cmocka_unit_test(test_faults_of_lists_point_at_the_item),
        cmocka_unit_test(test_bounds_are_told_in_digits_that_can_be_copied),
    };
    return cmocka_run_group_tests_name("schema of lists", tests, NULL, NULL);
}
