/* How many runs may wait: the share of a queue that others use too, and bounds that several at once do not pass. */
#include "database.h"
#include "store/sweeps.h"

#include <pthread.h>
#include <stdatomic.h>

static void clear(struct connection *connection)
{
    struct error error;
    connection_set_deadline(connection, 120000); /* 10,000 rows */
    OK(connection_execute(connection, "delete from runs", NO_VALUES, NULL, &error));
}

static void execute(struct connection *connection, const char *sql)
{
    struct error error;
    OK(connection_script(connection, sql, &error));
}

static void flood(struct connection *connection, const char *requester, int count)
{
    struct error error;
    OK(connection_execute(connection,
                          "insert into runs (kind, requester) select 'flood', $1 from generate_series(1, $2::int)",
                          VALUES(value_text(requester), value_integer(count)), NULL, &error));
}

static void tokens(struct connection *connection, const char *sql)
{
    execute(connection, "delete from tokens");
    execute(connection, sql);
}

static enum status insert(struct connection *connection, const char *requester, int64_t queued_most,
                          struct error *error)
{
    enum store_outcome outcome;
    json_t *document = NULL, *params = json_object();
    const struct run_new run = {.kind = "share", .params = params, .requester = requester, .queued_most = queued_most};
    const enum status status = run_insert(connection, &run, &outcome, &document, error);
    json_decref(document);
    json_decref(params);
    return status;
}

/* Whether one more run of the requester goes in; what it is told if not. */
static bool goes_in(struct connection *connection, const char *requester, char told[480])
{
    struct error error = {.detail = ""};
    const enum status status = insert(connection, requester, 0, &error);
    assert_true(status == STATUS_OK || status == STATUS_TOO_MANY);
    (void)snprintf(told, 480, "%s", status == STATUS_OK ? "" : error.detail);
    return status == STATUS_OK;
}

/* Tokens that read, have ended or were taken back post no runs. */
static void test_who_is_alone_may_fill_the_queue(void **state)
{
    struct connection *connection = connection_of(state);
    char told[480];
    clear(connection);
    tokens(connection, "insert into tokens (id, scope, sha256) values ('a', 'write', 'a'), ('r', 'read', 'r');"
                       "insert into tokens (id, scope, sha256, expires_at) values ('e', 'admin', 'e', now());"
                       "insert into tokens (id, scope, sha256, revoked_at) values ('b', 'admin', 'b', now());");
    flood(connection, "a", 9999);
    assert_true(goes_in(connection, "a", told));
    assert_false(goes_in(connection, "a", told));
    assert_non_null(strstr(told, "10000 runs wait in the queue already"));
}

static void test_who_is_not_alone_leaves_as_many_places_as_they_have(void **state)
{
    struct connection *connection = connection_of(state);
    char told[480];
    clear(connection);
    tokens(connection, "insert into tokens (id, scope, sha256) values ('a', 'write', 'a'), ('b', 'write', 'b');");
    flood(connection, "a", 4999);
    assert_true(goes_in(connection, "a", told));
    assert_false(goes_in(connection, "a", told));
    assert_non_null(strstr(told, "5001 runs of this token would wait and 4999 of the queue's 10000 places be free"));
    flood(connection, "b", 2499);
    assert_true(goes_in(connection, "b", told));
    assert_false(goes_in(connection, "b", told));
    assert_true(goes_in(connection, "c", told));
}

/* Also while its token was taken back. */
static void test_somebody_else_who_waits_is_company(void **state)
{
    struct connection *connection = connection_of(state);
    char told[480];
    clear(connection);
    tokens(connection, "");
    flood(connection, "a", 6000);
    assert_true(goes_in(connection, "a", told));
    assert_true(goes_in(connection, "b", told));
    assert_false(goes_in(connection, "a", told));
}

/* It stays as it was. */
static void test_a_retry_needs_a_place_as_well(void **state)
{
    struct error error;
    struct connection *connection = connection_of(state);
    char told[480];
    json_t *document = NULL;
    clear(connection);
    tokens(connection, "insert into tokens (id, scope, sha256) values ('b', 'write', 'b');");
    const struct store_id run = enqueue(connection, (struct run_new){.kind = "share", .requester = "a"}, STORE_CREATED);
    OK(run_cancel(connection, run.text, &document, &error));
    json_decref(document);
    flood(connection, "a", 5000);
    GIVES(STATUS_TOO_MANY, run_retry(connection, run.text, 0, &document, &error));
    assert_null(document);
    assert_true(ask(connection, "select count(*) from runs where id = $1 and state = 'cancelled'", &run) > 0);
    OK(connection_execute(connection,
                          "delete from runs where id = (select id from runs where state = 'queued' limit 1)", NO_VALUES,
                          NULL, &error));
    OK(run_retry(connection, run.text, 0, &document, &error));
    json_decref(document);
    assert_false(goes_in(connection, "a", told));
    tokens(connection, "");
    clear(connection);
}

/* Of the runs of two tokens in a sweep those of one failed: the other has too many waiting, but none that comes. */
static void test_failed_runs_are_tried_again_whatever_another_has_waiting(void **state)
{
    struct connection *connection = connection_of(state);
    struct error error;
    json_t *document = NULL;
    clear(connection);
    tokens(connection, "insert into tokens (id, scope, sha256) values ('a', 'write', 'a'), ('b', 'write', 'b');");
    flood(connection, "a", 6000);
    execute(connection,
            "insert into sweeps (id, name, kind, base, grid) values ('s', 's', 'flood', '{}', '{}');"
            "insert into sweep_runs (sweep, run) select 's', id from runs limit 1;"
            "insert into runs (id, kind, requester, state, error, finished_at) values ('failed', 'flood', 'b',"
            " 'failed', '{}', now()); insert into run_specs (run, params) values ('failed', '{}');"
            "insert into sweep_runs (sweep, run) values ('s', 'failed');");
    OK(sweep_retry_failed(connection, "s", 0, &document, &error));
    assert_int_equal(json_integer_value(json_object_get(json_object_get(document, "runs"), "queued")), 2);
    json_decref(document);
    /* Each of those whose runs come back needs space for them. */
    execute(connection, "update runs set state = 'failed', error = '{}', finished_at = now() where id in"
                        " (select run from sweep_runs where sweep = 's')");
    GIVES(STATUS_TOO_MANY, sweep_retry_failed(connection, "s", 0, &document, &error));
    assert_int_equal(ask(connection, "select count(*) from runs where state = 'failed' and $1::text is not null",
                         &(struct store_id){"s"}),
                     2);
    execute(connection, "delete from sweeps");
    clear(connection);
}

/* ---- at once ---- */

struct rival {
    const char *conninfo, *requester;
    int64_t queued_most;
    pthread_t thread;
    bool waited;
    atomic_bool ended;
    enum status status;
    struct error error;
};

static void *insert_beside(void *context)
{
    struct rival *rival = context;
    struct connection *connection = NULL;
    rival->status = connection_new(rival->conninfo, "rival", &connection, &rival->error);
    if (rival->status == STATUS_OK)
        rival->status = insert(connection, rival->requester, rival->queued_most, &rival->error);
    connection_free(connection);
    atomic_store(&rival->ended, true);
    return NULL;
}

/* Puts a run of "a" into the queue, lets the rival begin, and commits when that has ended or waits for a lock. */
static enum status insert_first(struct connection *connection, void *context, struct error *error)
{
    struct rival *rival = context;
    enum store_outcome outcome;
    struct store_id id;
    json_t *params = json_object();
    const struct run_new run = {.kind = "share", .params = params, .requester = "a", .queued_most = rival->queued_most};
    struct queue_quota quota = run_quota(&run);
    enum status status = run_insert_within(connection, &run, &quota, &outcome, &id, error);
    json_decref(params);
    if (status == STATUS_OK) status = queue_quota_hold(connection, &quota, error);
    if (status != STATUS_OK) return status;
    assert_int_equal(pthread_create(&rival->thread, NULL, insert_beside, rival), 0);
    while (!rival->waited && !atomic_load(&rival->ended)) {
        status = connection_query_boolean(
            connection, "select exists (select from pg_locks where locktype = 'advisory' and not granted)", NO_VALUES,
            &rival->waited, error);
        if (status != STATUS_OK) return status;
    }
    return STATUS_OK;
}

/* What becomes of a run of `requester` that comes while one of "a" is not committed yet. */
static struct rival insert_two(void **state, const char *requester, int64_t queued_most)
{
    struct fixture *fixture = *state;
    struct error error;
    struct rival rival = {
        .conninfo = embedded_conninfo(fixture->embedded), .requester = requester, .queued_most = queued_most};
    OK(connection_transaction(fixture->connection, insert_first, &rival, NULL, &error));
    assert_int_equal(pthread_join(rival.thread, NULL), 0);
    return rival;
}

static void test_two_of_a_requester_at_once_do_not_pass_the_bound(void **state)
{
    struct connection *connection = connection_of(state);
    clear(connection);
    tokens(connection, "insert into tokens (id, scope, sha256) values ('a', 'write', 'a'), ('b', 'write', 'b');");
    const struct rival bounded = insert_two(state, "a", 1);
    assert_int_equal(bounded.status, STATUS_TOO_MANY);
    assert_true(bounded.waited);
    assert_non_null(strstr(bounded.error.detail, "--queue-per-token"));
    clear(connection);
    flood(connection, "a", 4999);
    const struct rival sharing = insert_two(state, "a", 0);
    assert_int_equal(sharing.status, STATUS_TOO_MANY);
    assert_non_null(strstr(sharing.error.detail, "5001 runs of this token would wait"));
}

static void test_those_of_different_requesters_wait_for_nobody(void **state)
{
    struct connection *connection = connection_of(state);
    clear(connection);
    tokens(connection, "");
    const struct rival other = insert_two(state, "b", 1);
    assert_int_equal(other.status, STATUS_OK);
    assert_false(other.waited);
}

/* There one's share is what the others leave. */
static void test_all_wait_for_each_other_when_half_of_the_places_are_taken(void **state)
{
    struct connection *connection = connection_of(state);
    clear(connection);
    tokens(connection, "");
    flood(connection, "c", 9999);
    const struct rival other = insert_two(state, "b", 5);
    assert_int_equal(other.status, STATUS_TOO_MANY);
    assert_true(other.waited);
    clear(connection);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_is_alone_may_fill_the_queue),
        cmocka_unit_test(test_who_is_not_alone_leaves_as_many_places_as_they_have),
        cmocka_unit_test(test_somebody_else_who_waits_is_company),
        cmocka_unit_test(test_a_retry_needs_a_place_as_well),
        cmocka_unit_test(test_failed_runs_are_tried_again_whatever_another_has_waiting),
        cmocka_unit_test(test_two_of_a_requester_at_once_do_not_pass_the_bound),
        cmocka_unit_test(test_those_of_different_requesters_wait_for_nobody),
        cmocka_unit_test(test_all_wait_for_each_other_when_half_of_the_places_are_taken),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
