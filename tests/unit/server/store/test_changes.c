/* The age of the change log, on a real database. */
#include "database.h"
#include "store/changes.h"

static void put(struct connection *connection, int id, const char *age)
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
    OK(changes_span(connection, &span, &error));
    return span.pruned;
}

static int forget_all(void **state)
{
    struct error error;
    OK(connection_script(connection_of(state), "delete from changes; update change_log set pruned = 0", &error));
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_a_date_in_the_future_keeps_nothing_old, forget_all),
        cmocka_unit_test_teardown(test_a_date_in_the_future_is_not_removed_for_its_age, forget_all),
        cmocka_unit_test_teardown(test_what_lies_behind_a_recent_change_stays, forget_all),
        cmocka_unit_test_teardown(test_a_log_that_is_too_old_goes_whole, forget_all),
    };
    return cmocka_run_group_tests_name("changes", tests, set_up, tear_down);
}
