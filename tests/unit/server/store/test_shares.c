/* Whose run a worker leases, and on which node: requesters take turns, and a run goes first to where its checkpoint's
 * files are. */
#include "database.h"
#include "store/nodes.h"

#include <pthread.h>

static const char *const share_kind[] = {"share"};

static void clear(struct connection *connection)
{
    struct error error;
    OK(connection_execute(connection, "delete from runs", NO_VALUES, NULL, &error));
    OK(connection_execute(connection, "delete from workers", NO_VALUES, NULL, &error));
    OK(connection_execute(connection, "delete from node_checkpoints", NO_VALUES, NULL, &error));
}

static struct worker_identity worker_on(const char *id, const char *node)
{
    struct worker_identity worker = someone;
    (void)snprintf(worker.id.text, sizeof worker.id.text, "%s", id);
    (void)snprintf(worker.node.text, sizeof worker.node.text, "%s", node);
    worker.grace_seconds = 600;
    return worker;
}

static void ask_for(struct connection *connection, const char *requester, int count)
{
    for (int i = 0; i < count; i++)
        (void)enqueue(connection, (struct run_new){.kind = "share", .requester = requester}, STORE_CREATED);
}

/* Leases a run for the worker; out gets its requester, "" when there is none. */
static struct lease take_for(struct connection *connection, const struct worker_identity *worker, char out[64])
{
    struct error error;
    struct leased_run run;
    struct rows *rows;
    bool found;
    OK(queue_lease(connection, worker, share_kind, 1, 30, &found, &run, &error));
    const struct lease lease = run.lease;
    out[0] = '\0';
    if (found) {
        OK(connection_query_one(connection, "select requester from runs where id = $1",
                                VALUES(value_text(lease.run.text)), &rows, &error));
        (void)snprintf(out, 64, "%s", rows_text(rows, 0, 0));
        rows_free(rows);
    }
    leased_run_reset(&run);
    return lease;
}

/* ---- shares ---- */

static void test_of_two_the_small_one_is_served_among_the_first(void **state)
{
    struct connection *connection = connection_of(state);
    int small = 0;
    char whose[64];
    clear(connection);
    ask_for(connection, "large", 100);
    ask_for(connection, "small", 3);
    for (int i = 0; i < 6; i++) { /* one worker, which ends each run before it takes another */
        const struct lease lease = take_for(connection, &someone, whose);
        finish(connection, &lease, NULL);
        small += strcmp(whose, "small") == 0;
    }
    assert_int_equal(small, 3);
}

static void test_who_has_fewer_workers_comes_first(void **state)
{
    struct connection *connection = connection_of(state);
    char whose[64], name[32];
    clear(connection);
    ask_for(connection, "large", 20);
    for (int i = 0; i < 4; i++) {
        (void)snprintf(name, sizeof name, "worker-%d", i);
        const struct worker_identity worker = worker_on(name, "");
        (void)take_for(connection, &worker, whose);
        assert_string_equal(whose, "large");
    }
    ask_for(connection, "small", 8);
    /* Until both have four workers each: then they take turns. */
    for (int i = 4; i < 8; i++) {
        (void)snprintf(name, sizeof name, "worker-%d", i);
        const struct worker_identity worker = worker_on(name, "");
        (void)take_for(connection, &worker, whose);
        assert_string_equal(whose, "small");
    }
    const struct worker_identity ninth = worker_on("worker-8", ""), tenth = worker_on("worker-9", "");
    (void)take_for(connection, &ninth, whose);
    assert_string_equal(whose, "large"); /* served longest ago */
    (void)take_for(connection, &tenth, whose);
    assert_string_equal(whose, "small");
}

static void test_the_members_of_a_batch_are_one_worker_s(void **state)
{
    struct connection *connection = connection_of(state);
    char whose[64];
    clear(connection);
    ask_for(connection, "batch", 3);
    const struct worker_identity first = worker_on("worker-1", ""), second = worker_on("worker-2", ""),
                                 third = worker_on("worker-3", "");
    for (int i = 0; i < 2; i++) (void)take_for(connection, &first, whose);
    ask_for(connection, "single", 3);
    (void)take_for(connection, &second, whose);
    assert_string_equal(whose, "single");
    (void)take_for(connection, &third, whose); /* one worker each, though it is two runs and one */
    assert_string_equal(whose, "batch");
}

static void test_nobody_starves_beside_one_who_asks_again_and_again(void **state)
{
    struct connection *connection = connection_of(state);
    int patient = 0;
    char whose[64];
    clear(connection);
    ask_for(connection, "patient", 5);
    for (int i = 0; i < 10; i++) {
        ask_for(connection, "eager", 2);
        const struct lease lease = take_for(connection, &someone, whose);
        finish(connection, &lease, NULL);
        patient += strcmp(whose, "patient") == 0;
    }
    assert_int_equal(patient, 5);
}

static void test_priority_goes_before_shares(void **state)
{
    struct connection *connection = connection_of(state);
    char whose[64];
    clear(connection);
    ask_for(connection, "usual", 3);
    for (int i = 0; i < 3; i++)
        (void)enqueue(connection, (struct run_new){.kind = "share", .requester = "urgent", .priority = 1},
                      STORE_CREATED);
    for (int i = 0; i < 6; i++) {
        (void)take_for(connection, &someone, whose);
        assert_string_equal(whose, i < 3 ? "urgent" : "usual");
    }
}

/* What a requester has first may be for another device: the next one's turn comes. */
static void test_a_line_that_no_worker_here_may_serve_holds_up_nobody(void **state)
{
    struct connection *connection = connection_of(state);
    char whose[64];
    json_t *on_cuda = json_pack("{s:s}", "device", "cuda");
    clear(connection);
    for (int i = 0; i < 3; i++)
        (void)enqueue(connection, (struct run_new){.kind = "share", .requester = "cuda", .requires = on_cuda},
                      STORE_CREATED);
    json_decref(on_cuda);
    ask_for(connection, "plain", 1);
    (void)take_for(connection, &someone, whose);
    assert_string_equal(whose, "plain");
    (void)take_for(connection, &someone, whose);
    assert_string_equal(whose, "");
}

static void test_a_requester_has_no_more_runs_waiting_than_the_bound(void **state)
{
    struct error error;
    struct connection *connection = connection_of(state);
    enum store_outcome outcome;
    json_t *document = NULL, *params = json_object();
    char whose[64];
    clear(connection);
    const struct run_new bounded = {.kind = "share", .params = params, .requester = "a", .queued_most = 2};
    ask_for(connection, "b", 5);
    for (int i = 0; i < 2; i++) {
        OK(run_insert(connection, &bounded, &outcome, &document, &error));
        json_decref(document);
    }
    GIVES(STATUS_TOO_MANY, run_insert(connection, &bounded, &outcome, &document, &error));
    assert_non_null(strstr(error.detail, "--queue-per-token"));
    (void)take_for(connection, &someone, whose); /* b was served never, and a neither: by name */
    assert_string_equal(whose, "a");
    OK(run_insert(connection, &bounded, &outcome, &document, &error));
    json_decref(document);
    json_decref(params);
}

/* ---- affinity ---- */

static struct store_id add_of(struct connection *connection, const struct store_id *checkpoint)
{
    return enqueue(connection,
                   (struct run_new){.kind = "share", .checkpoints = checkpoint, .checkpoint_count = checkpoint != NULL},
                   STORE_CREATED);
}

static void expect_lease(struct connection *connection, const struct worker_identity *worker,
                         const struct store_id *expected)
{
    char whose[64];
    const struct lease lease = take_for(connection, worker, whose);
    assert_string_equal(lease.run.text, expected != NULL ? expected->text : "");
}

static void test_a_run_goes_first_to_where_its_files_are(void **state)
{
    struct error error;
    struct connection *connection = connection_of(state);
    const struct worker_identity worker = worker_on("worker-1", "node-1");
    clear(connection);
    const struct store_id elsewhere = add_checkpoint(connection, "t", "elsewhere", 1),
                          here = add_checkpoint(connection, "t", "here", 2);
    OK(node_note(connection, "node-1", &here, "", &error));
    const struct store_id first = add_of(connection, &elsewhere), none = add_of(connection, NULL),
                          near = add_of(connection, &here), old = add_of(connection, &elsewhere);
    change(connection, "update runs set run_at = run_at - interval '50 seconds' where id = $1", &first);
    expect_lease(connection, &worker, &near);
    expect_lease(connection, &worker, &first);
    /* No more than a minute before what waits longer: what was asked for later, again and again, starves nobody. */
    change(connection, "update runs set run_at = run_at - interval '70 seconds' where id = $1", &old);
    const struct store_id late = add_of(connection, &here);
    expect_lease(connection, &worker, &old);
    expect_lease(connection, &worker, &late);
    expect_lease(connection, &worker, &none);
}

static void test_a_young_run_is_left_to_a_living_node_that_has_its_files(void **state)
{
    struct error error;
    struct connection *connection = connection_of(state);
    const struct worker_identity worker = worker_on("worker-1", "node-1"), other = worker_on("worker-2", "node-2");
    struct worker_identity hasty = worker;
    clear(connection);
    const struct store_id checkpoint = add_checkpoint(connection, "t", "elsewhere", 1);
    OK(worker_register(connection, &worker, &error));
    OK(node_note(connection, "node-2", &checkpoint, "", &error));
    const struct store_id dead = add_of(connection, &checkpoint);
    expect_lease(connection, &worker, &dead); /* nobody lives there */
    OK(worker_register(connection, &other, &error));
    const struct store_id young = add_of(connection, &checkpoint);
    expect_lease(connection, &worker, NULL);
    expect_lease(connection, &other, &young);
    const struct store_id old = add_of(connection, &checkpoint);
    change(connection, "update runs set run_at = run_at - interval '600 seconds' where id = $1", &old);
    expect_lease(connection, &worker, &old); /* after the grace */
    const struct store_id now = add_of(connection, &checkpoint);
    hasty.grace_seconds = 0;
    expect_lease(connection, &hasty, &now);
    OK(worker_gone(connection, &other.id, &error));
    const struct store_id gone = add_of(connection, &checkpoint);
    expect_lease(connection, &worker, &gone);
}

static void test_a_long_line_is_left_to_nobody(void **state)
{
    struct error error;
    struct connection *connection = connection_of(state);
    const struct worker_identity worker = worker_on("worker-1", "node-1"), other = worker_on("worker-2", "node-2");
    char whose[64];
    clear(connection);
    const struct store_id checkpoint = add_checkpoint(connection, "t", "elsewhere", 1);
    OK(worker_register(connection, &other, &error));
    OK(node_note(connection, "node-2", &checkpoint, "", &error));
    for (int i = 0; i < 33; i++) (void)add_of(connection, &checkpoint);
    assert_string_not_equal(take_for(connection, &worker, whose).run.text, "");
    expect_lease(connection, &worker, NULL); /* 32 are left */
}

static bool goes_elsewhere(struct connection *connection, const struct lease *lease,
                           const struct worker_identity *worker)
{
    struct error error;
    bool elsewhere = false;
    OK(queue_elsewhere(connection, lease, worker, "its files are not here", &elsewhere, &error));
    return elsewhere;
}

static void test_a_run_leaves_a_node_that_lacks_its_files(void **state)
{
    struct error error;
    struct connection *connection = connection_of(state);
    const struct worker_identity worker = worker_on("worker-1", "node-1"), other = worker_on("worker-2", "node-2");
    char whose[64];
    clear(connection);
    const struct store_id checkpoint = add_checkpoint(connection, "t", "elsewhere", 1),
                          run = add_of(connection, &checkpoint);
    struct lease lease = take_for(connection, &worker, whose);
    OK(worker_register(connection, &other, &error));
    assert_false(goes_elsewhere(connection, &lease, &worker)); /* nothing is lacking */
    OK(node_lacks(connection, "node-1", &checkpoint, &error));
    assert_true(goes_elsewhere(connection, &lease, &worker));
    expect_lease(connection, &worker, NULL);
    const struct store_id free_one = add_of(connection, NULL);
    expect_lease(connection, &worker, &free_one);
    lease = take_for(connection, &other, whose);
    assert_string_equal(lease.run.text, run.text);
    OK(worker_register(connection, &worker, &error));
    OK(node_lacks(connection, "node-2", &checkpoint, &error));
    assert_false(goes_elsewhere(connection, &lease, &other)); /* nobody has them */
    change(connection,
           "update node_lacks set noted_at = noted_at - interval '11 minutes' where checkpoint = $1 and"
           " node = 'node-1'",
           &checkpoint);
    assert_true(goes_elsewhere(connection, &lease, &other)); /* what was lacking is looked for again */
    expect_lease(connection, &worker, &run);
    OK(node_note(connection, "node-2", &checkpoint, "", &error));
    assert_int_equal(ask(connection, "select count(*) from node_lacks where checkpoint = $1", &checkpoint), 1);
}

static void test_a_node_has_what_was_noted_until_it_is_forgotten(void **state)
{
    struct error error;
    struct connection *connection = connection_of(state);
    json_t *keys;
    clear(connection);
    const struct store_id a = add_checkpoint(connection, "t", "a", 1), b = add_checkpoint(connection, "t", "b", 2),
                          c = add_checkpoint(connection, "t", "c", 3), nobody = {"nobody"};
    OK(node_note(connection, "n", &a, "k1", &error));
    OK(node_note(connection, "n", &a, "k1", &error));
    OK(node_note(connection, "n", &b, "k2", &error));
    OK(node_note(connection, "n", &c, "", &error));
    OK(node_note(connection, "m", &a, "k1", &error));
    GIVES(STATUS_CONFLICT, node_note(connection, "n", &nobody, "", &error));
    OK(node_snapshots(connection, "n", &keys, &error));
    assert_int_equal(json_array_size(keys), 2);
    assert_string_equal(json_string_value(json_array_get(keys, 1)), "k2");
    (void)json_array_remove(keys, 1);
    OK(node_forget_snapshots(connection, "n", keys, &error));
    json_decref(keys);
    assert_int_equal(ask(connection, "select count(*) from node_checkpoints where checkpoint = $1", &a), 1);
    OK(node_lacks(connection, "n", &c, &error));
    OK(connection_execute(connection,
                          "update node_checkpoints set used_at = now() - interval '31 days' where node = 'm'",
                          NO_VALUES, NULL, &error));
    OK(nodes_prune(connection, &error));
    assert_int_equal(ask(connection, "select count(*) from node_checkpoints where $1::text is not null", &a), 1);
    OK(connection_execute(connection, "delete from checkpoints", NO_VALUES, NULL, &error));
    assert_int_equal(ask(connection, "select count(*) from node_checkpoints where $1::text is not null", &a), 0);
}

/* ---- many at once ---- */

enum { TAKERS = 6, EACH = 40 };

struct taker {
    const char *conninfo;
    int number, taken;
    enum status status;
};

/* Takes until there is nothing; every third is given back once, which changes rows that others are about to lock. */
static void *take_all(void *context)
{
    struct taker *taker = context;
    struct connection *connection = NULL;
    struct error error;
    struct worker_identity worker = worker_on("", taker->number % 2 == 0 ? "even" : "odd");
    (void)snprintf(worker.id.text, sizeof worker.id.text, "taker-%d", taker->number);
    taker->status = connection_new(taker->conninfo, "test", &connection, &error);
    for (bool found = true; taker->status == STATUS_OK && found;) {
        struct leased_run run;
        taker->status = queue_lease(connection, &worker, share_kind, 1, 30, &found, &run, &error);
        if (taker->status == STATUS_OK && found && run.lease.epoch == 1 && taker->taken % 3 == 0)
            taker->status = queue_release(connection, &run.lease, &error);
        taker->taken += found;
        leased_run_reset(&run);
    }
    connection_free(connection);
    return NULL;
}

static void test_many_workers_lease_each_run_once(void **state)
{
    struct error error;
    struct fixture *fixture = *state;
    struct connection *connection = fixture->connection;
    static const char *const names[] = {"a", "b", "c"};
    pthread_t threads[TAKERS];
    struct taker takers[TAKERS];
    int taken = 0;
    clear(connection);
    const struct store_id even = add_checkpoint(connection, "t", "even", 1),
                          odd = add_checkpoint(connection, "t", "odd", 2);
    OK(node_note(connection, "even", &even, "", &error));
    OK(node_note(connection, "odd", &odd, "", &error));
    for (int i = 0; i < TAKERS * EACH; i++)
        (void)enqueue(connection,
                      (struct run_new){.kind = "share",
                                       .requester = names[i % 3],
                                       .checkpoints = i % 2 == 0 ? &even : &odd,
                                       .checkpoint_count = i % 5 > 0},
                      STORE_CREATED);
    for (int i = 0; i < TAKERS; i++) {
        takers[i] = (struct taker){.conninfo = embedded_conninfo(fixture->embedded), .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, take_all, &takers[i]), 0);
    }
    for (int i = 0; i < TAKERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(takers[i].status, STATUS_OK);
        taken += takers[i].taken;
    }
    /* A taker that found nothing while another gave one back has gone: what was given back last may wait. */
    const int waiting =
        (int)ask(connection, "select count(*) from runs where state = 'queued' and $1::text is not null", &even);
    assert_true(waiting < TAKERS);
    assert_int_equal(ask(connection, "select sum(epoch) from runs where $1::text is not null", &even), taken);
    assert_int_equal(ask(connection,
                         "select count(*) from (select run, epoch from run_events where data ->> 'to' = 'running'"
                         " and $1::text is not null group by 1, 2 having count(*) <> 1) twice",
                         &even),
                     0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_of_two_the_small_one_is_served_among_the_first),
        cmocka_unit_test(test_who_has_fewer_workers_comes_first),
        cmocka_unit_test(test_the_members_of_a_batch_are_one_worker_s),
        cmocka_unit_test(test_nobody_starves_beside_one_who_asks_again_and_again),
        cmocka_unit_test(test_priority_goes_before_shares),
        cmocka_unit_test(test_a_line_that_no_worker_here_may_serve_holds_up_nobody),
        cmocka_unit_test(test_a_requester_has_no_more_runs_waiting_than_the_bound),
        cmocka_unit_test(test_a_run_goes_first_to_where_its_files_are),
        cmocka_unit_test(test_a_young_run_is_left_to_a_living_node_that_has_its_files),
        cmocka_unit_test(test_a_long_line_is_left_to_nobody),
        cmocka_unit_test(test_a_run_leaves_a_node_that_lacks_its_files),
        cmocka_unit_test(test_a_node_has_what_was_noted_until_it_is_forgotten),
        cmocka_unit_test(test_many_workers_lease_each_run_once),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
