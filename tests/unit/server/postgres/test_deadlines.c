/* Deadlines of statements: the database ends what nobody waits for any more, and nothing else. */
#include "server/store/database.h"

enum { ASK_MOST = 100 };

static struct connection *connect_as(void **state, const char *name)
{
    struct error error;
    struct connection *connection;
    OK(connection_new(embedded_conninfo(((struct fixture *)*state)->embedded), name, &connection, &error));
    return connection;
}

static int64_t sessions_of(struct connection *connection, const char *name)
{
    struct error error;
    int64_t count;
    OK(connection_query_integer(connection, "select count(*) from pg_stat_activity where application_name = $1",
                                VALUES(value_text(name)), &count, &error));
    return count;
}

/* The statement takes 25 s, which is below statement_timeout; it is looked for during ten. */
static void test_the_database_ends_what_nobody_waits_for(void **state)
{
    struct error error;
    struct connection *connection = connection_of(state), *other = connect_as(state, "gives up");
    OK(connection_execute(other, "select 1", NO_VALUES, NULL, &error));
    assert_int_equal(sessions_of(connection, "gives up"), 1);
    connection_set_deadline(other, 200);
    GIVES(STATUS_UNAVAILABLE, connection_execute(other, "select pg_sleep(25)", NO_VALUES, NULL, &error));
    assert_non_null(strstr(error.detail, "did not answer in time"));
    for (int i = 0; sessions_of(connection, "gives up") > 0; i++) {
        if (i == ASK_MOST) fail_msg("the database is still at it");
        OK(connection_execute(connection, "select pg_sleep(0.1)", NO_VALUES, NULL, &error));
    }
    connection_free(other);
}

/* For longer than the database takes to look whether it has gone. */
static void test_who_waits_gets_the_answer(void **state)
{
    struct error error;
    struct connection *other = connect_as(state, "waits");
    connection_set_deadline(other, 60000);
    OK(connection_execute(other, "select pg_sleep(2.5)", NO_VALUES, NULL, &error));
    assert_int_equal(sessions_of(other, "waits"), 1);
    connection_free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_database_ends_what_nobody_waits_for),
        cmocka_unit_test(test_who_waits_gets_the_answer),
    };
    return cmocka_run_group_tests_name("deadlines", tests, set_up, tear_down);
}
