/* The change log on a real database: its age, and the hole that a restored one has. */
#include "database.h"
#include "store/changes.h"

static void put(struct connection *connection, int64_t id, const char *age)
{
    struct error error;
    OK(connection_execute(connection,
                          "insert into changes (id, at, kind, trajectories, data) values ($1,"
                          " clock_timestamp() - $2::text::interval, 'alert', '{}', '{}')",
                          VALUES(value_integer(id), value_text(age)), NULL, &error));
}

/* Prunes what is older than 30 days, and gives the first id that is left; 0: none. */
static int64_t first_left(struct connection *connection)
{
    struct error error;
    bool more = true;
    int64_t first = 0;
    while (more) OK(changes_prune(connection, 30, &more, &error));
    OK(connection_query_integer(connection, "select min(id) from changes", NO_VALUES, &first, &error));
    return first;
}

static int64_t pruned(struct connection *connection)
{
    struct error error;
    struct change_span span;
    OK(changes_span(connection, 0, &span, &error));
    return span.pruned;
}

static int forget_all(void **state)
{
    struct error error;
    OK(connection_script(connection_of(state), "delete from changes; update change_log set last = 0, pruned = 0",
                         &error));
    return 0;
}

static void test_a_date_in_the_future_keeps_nothing_old(void **state)
{
    struct connection *connection = connection_of(state);
    put(connection, 1, "40 days");
    put(connection, 2, "-400 days");
    put(connection, 3, "35 days");
    put(connection, 4, "-400 days");
    put(connection, 5, "1 day");
    assert_int_equal(first_left(connection), 4); /* nothing behind it is too old */
    assert_int_equal(pruned(connection), 3);
}

static void test_a_date_in_the_future_is_not_removed_for_its_age(void **state)
{
    struct connection *connection = connection_of(state);
    put(connection, 1, "40 days");
    put(connection, 2, "-2 days");
    assert_int_equal(first_left(connection), 2);
    put(connection, 3, "0");
    assert_int_equal(first_left(connection), 2);
}

static void test_what_lies_behind_a_recent_change_stays(void **state)
{
    struct connection *connection = connection_of(state);
    put(connection, 1, "40 days");
    put(connection, 2, "-30 minutes"); /* clocks differ */
    put(connection, 3, "31 days");
    put(connection, 4, "1 day");
    assert_int_equal(first_left(connection), 2);
    assert_int_equal(pruned(connection), 1);
}

static void test_a_log_that_is_too_old_goes_whole(void **state)
{
    struct connection *connection = connection_of(state);
    put(connection, 1, "40 days");
    put(connection, 2, "31 days");
    assert_int_equal(first_left(connection), 0);
    assert_int_equal(pruned(connection), 2);
}

/* ---- a restored database ---- */

static void put_last(struct connection *connection, int64_t id)
{
    struct error error;
    put(connection, id, "0");
    OK(connection_execute(connection, "update change_log set last = $1", VALUES(value_integer(id)), NULL, &error));
}

static void expect_known(struct connection *connection, int64_t after, bool known)
{
    struct error error;
    struct change_span span, read;
    int64_t until;
    json_t *items;
    OK(changes_span(connection, after, &span, &error));
    OK(changes_read(connection, &(struct change_query){.after = after, .limit = 10}, &read, &until, &items, &error));
    json_decref(items);
    if (span.known != known || read.known != known || (changes_check(&span, after, &error) == STATUS_OK) != known)
        fail_msg("%lld is %s", (long long)after, known ? "not known" : "known");
}

/* The ids that a reader at `after` gets, in one call after another, and its last position. */
static int64_t read_all(struct connection *connection, int64_t after, int limit, const char *expected)
{
    struct error error;
    struct change_span span = {.last = INT64_MAX};
    char found[200] = "";
    for (int calls = 0; after < span.last; calls++) {
        json_t *items, *item;
        size_t i;
        if (calls == 20) fail_msg("twenty calls: %s", found);
        OK(changes_read(connection, &(struct change_query){.after = after, .limit = limit}, &span, &after, &items,
                        &error));
        expect_known(connection, after, true); /* the reader may be told this position */
        json_array_foreach(items, i, item)
        {
            const size_t used = strlen(found);
            (void)snprintf(found + used, sizeof found - used, "%s%" JSON_INTEGER_FORMAT, used > 0 ? " " : "",
                           json_integer_value(json_object_get(item, "id")));
        }
        json_decref(items);
    }
    assert_string_equal(found, expected);
    return after;
}

static void test_ids_given_after_the_backup_are_not_given_again(void **state)
{
    struct error error;
    struct connection *connection = connection_of(state);
    for (int id = 1; id <= 3; id++) put_last(connection, id);
    OK(changes_leave_lost(connection, &error));
    const int64_t after = 1000000003;
    for (int64_t known = 0; known <= 3; known++) expect_known(connection, known, true);
    expect_known(connection, after, true);
    for (int64_t id = 4; id < 20; id++) expect_known(connection, id, false);
    expect_known(connection, after - 1, false);
    expect_known(connection, after + 1, false);
    assert_int_equal(read_all(connection, 3, 10, ""), after);
    put_last(connection, after + 1);
    put_last(connection, after + 2);
    expect_known(connection, after, true);
    expect_known(connection, after - 1, false);
    expect_known(connection, 4, false);
    for (int limit = 1; limit < 6; limit++) {
        assert_int_equal(read_all(connection, 0, limit, "1 2 3 1000000004 1000000005"), after + 2);
        assert_int_equal(read_all(connection, 3, limit, "1000000004 1000000005"), after + 2);
        assert_int_equal(read_all(connection, after, limit, "1000000004 1000000005"), after + 2);
    }
}

static void test_a_hole_behind_all_that_was_removed_is_known_too(void **state)
{
    struct error error;
    struct connection *connection = connection_of(state);
    put_last(connection, 1);
    OK(connection_script(connection, "delete from changes; update change_log set pruned = 1", &error));
    OK(changes_leave_lost(connection, &error));
    expect_known(connection, 1, true);
    expect_known(connection, 2, false);
    assert_int_equal(read_all(connection, 1, 10, ""), 1000000001);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_a_date_in_the_future_keeps_nothing_old, forget_all),
        cmocka_unit_test_teardown(test_a_date_in_the_future_is_not_removed_for_its_age, forget_all),
        cmocka_unit_test_teardown(test_what_lies_behind_a_recent_change_stays, forget_all),
        cmocka_unit_test_teardown(test_a_log_that_is_too_old_goes_whole, forget_all),
        cmocka_unit_test_teardown(test_ids_given_after_the_backup_are_not_given_again, forget_all),
        cmocka_unit_test_teardown(test_a_hole_behind_all_that_was_removed_is_known_too, forget_all),
    };
    return cmocka_run_group_tests_name("changes", tests, set_up, tear_down);
}
