/* What becomes of a leased run: beats, the fence, and every way in which a lease ends, with its budget and its wait. */
#include "database.h"

#include "store/changes.h"
#include "store/runs.h"
#include "store/statistics.h"

static const struct queue_result nothing = {.usage = {.seconds = 1, .peak_host_bytes = -1, .peak_device_bytes = -1}};

static struct lease begin(struct connection *connection)
{
    const struct store_id run = enqueue(connection, (struct run_new){.priority = 50}, STORE_CREATED);
    const struct lease lease = take(connection);
    assert_string_equal(lease.run.text, run.text);
    return lease;
}

/* Takes that run again, whenever it would be due. */
static struct lease again(struct connection *connection, const struct store_id *run)
{
    change(connection, "update runs set run_at = clock_timestamp(), priority = 99 where id = $1", run);
    const struct lease lease = take(connection);
    assert_string_equal(lease.run.text, run->text);
    return lease;
}

static void forget(struct connection *connection, const struct store_id *run)
{
    change(connection, "delete from runs where id = $1", run);
}

/* Whoever has ended a lease has no part of the run any more. */
static void expect_ended(struct connection *connection, const struct store_id *run, const char *state)
{
    expect_state(connection, run, state);
    assert_true(ask(connection,
                    "select (owner is null and lease_until is null)::int::double precision from runs where id = $1",
                    run) > 0);
}

static void refuse(struct connection *connection, const struct lease *lease)
{
    struct error error, cause;
    bool cancel, open;
    json_t *empty = json_object(), *lines = json_pack("[s]", "a line");
    const struct queue_result result = {.result = empty, .usage = nothing.usage};
    (void)error_set(&cause, STATUS_IO, "a disk coughed");
    GIVES(STATUS_LEASE_LOST, queue_beat(connection, lease, 30, NULL, &cancel, &error));
    GIVES(STATUS_LEASE_LOST, queue_peek(connection, lease, &cancel, &error));
    GIVES(STATUS_LEASE_LOST, queue_log(connection, lease, lines, &error));
    GIVES(STATUS_LEASE_LOST, queue_finish(connection, lease, &result, &error));
    GIVES(STATUS_LEASE_LOST, queue_fail(connection, lease, &cause, &nothing, &error));
    GIVES(STATUS_LEASE_LOST, queue_cancelled(connection, lease, &nothing, &error));
    GIVES(STATUS_LEASE_LOST, queue_release(connection, lease, &error));
    GIVES(STATUS_LEASE_LOST, queue_stalled(connection, lease, "stood still", &error));
    OK(queue_outcome(connection, lease, &open, &error));
    assert_false(open);
    json_decref(lines);
    json_decref(empty);
}

static void test_another_epoch_or_owner_may_do_nothing(void **state)
{
    struct connection *connection = connection_of(state);
    struct error error;
    bool open;
    const struct lease lease = begin(connection);
    struct lease stale = lease, foreign = lease;
    stale.epoch--;
    (void)snprintf(foreign.owner.text, sizeof foreign.owner.text, "worker-2");
    refuse(connection, &stale);
    refuse(connection, &foreign);
    expect_state(connection, &lease.run, "running");
    assert_true(ask(connection, "select count(*)::double precision from run_events where run = $1 and type = 'log'",
                    &lease.run) < 1);
    OK(queue_outcome(connection, &lease, &open, &error));
    assert_true(open);
    OK(queue_release(connection, &lease, &error));
    refuse(connection, &lease);
    expect_ended(connection, &lease.run, "queued");
    forget(connection, &lease.run);
}

static void test_a_beat_renews_the_lease_and_tells_of_a_cancel(void **state)
{
    struct connection *connection = connection_of(state);
    const struct queue_progress progress = {.done = 3, .total = 9, .unit = "block", .eta_seconds = 4};
    struct error error;
    json_t *document;
    bool cancel = true;
    const struct lease lease = begin(connection);
    OK(queue_beat(connection, &lease, 500, &progress, &cancel, &error));
    assert_false(cancel);
    const double left =
        ask(connection,
            "select extract(epoch from lease_until - clock_timestamp())::double precision from runs where id = $1",
            &lease.run);
    if (!(left > 490 && left <= 500)) fail_msg("%g s are left", left);
    OK(queue_beat(connection, &lease, 30, NULL, &cancel, &error)); /* without progress it stays */
    OK(run_get(connection, lease.run.text, &document, &error));
    const json_t *told = json_object_get(document, "progress");
    assert_true(json_integer_value(json_object_get(told, "done")) == 3 &&
                json_integer_value(json_object_get(told, "total")) == 9);
    assert_string_equal(text_at(told, "unit"), "block");
    json_decref(document);
    OK(run_cancel(connection, lease.run.text, &document, &error));
    json_decref(document);
    OK(queue_beat(connection, &lease, 30, NULL, &cancel, &error));
    assert_true(cancel);
    OK(queue_cancelled(connection, &lease, &nothing, &error));
    expect_ended(connection, &lease.run, "cancelled");
    forget(connection, &lease.run);
}

static void test_a_success_has_its_result_and_what_it_used(void **state)
{
    struct connection *connection = connection_of(state);
    struct error error;
    json_t *document, *answer = json_pack("{s:f}", "loss", 2.5);
    const struct lease lease = begin(connection);
    const struct queue_result result = {.result = answer, .usage = {7, 1000, -1, 0}};
    OK(queue_finish(connection, &lease, &result, &error));
    OK(run_get(connection, lease.run.text, &document, &error));
    const json_t *usage = json_object_get(document, "usage");
    assert_true(json_real_value(json_object_get(json_object_get(document, "result"), "loss")) == 2.5);
    assert_true(json_number_value(json_object_get(usage, "seconds")) == 7);
    assert_int_equal(json_integer_value(json_object_get(usage, "peak_host_bytes")), 1000);
    assert_true(json_is_null(json_object_get(usage, "peak_device_bytes")));
    expect_ended(connection, &lease.run, "succeeded");
    json_decref(document);
    json_decref(answer);
    forget(connection, &lease.run);
}

/* ---- failing ---- */

static void fail_once(struct connection *connection, const struct lease *lease, enum status status, int again_seconds)
{
    struct error error, cause;
    (void)error_set(&cause, status, "it did not go well");
    cause.again_seconds = again_seconds;
    OK(queue_fail(connection, lease, &cause, &nothing, &error));
}

static void expect_files(struct connection *connection, const struct store_id *run, size_t count)
{
    struct error error;
    json_t *document;
    OK(run_artifacts(connection, run->text, &document, &error));
    assert_int_equal(json_array_size(json_object_get(document, "items")), count);
    json_decref(document);
}

/* What a run left is recorded once it has ended, in whatever way, and not while it is tried again. */
static void test_what_a_run_left_is_shown_at_its_end(void **state)
{
    struct connection *connection = connection_of(state);
    struct error error, cause;
    const struct queue_artifact file = {.name = "training.csv", .media_type = "text/csv", .bytes = 3};
    for (int end = 0; end < 3; end++) {
        struct queue_artifact left = file;
        const struct lease lease = begin(connection);
        const struct queue_result result = {.artifacts = &left, .artifact_count = 1, .usage = nothing.usage};
        memset(left.sha256, '0' + end, sizeof left.sha256 - 1);
        (void)error_set(&cause, end == 0 ? STATUS_IO : STATUS_NOT_FINITE, "it did not go well");
        if (end == 2)
            change(connection, "update runs set cancel_requested_at = clock_timestamp() where id = $1", &lease.run);
        OK(end == 2 ? queue_cancelled(connection, &lease, &result, &error)
                    : queue_fail(connection, &lease, &cause, &result, &error));
        expect_state(connection, &lease.run, (const char *[]){"queued", "failed", "cancelled"}[end]);
        expect_files(connection, &lease.run, end == 0 ? 0 : 1);
        if (end == 1) {
            json_t *document;
            OK(run_retry(connection, lease.run.text, 0, &document, &error));
            json_decref(document);
            expect_files(connection, &lease.run, 0);
        }
        forget(connection, &lease.run);
    }
}

/* How many times a run is tried that fails with the same error each time. */
static int tries_of(struct connection *connection, enum status status)
{
    struct lease lease = begin(connection);
    int tries = 1;
    for (fail_once(connection, &lease, status, 0);; fail_once(connection, &lease, status, 0), tries++) {
        if (ask(connection, "select (state = 'queued')::int::double precision from runs where id = $1", &lease.run) < 1)
            break;
        lease = again(connection, &lease.run);
    }
    expect_ended(connection, &lease.run, "failed");
    forget(connection, &lease.run);
    return tries;
}

static void test_errors_have_a_budget_by_their_kind(void **state)
{
    struct connection *connection = connection_of(state);
    assert_int_equal(tries_of(connection, STATUS_INVALID), 1);
    assert_int_equal(tries_of(connection, STATUS_IO), 3);
    assert_int_equal(tries_of(connection, STATUS_UNAVAILABLE), 12);
}

static double wait_of(struct connection *connection, const struct store_id *run)
{
    return ask(connection,
               "select extract(epoch from run_at - clock_timestamp())::double precision from runs where id = $1", run);
}

/* Anywhere between now and two to the power of the tries before, a minute at most; not before what the error
 * asks for. */
static void test_a_retry_waits(void **state)
{
    struct connection *connection = connection_of(state);
    double longest = 0, shortest = 60;
    for (int i = 0; i < 12; i++) {
        struct lease lease = begin(connection);
        change(connection, "update runs set tries = 9 where id = $1", &lease.run);
        fail_once(connection, &lease, STATUS_UNAVAILABLE, 0);
        const double seconds = wait_of(connection, &lease.run);
        assert_true(seconds < 60);
        longest = fmax(longest, seconds);
        shortest = fmin(shortest, seconds);
        forget(connection, &lease.run);
    }
    if (!(longest > 10 && shortest < 50))
        fail_msg("waits from %g to %g s", shortest, longest); /* by chance once in 10^9 */
    const struct lease first = begin(connection);
    fail_once(connection, &first, STATUS_UNAVAILABLE, 0);
    assert_true(wait_of(connection, &first.run) < 1);
    const struct lease asked = again(connection, &first.run);
    fail_once(connection, &asked, STATUS_UNAVAILABLE, 40);
    assert_true(wait_of(connection, &first.run) > 35 && wait_of(connection, &first.run) < 43);
    forget(connection, &first.run);
}

/* However its lease ends, a run that somebody wants to stop is not tried again. */
static void test_what_is_to_be_cancelled_is_not_tried_again(void **state)
{
    struct connection *connection = connection_of(state);
    struct error error;
    for (int way = 0; way < 4; way++) {
        json_t *document;
        const struct lease lease = begin(connection);
        OK(run_cancel(connection, lease.run.text, &document, &error));
        json_decref(document);
        if (way == 0) fail_once(connection, &lease, STATUS_IO, 0);
        if (way == 1) OK(queue_release(connection, &lease, &error));
        if (way == 2) OK(queue_stalled(connection, &lease, "stood still", &error));
        if (way == 3)
            OK(queue_release_dead(connection, &lease.owner, QUEUE_CRASHED, "killed by signal 9", NULL, &error));
        expect_ended(connection, &lease.run, "cancelled");
        assert_true(
            ask(connection,
                "select (finished_at is not null and error is null)::int::double precision from runs where id = $1",
                &lease.run) > 0);
        forget(connection, &lease.run);
    }
}

static void test_the_third_stall_fails_the_run(void **state)
{
    struct connection *connection = connection_of(state);
    struct error error;
    struct lease lease = begin(connection);
    for (int i = 1; i <= 3; i++) {
        OK(queue_stalled(connection, &lease, "stood still for a minute", &error));
        expect_ended(connection, &lease.run, i < 3 ? "queued" : "failed");
        assert_true(ask(connection, "select stalls::double precision from runs where id = $1", &lease.run) == i);
        if (i < 3) lease = again(connection, &lease.run);
    }
    forget(connection, &lease.run);
}

static void test_a_release_counts_nothing(void **state)
{
    struct connection *connection = connection_of(state);
    struct error error;
    struct lease lease = begin(connection);
    for (int i = 0; i < 5; i++) {
        OK(queue_release(connection, &lease, &error));
        expect_ended(connection, &lease.run, "queued");
        assert_true(ask(connection, "select (tries + crashes + stalls)::double precision from runs where id = $1",
                        &lease.run) < 1);
        lease = again(connection, &lease.run);
    }
    forget(connection, &lease.run);
}

/* The first crash keeps its place in the queue, the second waits; only its own worker's death ends a lease, and what is
 * known of it is kept. */
static void test_crashes_are_of_one_worker_and_wait_from_the_second_on(void **state)
{
    struct connection *connection = connection_of(state);
    const struct store_id other = {"worker-2"};
    struct error error;
    int released = -1;
    struct lease lease = begin(connection);
    change(connection, "update runs set run_at = clock_timestamp() - interval '1 hour' where id = $1", &lease.run);
    OK(queue_release_dead(connection, &other, QUEUE_CRASHED, "killed by signal 9", &released, &error));
    assert_int_equal(released, 0);
    expect_state(connection, &lease.run, "running");
    OK(queue_release_dead(connection, &lease.owner, QUEUE_CRASHED, "killed by signal 9", &released, &error));
    assert_int_equal(released, 1);
    assert_true(wait_of(connection, &lease.run) < -3500);
    assert_true(ask(connection,
                    "select count(*)::double precision from run_events where run = $1 and data ->> 'evidence' = 'killed"
                    " by signal 9'",
                    &lease.run) == 1);
    lease = take(connection);
    OK(queue_release_dead(connection, &lease.owner, QUEUE_CRASHED, "killed by signal 11", NULL, &error));
    assert_true(wait_of(connection, &lease.run) > -1);
    lease = again(connection, &lease.run);
    OK(queue_release_dead(connection, &lease.owner, QUEUE_CRASHED, "killed by signal 11", NULL, &error));
    expect_ended(connection, &lease.run, "failed");
    forget(connection, &lease.run);
}

/* A worker that vanished is no crash: the run goes on long after three of them, and ends in the end. */
static void test_an_expired_lease_is_no_crash(void **state)
{
    struct connection *connection = connection_of(state);
    struct error error;
    int rescued;
    struct lease lease = begin(connection);
    for (int i = 1; i <= QUEUE_EXPIRY_BUDGET; i++) {
        change(connection, "update runs set lease_until = clock_timestamp() - interval '1 second' where id = $1",
               &lease.run);
        if (i % 2 == 0)
            OK(queue_rescue(connection, 30, &rescued, &error));
        else
            OK(queue_release_dead(connection, &lease.owner, QUEUE_VANISHED, "gone", &rescued, &error));
        assert_int_equal(rescued, 1);
        expect_ended(connection, &lease.run, i < QUEUE_EXPIRY_BUDGET ? "queued" : "failed");
        assert_true(ask(connection, "select crashes::double precision from runs where id = $1", &lease.run) < 1);
        assert_true(ask(connection, "select attempts::double precision from runs where id = $1", &lease.run) == i);
        if (i < QUEUE_EXPIRY_BUDGET) lease = again(connection, &lease.run);
    }
    forget(connection, &lease.run);
}

/* What was counted is forgotten at 5 % more than ever before, in each unit of progress; the same 5 % count once. */
static void test_counts_are_forgotten_with_progress(void **state)
{
    static const struct {
        int64_t done;
        const char *unit;
        bool forgotten;
    } beats[] = {
        {4, "step", false},  {6, "step", true},   {10, "step", false},  {11, "step", true}, {2, "step", false},
        {11, "step", false}, {20, "block", true}, {20, "block", false}, {20, "step", true}, {21, "step", false},
    };
    struct connection *connection = connection_of(state);
    const struct lease lease = begin(connection);
    for (size_t i = 0; i < sizeof beats / sizeof beats[0]; i++) {
        struct error error;
        bool cancel;
        struct queue_progress progress = {.done = beats[i].done, .total = 100, .eta_seconds = NAN};
        (void)snprintf(progress.unit, sizeof progress.unit, "%s", beats[i].unit);
        change(connection,
               "update runs set tries = 1, crashes = 2, stalls = 1, expiries = 5, attempts = 9 where id = $1",
               &lease.run);
        OK(queue_beat(connection, &lease, 30, &progress, &cancel, &error));
        OK(queue_beat(connection, &lease, 30, NULL, &cancel, &error));
        const double left =
            ask(connection, "select (tries + crashes + stalls + expiries)::double precision from runs where id = $1",
                &lease.run);
        if (left != (beats[i].forgotten ? 0 : 9)) fail_msg("beat %zu: %g are left", i, left);
        assert_true(ask(connection, "select attempts::double precision from runs where id = $1", &lease.run) == 9);
    }
    forget(connection, &lease.run);
}

/* A lease of 30 s ends after 30 s; one that ends more than a minute ahead was given by a clock that has been
 * set back. */
static void test_leases_are_rescued_when_they_have_ended(void **state)
{
    static const struct {
        const char *sql;
        int rescued;
    } cases[] = {
        {"update runs set lease_until = clock_timestamp() - interval '1 second' where id = $1", 1},
        {"update runs set lease_until = clock_timestamp() + interval '5 seconds' where id = $1", 0},
        {"update runs set lease_until = clock_timestamp() + interval '50 seconds' where id = $1", 0},
        {"update runs set lease_until = clock_timestamp() + interval '70 seconds' where id = $1", 1},
    };
    struct connection *connection = connection_of(state);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error error;
        int rescued = -1;
        const struct lease lease = begin(connection);
        change(connection, cases[i].sql, &lease.run);
        OK(queue_rescue(connection, 30, &rescued, &error));
        if (rescued != cases[i].rescued) fail_msg("%s: %d rescued", cases[i].sql, rescued);
        forget(connection, &lease.run);
    }
}

/* The last number of the sample that begins with these labels. */
static int64_t sample(const json_t *document, const char *name, const char *kind, const char *of)
{
    size_t i;
    const json_t *one;
    json_array_foreach(json_object_get(document, name), i, one)
    {
        if (strcmp(json_string_value(json_array_get(one, 0)), kind) != 0) continue;
        if (of == NULL) return json_integer_value(json_array_get(one, 1));
        if (strcmp(json_string_value(json_array_get(one, 1)), of) == 0)
            return json_integer_value(json_array_get(one, 2));
    }
    return -1;
}

static json_t *statistics(struct connection *connection)
{
    struct error error;
    json_t *document, *named = json_pack("[s, s]", "test", "other");
    OK(changes_number(connection, &error));
    OK(statistics_read(connection, named, &document, &error));
    json_decref(named);
    return document;
}

static void test_what_waits_and_runs_is_counted(void **state)
{
    struct connection *connection = connection_of(state);
    json_t *document;
    const struct store_id waiting = enqueue(connection, (struct run_new){.priority = -1}, STORE_CREATED);
    const struct lease lease = begin(connection);
    document = statistics(connection);
    assert_int_equal(sample(document, "runs", "test", "queued"), 1);
    assert_int_equal(sample(document, "queue_length", "test", NULL), 1);
    assert_int_equal(sample(document, "runs", "test", "running"), 1);
    assert_int_equal(json_integer_value(json_object_get(document, "leases")), 1);
    assert_int_equal(sample(document, "runs", "other", "queued"), 0);
    json_decref(document);
    forget(connection, &lease.run);
    forget(connection, &waiting);
}

/* Every way for a lease to end, and what is counted of it. */
static void test_ends_of_leases_are_counted_and_stay_counted(void **state)
{
    struct connection *connection = connection_of(state);
    struct error error, cause;
    static const char *const names[] = {"run_crashes_total", "run_expiries_total", "run_stalls_total",
                                        "run_rescues_total", "run_retries_total",  "run_releases_total"};
    static const int after[][6] = {
        {1, 0, 0, 1, 0, 0}, {1, 1, 0, 2, 0, 0}, {1, 1, 1, 2, 0, 0}, {1, 1, 1, 2, 0, 1}, {1, 1, 1, 2, 1, 1}};
    enum { ENDS = sizeof after / sizeof after[0], NAMES = sizeof names / sizeof names[0] };
    int64_t before[NAMES];
    json_t *document = statistics(connection);
    for (int i = 0; i < NAMES; i++) before[i] = sample(document, names[i], "test", NULL);
    json_decref(document);
    (void)error_set(&cause, STATUS_UNAVAILABLE, "away");
    for (int end = 0; end < ENDS; end++) {
        const struct lease lease = begin(connection);
        if (end == 0) OK(queue_release_dead(connection, &lease.owner, QUEUE_CRASHED, "killed", NULL, &error));
        if (end == 1) OK(queue_release_dead(connection, &lease.owner, QUEUE_VANISHED, "gone", NULL, &error));
        if (end == 2) OK(queue_stalled(connection, &lease, "still", &error));
        if (end == 3) OK(queue_release(connection, &lease, &error));
        if (end == 4) OK(queue_fail(connection, &lease, &cause, &nothing, &error));
        forget(connection, &lease.run);
        document = statistics(connection);
        for (int i = 0; i < NAMES; i++)
            if (sample(document, names[i], "test", NULL) - before[i] != after[end][i])
                fail_msg("end %d: %s is %lld", end, names[i], (long long)sample(document, names[i], "test", NULL));
        assert_int_equal(sample(document, "runs", "test", "queued"), 0); /* it was deleted */
        json_decref(document);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_another_epoch_or_owner_may_do_nothing),
        cmocka_unit_test(test_a_beat_renews_the_lease_and_tells_of_a_cancel),
        cmocka_unit_test(test_a_success_has_its_result_and_what_it_used),
        cmocka_unit_test(test_what_a_run_left_is_shown_at_its_end),
        cmocka_unit_test(test_errors_have_a_budget_by_their_kind),
        cmocka_unit_test(test_a_retry_waits),
        cmocka_unit_test(test_what_is_to_be_cancelled_is_not_tried_again),
        cmocka_unit_test(test_the_third_stall_fails_the_run),
        cmocka_unit_test(test_a_release_counts_nothing),
        cmocka_unit_test(test_crashes_are_of_one_worker_and_wait_from_the_second_on),
        cmocka_unit_test(test_an_expired_lease_is_no_crash),
        cmocka_unit_test(test_counts_are_forgotten_with_progress),
        cmocka_unit_test(test_leases_are_rescued_when_they_have_ended),
        cmocka_unit_test(test_what_waits_and_runs_is_counted),
        cmocka_unit_test(test_ends_of_leases_are_counted_and_stay_counted),
    };
    return cmocka_run_group_tests_name("queue_ends", tests, set_up, tear_down);
}
