/* Statements whose plans a session keeps: prepared once, told apart by their texts and by the types of their
 * parameters, gone with their session, and with the answers and errors that they have without. */
#include "server/store/database.h"

#include "postgres/kept_plans.h"

static const char doubled[] = CONNECTION_KEEPS_PLAN "select $1 * 2";

static double answer(struct connection *connection, const char *sql, struct value value)
{
    struct error error;
    struct rows *rows;
    OK(connection_query_one(connection, sql, &value, 1, &rows, &error));
    const double number = rows_double(rows, 0, 0);
    rows_free(rows);
    return number;
}

static int64_t prepared(struct connection *connection)
{
    struct error error;
    int64_t count;
    OK(connection_query_integer(connection, "select count(*) from pg_prepared_statements", NO_VALUES, &count, &error));
    return count;
}

static struct connection *connect_as(void **state, const char *name)
{
    struct error error;
    struct connection *connection;
    OK(connection_new(embedded_conninfo(((struct fixture *)*state)->embedded), name, &connection, &error));
    return connection;
}

static void test_a_plan_is_made_once_and_for_its_types_alone(void **state)
{
    static const char half[] = CONNECTION_KEEPS_PLAN "select $1 / 2.0", plain[] = "select $1 * 3";
    struct connection *connection = connect_as(state, "keeps");
    for (int i = 0; i < 10; i++) assert_float_equal(answer(connection, doubled, value_integer(i)), (float)(2 * i), 0);
    assert_int_equal(prepared(connection), 1);
    assert_float_equal(answer(connection, doubled, value_double(0.25)), 0.5, 0); /* an integer's plan would refuse it */
    assert_float_equal(answer(connection, half, value_integer(7)), 3.5, 0);
    assert_float_equal(answer(connection, plain, value_integer(7)), 21, 0);
    assert_float_equal(answer(connection, doubled, value_integer(8)), 16, 0);
    assert_int_equal(prepared(connection), 2);
    connection_free(connection);
}

static void test_plans_go_with_their_session(void **state)
{
    struct error error;
    struct connection *connection = connect_as(state, "ended");
    assert_float_equal(answer(connection, doubled, value_integer(4)), 8, 0);
    OK(connection_execute(connection_of(state),
                          "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'ended'",
                          NO_VALUES, NULL, &error));
    OK(connection_execute(connection_of(state), "select pg_sleep(0.1)", NO_VALUES, NULL, &error));
    assert_float_equal(answer(connection, doubled, value_integer(5)), 10, 0);
    assert_int_equal(prepared(connection), 1);
    connection_free(connection);
}

static void test_what_cannot_be_prepared_fails_as_it_would_without(void **state)
{
    static const char wrong[] = CONNECTION_KEEPS_PLAN "select $1 from nowhere",
                      zero[] = CONNECTION_KEEPS_PLAN "select 1 / $1";
    struct error error;
    struct rows *rows;
    struct connection *connection = connect_as(state, "wrong");
    for (int i = 0; i < 2; i++) {
        GIVES(STATUS_INTERNAL, connection_query(connection, wrong, VALUES(value_integer(1)), &rows, &error));
        assert_string_equal(error.detail, "database: relation \"nowhere\" does not exist");
    }
    assert_int_equal(prepared(connection), 0);
    GIVES(STATUS_INVALID, connection_query(connection, zero, VALUES(value_integer(0)), &rows, &error));
    assert_float_equal(answer(connection, zero, value_integer(1)), 1, 0);
    assert_int_equal(prepared(connection), 1);
    connection_free(connection);
}

static void test_more_plans_than_are_kept_are_none(void **state)
{
    static char texts[KEPT_PLANS_MOST + 1][64];
    struct kept_plans plans = {0};
    const struct value_arguments none = {0};
    char name[KEPT_PLAN_NAME];
    (void)state;
    for (int i = 0; i <= KEPT_PLANS_MOST; i++) {
        (void)snprintf(texts[i], sizeof texts[i], CONNECTION_KEEPS_PLAN "select %d", i);
        assert_int_equal(kept_plans_find(&plans, texts[i], &none), i < KEPT_PLANS_MOST ? i : -1);
        if (i < KEPT_PLANS_MOST) kept_plans_enter(&plans, texts[i], &none);
    }
    assert_int_equal(kept_plans_find(&plans, texts[7], &none), 7);
    assert_int_equal(kept_plans_find(&plans, "select 1", &none), -1);
    kept_plans_name(KEPT_PLANS_MOST - 1, name);
    assert_string_equal(name, "plan47");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_plan_is_made_once_and_for_its_types_alone),
        cmocka_unit_test(test_plans_go_with_their_session),
        cmocka_unit_test(test_what_cannot_be_prepared_fails_as_it_would_without),
        cmocka_unit_test(test_more_plans_than_are_kept_are_none),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
