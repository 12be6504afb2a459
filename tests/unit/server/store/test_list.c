/* Pages of lists: each item once, whatever the size of the pages, and bounds and cursors that are none. */
#include "database.h"
#include "store/trajectories.h"

enum { COUNT = 7 };
#define LETTER "\xf0\x9d\x84\x9e"

static json_t *list(struct connection *connection, int limit, const char *cursor)
{
    struct error error;
    json_t *document;
    const struct page page = {.limit = limit, .cursor = cursor};
    OK(trajectory_list(connection, false, &LIST_FILTER_ANY, &page, &document, &error));
    return document;
}

/* Names from "t7" down to "t1", in pages of `limit`. */
static void read_by_pages(struct connection *connection, int limit)
{
    char cursor[32] = "", expected[16];
    int seen = 0;
    for (bool more = true; more;) {
        json_t *document = list(connection, limit, seen == 0 ? NULL : cursor);
        const json_t *items = json_object_get(document, "items");
        const int left = COUNT - seen;
        assert_int_equal(json_array_size(items), left < limit ? left : limit);
        for (size_t i = 0; i < json_array_size(items); i++) {
            (void)snprintf(expected, sizeof expected, "t%d", COUNT - seen++);
            assert_string_equal(text_at(json_array_get(items, i), "name"), expected);
        }
        more = seen < COUNT;
        assert_int_equal(json_is_string(json_object_get(document, "next")), more); /* none after a full last page */
        (void)snprintf(cursor, sizeof cursor, "%s", text_at(document, "next"));
        json_decref(document);
    }
}

static void test_every_item_is_on_one_page(void **state)
{
    struct connection *connection = connection_of(state);
    struct error error;
    for (int i = 1; i <= COUNT; i++) {
        struct store_id id;
        char name[16];
        (void)snprintf(name, sizeof name, "t%d", i);
        OK(trajectory_ensure(connection, name, &id, NULL, &error));
    }
    for (int limit = 1; limit <= COUNT + 1; limit++) read_by_pages(connection, limit);
}

static void test_a_page_has_a_hundred_items_where_nothing_is_said(void **state)
{
    struct connection *connection = connection_of(state);
    struct error error;
    OK(connection_execute(connection,
                          "insert into trajectories (name) select 'many' || i from generate_series(1, 120) i",
                          NO_VALUES, NULL, &error));
    json_t *usual = list(connection, 0, NULL), *all = list(connection, 1000, NULL);
    assert_int_equal(json_array_size(json_object_get(usual, "items")), 100);
    assert_int_equal(json_array_size(json_object_get(all, "items")), 120 + COUNT);
    json_decref(usual);
    json_decref(all);
}

static void test_bounds_and_cursors_are_checked(void **state)
{
    (void)state;
    static const int limits[] = {-1, 1001, INT32_MIN, INT32_MAX};
    static const char *const cursors[] = {"0",       "-3", "+3", " 3", "3 ", "3x", "x", "1.5", "99999999999999999999",
                                          "1 or 1=1"};
    struct error error;
    int64_t limit, before;
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        GIVES(STATUS_INVALID, page_read(&(struct page){.limit = limits[i]}, &limit, &before, &error));
        assert_string_equal(error.pointer, "/limit");
    }
    for (size_t i = 0; i < sizeof cursors / sizeof cursors[0]; i++) {
        GIVES(STATUS_INVALID, page_read(&(struct page){.cursor = cursors[i]}, &limit, &before, &error));
        assert_string_equal(error.pointer, "/cursor");
    }
    OK(page_read(&(struct page){.limit = 1000, .cursor = "17"}, &limit, &before, &error));
    assert_true(limit == 1000 && before == 17);
    OK(page_read(&(struct page){.limit = 1, .cursor = ""}, &limit, &before, &error));
    assert_true(limit == 1 && before == INT64_MAX);
}

/* A name has up to 200 characters, of four bytes each: these differ in the last one. */
static void test_the_longest_names_are_in_order(void **state)
{
    struct connection *connection = connection_of(state);
    struct error error;
    char cursor[32] = "";
    OK(connection_execute(connection,
                          "insert into trajectories (name) select repeat('" LETTER "', 199) || e from"
                          " unnest(array['a', 'b', 'c']) e",
                          NO_VALUES, NULL, &error));
    for (const char *last = "abc"; *last != '\0'; last++) {
        const struct page page = {.limit = 1, .sort = "name", .cursor = cursor};
        const struct list_filter filter = {.name = LETTER "*", .step_to = INT64_MAX, .created_to = INT64_MAX};
        json_t *document;
        OK(trajectory_list(connection, false, &filter, &page, &document, &error));
        const char *name = text_at(json_array_get(json_object_get(document, "items"), 0), "name");
        assert_int_equal(strlen(name), 199 * strlen(LETTER) + 1);
        assert_int_equal(name[199 * strlen(LETTER)], *last);
        (void)snprintf(cursor, sizeof cursor, "%s", *last == 'c' ? "" : text_at(document, "next"));
        json_decref(document);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_item_is_on_one_page),
        cmocka_unit_test(test_a_page_has_a_hundred_items_where_nothing_is_said),
        cmocka_unit_test(test_the_longest_names_are_in_order),
        cmocka_unit_test(test_bounds_and_cursors_are_checked),
    };
    return cmocka_run_group_tests_name("list", tests, set_up, tear_down);
}
