/* Which runs a worker leases: in which order, when, of which kinds and for how long; those that its device may do, and
 * some of them together. */
#include "database.h"

/* The run that comes next of the kind "order", with an empty id when there is none; the caller resets it. */
static struct leased_run next(struct connection *connection)
{
    static const char *const kinds[] = {"order", "nobody's"};
    struct error error;
    struct leased_run run;
    bool found;
    OK(queue_lease(connection, &someone, kinds, 2, 30, &found, &run, &error));
    assert_int_equal(found, run.lease.run.text[0] != '\0');
    return run;
}

static void expect_next(struct connection *connection, const struct store_id *expected)
{
    struct leased_run run = next(connection);
    assert_string_equal(run.lease.run.text, expected != NULL ? expected->text : "");
    leased_run_reset(&run);
}

static void test_priority_goes_before_time_and_that_before_number(void **state)
{
    struct connection *connection = connection_of(state);
    const struct run_new usual = {.kind = "order"}, soon = {.kind = "order", .priority = 5};
    const struct store_id last = enqueue(connection, usual, STORE_CREATED),
                          second = enqueue(connection, soon, STORE_CREATED),
                          third = enqueue(connection, soon, STORE_CREATED),
                          first = enqueue(connection, soon, STORE_CREATED);
    (void)enqueue(connection, (struct run_new){.kind = "another", .priority = 9}, STORE_CREATED);
    change(connection, "update runs set run_at = clock_timestamp() - interval '1 hour' where id = $1", &first);
    change(connection, "update runs r set run_at = o.run_at from runs o where o.id = $1 and r.number = o.number + 1",
           &second);
    expect_next(connection, &first);
    expect_next(connection, &second);
    expect_next(connection, &third);
    expect_next(connection, &last);
    expect_next(connection, NULL); /* those that run are not taken again, nor is the other kind */
    change(connection, "delete from runs where kind in ('order', 'another') and $1::text is not null", &first);
}

/* A delayed retry waits for its time; only a clock that was set back gives a time more than two hours ahead. */
static void test_a_run_is_taken_when_it_is_due(void **state)
{
    struct connection *connection = connection_of(state);
    const struct store_id run = enqueue(connection, (struct run_new){.kind = "order"}, STORE_CREATED);
    change(connection, "update runs set run_at = clock_timestamp() + interval '61 minutes' where id = $1", &run);
    expect_next(connection, NULL);
    change(connection, "update runs set run_at = clock_timestamp() + interval '121 minutes' where id = $1", &run);
    expect_next(connection, &run);
    change(connection, "delete from runs where id = $1", &run);
}

static void test_a_lease_says_who_has_the_run_and_until_when(void **state)
{
    struct connection *connection = connection_of(state);
    const struct store_id run = enqueue(connection, (struct run_new){.kind = "order"}, STORE_CREATED);
    change(connection,
           "update runs set tries = 1, crashes = 2, attempts = 7, epoch = 10, started_at = clock_timestamp() -"
           " interval '1 hour'"
           " where id = $1",
           &run);
    struct leased_run leased = next(connection);
    assert_int_equal(leased.attempt, 7);
    assert_int_equal(leased.lease.epoch, 11);
    assert_string_equal(leased.lease.owner.text, someone.id.text);
    assert_string_equal(leased.kind, "order");
    const double seconds = ask(
        connection,
        "select extract(epoch from lease_until - clock_timestamp())::double precision from runs where id = $1", &run);
    if (!(seconds > 20 && seconds <= 30)) fail_msg("a lease of %g s", seconds);
    /* the first start counts */
    assert_true(
        ask(connection,
            "select extract(epoch from clock_timestamp() - started_at)::double precision from runs where id = $1",
            &run) > 3590);
    leased_run_reset(&leased);
    change(connection, "delete from runs where id = $1", &run);
}

static struct store_id add_member(struct connection *connection, const char *batch, int priority)
{
    struct error error;
    enum store_outcome outcome;
    json_t *document, *params = json_pack("{s:i}", "x", 1);
    const struct run_new new = {.kind = "test", .params = params, .batch = batch, .priority = priority};
    OK(run_insert(connection, &new, &outcome, &document, &error));
    const struct store_id id = id_of(document);
    json_decref(document);
    json_decref(params);
    return id;
}

/* Releases what is taken with `lease`, which has to be `expected` in that order. */
static void expect_members(struct connection *connection, const struct lease *lease, size_t most,
                           const struct store_id *expected, size_t count)
{
    struct error error;
    struct leased_run runs[8];
    size_t found = 9;
    OK(queue_lease_members(connection, &someone, lease, 30, most, runs, &found, &error));
    assert_int_equal(found, count);
    for (size_t i = 0; i < found; i++) {
        assert_string_equal(runs[i].lease.run.text, expected[i].text);
        assert_non_null(runs[i].params);
        expect_state(connection, &expected[i], "running");
        OK(queue_release(connection, &runs[i].lease, &error));
        leased_run_reset(&runs[i]);
    }
}

static void test_members_are_leased_with_the_run_that_is_held(void **state)
{
    struct connection *connection = connection_of(state);
    struct error error;
    const struct store_id first = add_member(connection, "a", 100);
    const struct store_id waiting[] = {add_member(connection, "a", 90), add_member(connection, "a", 80),
                                       add_member(connection, "a", 70)};
    (void)add_member(connection, "b", 60);
    (void)add_member(connection, NULL, 50);
    struct lease lease = take(connection);
    assert_string_equal(lease.run.text, first.text);
    expect_members(connection, &lease, 7, waiting, 3);
    expect_members(connection, &lease, 2, waiting, 2);
    struct lease stale = lease;
    stale.epoch--;
    expect_members(connection, &stale, 7, NULL, 0);
    /* another worker is idle: half of them are its */
    const struct worker_identity idle = {
        .id = {"idle"}, .host = "there", .boot_id = "b", .device = "cpu", .pid = 2, .threads = 1};
    OK(worker_register(connection, &idle, &error));
    expect_members(connection, &lease, 7, waiting, 1);
    OK(worker_gone(connection, &idle.id, &error));
    /* a worker that has a run is not idle, nor is one that was not seen for more than a minute */
    OK(worker_register(connection, &idle, &error));
    const struct store_id busy = enqueue(connection, (struct run_new){.kind = "busy"}, STORE_CREATED);
    change(connection,
           "update runs set state = 'running', owner = 'idle', worker = 'w', lease_until = clock_timestamp() where"
           " id = $1",
           &busy);
    expect_members(connection, &lease, 7, waiting, 3);
    change(connection, "delete from runs where id = $1", &busy);
    change(connection, "update workers set seen_at = clock_timestamp() - interval '2 minutes' where id = $1", &idle.id);
    expect_members(connection, &lease, 7, waiting, 3);
    /* nor does one that was seen before the clock was set back by an hour */
    change(connection, "update workers set seen_at = clock_timestamp() + interval '1 hour' where id = $1", &idle.id);
    expect_members(connection, &lease, 7, waiting, 3);
    OK(worker_gone(connection, &idle.id, &error));
    /* a run of another kind is no member, whatever it says */
    const struct store_id foreign =
        enqueue(connection, (struct run_new){.kind = "other", .batch = "a", .priority = 99}, STORE_CREATED);
    expect_members(connection, &lease, 7, waiting, 3);
    change(connection, "delete from runs where id = $1", &foreign);
    /* one more crash or stall is the last: they go alone */
    OK(connection_execute(connection, "update runs set crashes = 2 where id = $1", VALUES(value_text(waiting[0].text)),
                          NULL, &error));
    OK(connection_execute(connection, "update runs set stalls = 2 where id = $1", VALUES(value_text(waiting[1].text)),
                          NULL, &error));
    expect_members(connection, &lease, 7, waiting + 2, 1);
    OK(connection_execute(connection, "update runs set crashes = 2 where id = $1", VALUES(value_text(first.text)), NULL,
                          &error));
    expect_members(connection, &lease, 7, NULL, 0);
    OK(queue_release(connection, &lease, &error));
    OK(connection_execute(connection,
                          "update runs set state = 'cancelled', finished_at = clock_timestamp() where state = 'queued'",
                          NO_VALUES, NULL, &error));
}

static void test_a_run_waits_for_a_worker_on_the_device_that_it_needs(void **state)
{
    struct connection *connection = connection_of(state);
    const struct worker_identity cuda = {
        .id = {"cuda"}, .host = "there", .boot_id = "b", .device = "cuda:1", .pid = 3, .threads = 1};
    static const char *const kinds[] = {"devices"};
    struct error error;
    enum store_outcome outcome;
    struct leased_run run;
    json_t *document, *params = json_pack("{s:i}", "x", 1), *on_cuda = json_pack("{s:s}", "device", "cuda");
    const struct run_new needs = {.kind = "devices", .params = params, .requires = on_cuda, .priority = 9},
                         any = {.kind = "devices", .params = params};
    bool found;
    OK(run_insert(connection, &needs, &outcome, &document, &error));
    const struct store_id picky = id_of(document);
    json_decref(document);
    OK(queue_lease(connection, &someone, kinds, 1, 30, &found, &run, &error));
    assert_false(found);
    OK(run_insert(connection, &any, &outcome, &document, &error));
    OK(queue_lease(connection, &someone, kinds, 1, 30, &found, &run, &error));
    assert_true(found);
    assert_string_equal(run.lease.run.text, text_at(document, "id"));
    json_decref(document);
    leased_run_reset(&run);
    OK(worker_register(connection, &cuda, &error));
    OK(queue_lease(connection, &cuda, kinds, 1, 30, &found, &run, &error));
    assert_true(found);
    assert_string_equal(run.lease.run.text, picky.text);
    leased_run_reset(&run);
    OK(worker_gone(connection, &cuda.id, &error));
    json_decref(on_cuda);
    json_decref(params);
}

static bool takes(struct connection *connection, const struct worker_identity *worker, const struct store_id *run)
{
    static const char *const kinds[] = {"picky"};
    struct error error;
    struct leased_run leased;
    bool found;
    OK(queue_lease(connection, worker, kinds, 1, 30, &found, &leased, &error));
    if (!found) return false;
    assert_string_equal(leased.lease.run.text, run->text);
    OK(queue_release(connection, &leased.lease, &error));
    leased_run_reset(&leased);
    return true;
}

static void test_a_run_waits_for_a_worker_that_has_what_it_requires(void **state)
{
    struct connection *connection = connection_of(state);
    static const struct {
        const char *requires, *labels, *device;
        int64_t memory, device_memory;
        bool taken;
    } rows[] = {
        {"{}", NULL, "cpu", 0, 0, true},
        {"{\"labels\": [\"a=1\"]}", NULL, "cpu", 0, 0, false},
        {"{\"labels\": [\"a=1\"]}", "[\"a=2\"]", "cpu", 0, 0, false},
        {"{\"labels\": [\"a=1\"]}", "[\"b\", \"a=1\"]", "cpu", 0, 0, true},
        {"{\"labels\": [\"a=1\", \"c\"]}", "[\"b\", \"a=1\"]", "cpu", 0, 0, false},
        {"{\"device\": \"cpu\"}", NULL, "cpu", 0, 0, true},
        {"{\"device\": \"cpu\"}", NULL, "cuda:0", 0, 0, false},
        {"{\"device\": \"cuda\"}", NULL, "cuda:1", 0, 0, true},
        {"{\"device\": \"cuda\"}", NULL, "cpu", 0, 0, false},
        {"{\"memory_bytes\": 100}", NULL, "cpu", 99, 0, false},
        {"{\"memory_bytes\": 100}", NULL, "cpu", 100, 0, true},
        {"{\"memory_bytes\": 100}", NULL, "cpu", 0, 0, true}, /* who does not say */
        {"{\"memory_bytes\": 100, \"labels\": [\"b\"]}", "[\"b\"]", "cpu", 99, 0, false},
        {"{\"device_memory_bytes\": 100}", NULL, "cuda:0", 200, 99, false},
        {"{\"device_memory_bytes\": 100}", NULL, "cuda:0", 1, 100, true},
        {"{\"device_memory_bytes\": 100}", NULL, "cuda:0", 200, 0, false}, /* who does not say */
        {"{\"device_memory_bytes\": 100}", NULL, "cpu", 200, 0, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        json_t *requires = json_loads(rows[i].requires, 0, NULL);
        json_t *labels = rows[i].labels != NULL ? json_loads(rows[i].labels, 0, NULL) : NULL;
        struct worker_identity worker = {.id = {"w"}, .host = "h", .boot_id = "b", .pid = 4, .threads = 1};
        worker.labels = labels;
        worker.memory_bytes = rows[i].memory;
        worker.device_state.memory_bytes = rows[i].device_memory;
        (void)snprintf(worker.device, sizeof worker.device, "%s", rows[i].device);
        const struct store_id run =
            enqueue(connection, (struct run_new){.kind = "picky", .requires = requires}, STORE_CREATED);
        if (takes(connection, &worker, &run) != rows[i].taken) fail_msg("row %zu", i);
        change(connection, "delete from runs where id = $1", &run);
        json_decref(labels);
        json_decref(requires);
    }
}

/* What a run that registers a checkpoint fails of points into the checkpoint, and not into the request for the run. */
static void test_an_error_points_into_the_request_for_the_run_or_nowhere(void **state)
{
    static const struct {
        const char *pointer;
        bool kept;
    } rows[] = {{"/params/name", true}, {"/step", false}, {"", false}};
    struct error error, cause;
    struct connection *connection = connection_of(state);
    const struct queue_result none = {.usage = {.peak_host_bytes = -1, .peak_device_bytes = -1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        json_t *document;
        const struct store_id run = add_member(connection, NULL, 0);
        const struct lease lease = take(connection);
        (void)error_set_at(&cause, STATUS_CONFLICT, rows[i].pointer, "another is there");
        OK(queue_fail(connection, &lease, &cause, &none, &error));
        OK(run_get(connection, run.text, &document, &error));
        const json_t *faults = json_object_get(json_object_get(document, "error"), "errors");
        assert_int_equal(json_array_size(faults), rows[i].kept);
        if (rows[i].kept) assert_string_equal(text_at(json_array_get(faults, 0), "pointer"), rows[i].pointer);
        json_decref(document);
    }
}

static void test_workers_without_a_sign_for_a_day_are_forgotten(void **state)
{
    struct error error;
    struct connection *connection = connection_of(state);
    static const char *const names[] = {"silent", "silent and holds a run", "seen"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct worker_identity worker = {.host = "there", .boot_id = "b", .device = "cpu", .pid = 2, .threads = 1};
        (void)snprintf(worker.id.text, sizeof worker.id.text, "%s", names[i]);
        OK(worker_register(connection, &worker, &error));
    }
    const struct store_id held = enqueue(connection, (struct run_new){.kind = "held"}, STORE_CREATED);
    change(connection,
           "update runs set state = 'running', owner = 'silent and holds a run', worker = 'w', lease_until ="
           " clock_timestamp() where id = $1",
           &held);
    change(connection,
           "update workers set seen_at = clock_timestamp() - interval '25 hours' where id like 'silent%' and"
           " $1::text is not null",
           &held);
    OK(workers_prune(connection, &error));
    static const char counted[] = "select count(*) from workers where id like 's%' and $1::text is not null";
    assert_int_equal(ask(connection, counted, &held), 2);
    change(connection, "delete from runs where id = $1", &held);
    OK(workers_prune(connection, &error));
    assert_int_equal(ask(connection, counted, &held), 1);
    change(connection,
           "update workers set seen_at = clock_timestamp() + interval '25 hours' where id = 'seen' and"
           " $1::text is not null",
           &held);
    OK(workers_prune(connection, &error));
    assert_int_equal(ask(connection, counted, &held), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_priority_goes_before_time_and_that_before_number),
        cmocka_unit_test(test_a_run_is_taken_when_it_is_due),
        cmocka_unit_test(test_a_lease_says_who_has_the_run_and_until_when),
        cmocka_unit_test(test_an_error_points_into_the_request_for_the_run_or_nowhere),
        cmocka_unit_test(test_members_are_leased_with_the_run_that_is_held),
        cmocka_unit_test(test_a_run_waits_for_a_worker_on_the_device_that_it_needs),
        cmocka_unit_test(test_workers_without_a_sign_for_a_day_are_forgotten),
        cmocka_unit_test(test_a_run_waits_for_a_worker_that_has_what_it_requires),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
