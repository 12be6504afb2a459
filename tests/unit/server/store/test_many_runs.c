/* Questions about a few of many runs read few rows: lists of a rare state or kind, and what has not ended yet. */
#include "database.h"
#include "store/trajectories.h"

enum { COUNT = 10000, RARE = 3, FEW = 500 };

/* The rows of runs and of their parameters that this session has read, by whatever plan. PostgreSQL tells its
 * statistics now and then; the second number is what it has not told yet. */
static double rows_read(struct connection *connection)
{
    return ask(connection,
               "select sum(pg_stat_get_tuples_returned(t.oid) + pg_stat_get_xact_tuples_returned(t.oid))::float8 from"
               " (select 'runs'::regclass::oid union all select 'run_specs'::regclass::oid union all select indexrelid"
               " from pg_index where indrelid in ('runs'::regclass, 'run_specs'::regclass)) t (oid) where $1 <> ''",
               &someone.id);
}

static void expect_few(struct connection *connection, double before, const char *what)
{
    const double read = rows_read(connection) - before;
    if (!(read >= 0 && read < FEW)) fail_msg("%s: %g rows of about %d are read", what, read, COUNT);
}

/* The rare ones are the oldest; all runs read a checkpoint that is fetched. */
static int set_up_many(void **state)
{
    struct error error;
    if (set_up(state) != 0) return 1;
    struct connection *connection = connection_of(state);
    const struct store_id checkpoint = add_checkpoint(connection, "many", "step1", 1);
    connection_set_deadline(connection, 120000); /* ten thousand rows on a busy machine */
    change(connection, "update checkpoints set source = '{\"repo\": \"some/model\"}' where id = $1", &checkpoint);
    OK(connection_execute(
        connection,
        "insert into runs (id, kind, state, error, result_epoch, finished_at)"
        " select k.kind || '-' || k.state || '-' || i, k.kind, k.state, k.error::json, k.epoch, clock_timestamp() from"
        " (values ('compare', 'failed', '{}', null), ('compare', 'cancelled', null, null), ('rare', 'succeeded', null,"
        " 0)) k (kind, state, error, epoch), generate_series(1, $1) i",
        VALUES(value_integer(RARE)), NULL, &error));
    OK(connection_execute(connection,
                          "insert into runs (id, kind, state, result_epoch, finished_at) select 'many-' || i,"
                          " 'compare', 'succeeded', 0, clock_timestamp() from generate_series(1, $1) i",
                          VALUES(value_integer(COUNT)), NULL, &error));
    OK(connection_execute(connection, "insert into run_specs (run, params) select id, '{}' from runs", NO_VALUES, NULL,
                          &error));
    change(connection, "insert into run_inputs (run, checkpoint) select id, $1 from runs", &checkpoint);
    OK(connection_script(connection, "analyze", &error));
    connection_set_deadline(connection, 0);
    return 0;
}

static void test_what_is_read_is_counted(void **state)
{
    struct connection *connection = connection_of(state);
    const double before = rows_read(connection);
    assert_true(ask(connection, "select count(*) from runs where kind <> $1 and priority = 0", &someone.id) >= COUNT);
    assert_true(rows_read(connection) - before >= COUNT);
}

static void test_a_rare_state_or_kind_is_not_looked_for_among_all_runs(void **state)
{
    static const struct {
        const char *state, *kind, *sort;
        int found;
    } cases[] = {
        {"failed", NULL, NULL, RARE},        {"cancelled", NULL, NULL, RARE}, {NULL, "rare", NULL, RARE},
        {"failed", NULL, "-finished", RARE}, {NULL, "rare", "created", RARE}, {"failed", "rare", NULL, 0},
        {"queued", NULL, NULL, 0},           {"running", NULL, NULL, 0},
    };
    struct connection *connection = connection_of(state);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error error;
        json_t *document;
        char what[80];
        const struct run_filter filter = {
            .state = cases[i].state, .kind = cases[i].kind, .list = LIST_FILTER_ANY, .result = RUN_RESULT_NONE};
        const struct page page = {.sort = cases[i].sort};
        const double before = rows_read(connection);
        OK(run_list(connection, &filter, &page, &document, &error));
        assert_int_equal(json_array_size(json_object_get(document, "items")), cases[i].found);
        json_decref(document);
        (void)snprintf(what, sizeof what, "state %s, kind %s", cases[i].state != NULL ? cases[i].state : "any",
                       cases[i].kind != NULL ? cases[i].kind : "any");
        expect_few(connection, before, what);
    }
}

static enum status rename_trajectory(struct connection *connection, const char *from, const char *to,
                                     struct error *error)
{
    json_t *document, *changes = json_pack("{s:s}", "name", to);
    const enum status status = trajectory_patch(connection, from, changes, &document, error);
    json_decref(document);
    json_decref(changes);
    return status;
}

static size_t needed(struct connection *connection)
{
    struct error error;
    struct checkpoint_need *needs;
    size_t count;
    OK(checkpoint_needs(connection, &needs, &count, &error));
    free(needs);
    return count;
}

static void test_runs_that_have_ended_are_not_looked_through(void **state)
{
    struct connection *connection = connection_of(state);
    struct error error;
    double before = rows_read(connection);
    OK(run_delete(connection, "many-1", &error));
    expect_few(connection, before, "a run is deleted");
    before = rows_read(connection);
    OK(rename_trajectory(connection, "many", "renamed", &error));
    OK(rename_trajectory(connection, "renamed", "many", &error));
    expect_few(connection, before, "a trajectory is renamed");
    before = rows_read(connection);
    assert_int_equal(needed(connection), 0);
    expect_few(connection, before, "what is fetched for runs");
}

/* Whether it waits or is executed. */
static void expect_held(struct connection *connection, bool compares)
{
    struct error error;
    if (compares) {
        GIVES(STATUS_CONFLICT, run_delete(connection, "many-2", &error));
        assert_non_null(strstr(error.detail, "run late compares it"));
    }
    GIVES(STATUS_CONFLICT, rename_trajectory(connection, "many", "renamed", &error));
    assert_non_null(strstr(error.detail, "run late still needs"));
    assert_int_equal(needed(connection), compares ? 0 : 1);
}

static void test_runs_that_have_not_ended_hold_what_they_need(void **state)
{
    struct connection *connection = connection_of(state);
    const struct store_id run = {"late"};
    for (int compares = 0; compares < 2; compares++) {
        change(connection, "insert into runs (id, kind) values ($1, 'compare')", &run);
        if (compares)
            change(connection,
                   "insert into run_specs (run, params) values ($1, '{\"b\": \"many-2\", \"into\": \"many\"}')", &run);
        else
            change(connection, "insert into run_inputs (run, checkpoint) select $1, id from checkpoints", &run);
        expect_held(connection, compares);
        change(connection,
               "update runs set state = 'running', owner = 'x', lease_until = clock_timestamp() where id = $1", &run);
        expect_held(connection, compares);
        change(connection, "delete from runs where id = $1", &run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_read_is_counted),
        cmocka_unit_test(test_a_rare_state_or_kind_is_not_looked_for_among_all_runs),
        cmocka_unit_test(test_runs_that_have_ended_are_not_looked_through),
        cmocka_unit_test(test_runs_that_have_not_ended_hold_what_they_need),
    };
    return cmocka_run_group_tests_name("many runs", tests, set_up_many, tear_down);
}
