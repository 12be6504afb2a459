/* Runs as they are asked for: equal ones, cancelling, trying again, events, and how fast they were. */
#include "database.h"

static const struct queue_result nothing = {.usage = {.peak_host_bytes = -1, .peak_device_bytes = -1}};

static struct lease take_run(struct connection *connection, const struct store_id *run)
{
    change(connection, "update runs set run_at = clock_timestamp(), priority = 99 where id = $1", run);
    const struct lease lease = take(connection);
    assert_string_equal(lease.run.text, run->text);
    return lease;
}

static void succeed(struct connection *connection, const struct store_id *run)
{
    struct error error;
    json_t *empty = json_object();
    const struct lease lease = take_run(connection, run);
    const struct queue_result result = {.result = empty, .usage = nothing.usage};
    OK(queue_finish(connection, &lease, &result, &error));
    json_decref(empty);
}

static void fail_run(struct connection *connection, const struct store_id *run)
{
    struct error error, cause;
    const struct lease lease = take_run(connection, run);
    (void)error_set(&cause, STATUS_INVALID, "cannot be");
    OK(queue_fail(connection, &lease, &cause, &nothing, &error));
}

static void cancel(struct connection *connection, const struct store_id *run, const char *state)
{
    struct error error;
    json_t *document;
    OK(run_cancel(connection, run->text, &document, &error));
    assert_string_equal(text_at(document, "state"), state);
    assert_true(json_is_true(json_object_get(document, "cancel_requested")));
    json_decref(document);
}

/* Equal by content, or asked for in the same words; what failed or was cancelled is made again. */
static void test_equal_runs_are_one_while_one_may_succeed(void **state)
{
    struct connection *connection = connection_of(state);
    const struct run_new new = {.dedupe_key = "content", .named_key = "words"};
    const struct store_id first = enqueue(connection, new, STORE_CREATED);
    const struct store_id same =
        enqueue(connection, (struct run_new){.dedupe_key = "other", .named_key = "words"}, STORE_EXISTED);
    const struct store_id equal =
        enqueue(connection, (struct run_new){.dedupe_key = "content", .named_key = "x"}, STORE_EXISTED);
    assert_string_equal(first.text, same.text);
    assert_string_equal(first.text, equal.text);
    fail_run(connection, &first);
    const struct store_id second = enqueue(connection, new, STORE_CREATED);
    assert_string_not_equal(first.text, second.text);
    cancel(connection, &second, "cancelled");
    const struct store_id third = enqueue(connection, new, STORE_CREATED);
    assert_string_not_equal(second.text, third.text);
    succeed(connection, &third);
    const struct store_id fourth = enqueue(connection, new, STORE_EXISTED);
    assert_string_equal(third.text, fourth.text);
    change(connection, "delete from runs where $1::text is not null", &first);
}

/* The requirements of a run that waits may be those of no worker there is. */
static void test_equal_runs_that_wait_are_one_if_they_require_the_same(void **state)
{
    struct connection *connection = connection_of(state);
    json_t *on_cuda = json_pack("{ss}", "device", "cuda");
    const struct run_new demanding = {.dedupe_key = "content", .named_key = "words", .requires = on_cuda},
                         modest = {.dedupe_key = "content", .named_key = "words", .priority = 5};
    const struct store_id first = enqueue(connection, demanding, STORE_CREATED),
                          second = enqueue(connection, modest, STORE_CREATED),
                          third = enqueue(connection, demanding, STORE_EXISTED),
                          fourth = enqueue(connection, modest, STORE_EXISTED);
    assert_string_equal(first.text, third.text);
    assert_string_equal(second.text, fourth.text);
    const struct store_id hasty = enqueue(
        connection, (struct run_new){.dedupe_key = "content", .requires = on_cuda, .priority = 9}, STORE_EXISTED);
    assert_string_equal(first.text, hasty.text);
    assert_true(ask(connection, "select priority from runs where id = $1", &first) > 8);
    assert_true(ask(connection, "select priority from runs where id = $1", &second) < 6);
    succeed(connection, &second);
    const struct store_id last = enqueue(connection, demanding, STORE_EXISTED); /* the result is what was asked for */
    assert_string_equal(second.text, last.text);
    json_decref(on_cuda);
    change(connection, "delete from runs where $1::text is not null", &first);
}

static void test_what_is_being_cancelled_is_not_joined(void **state)
{
    struct connection *connection = connection_of(state);
    struct error error;
    const struct run_new new = {.dedupe_key = "content", .named_key = "words"};
    const struct store_id first = enqueue(connection, new, STORE_CREATED);
    const struct lease lease = take_run(connection, &first);
    cancel(connection, &first, "running");
    const struct store_id second = enqueue(connection, new, STORE_CREATED),
                          third = enqueue(connection, new, STORE_EXISTED);
    assert_string_equal(second.text, third.text);
    OK(queue_release(connection, &lease, &error));
    expect_state(connection, &first, "cancelled");
    cancel(connection, &second, "cancelled");
    const struct store_id fourth = enqueue(connection, new, STORE_CREATED);
    assert_true(ask(connection, "select forced::int from runs where id = $1", &fourth) < 0.5);
    change(connection, "delete from runs where $1::text is not null", &first);
}

static void test_cancelling_depends_on_the_state(void **state)
{
    struct connection *connection = connection_of(state);
    struct error error;
    json_t *document;
    const struct store_id queued = enqueue(connection, (struct run_new){.priority = 0}, STORE_CREATED);
    cancel(connection, &queued, "cancelled"); /* at once */
    cancel(connection, &queued, "cancelled"); /* and again the same */
    const struct store_id running = enqueue(connection, (struct run_new){.priority = 0}, STORE_CREATED);
    const struct lease lease = take_run(connection, &running);
    cancel(connection, &running, "running"); /* by its worker */
    OK(queue_release(connection, &lease, &error));
    expect_state(connection, &running, "cancelled");
    const struct store_id done = enqueue(connection, (struct run_new){.priority = 0}, STORE_CREATED);
    succeed(connection, &done);
    GIVES(STATUS_CONFLICT, run_cancel(connection, done.text, &document, &error));
    assert_non_null(strstr(error.detail, "succeeded"));
    const struct store_id failed = enqueue(connection, (struct run_new){.priority = 0}, STORE_CREATED);
    fail_run(connection, &failed);
    GIVES(STATUS_CONFLICT, run_cancel(connection, failed.text, &document, &error));
    GIVES(STATUS_NOT_FOUND, run_cancel(connection, "nobody", &document, &error));
    change(connection, "delete from runs where $1::text is not null", &done);
}

/* As if it had never been taken, but for its epoch. */
static void test_trying_again_begins_anew(void **state)
{
    struct connection *connection = connection_of(state);
    struct error error;
    json_t *document;
    const struct store_id run = enqueue(connection, (struct run_new){.priority = 0}, STORE_CREATED);
    GIVES(STATUS_CONFLICT, run_retry(connection, run.text, 0, &document, &error));
    fail_run(connection, &run);
    change(connection,
           "update runs set tries = 1, crashes = 2, stalls = 1, expiries = 4, attempts = 8,"
           " progress_done = 3, progress_total = 4, usage_seconds = 5,"
           " usage_host_bytes = 6, usage_work = 7, cancel_requested_at = clock_timestamp() where id = $1",
           &run);
    OK(run_retry(connection, run.text, 0, &document, &error));
    assert_string_equal(text_at(document, "state"), "queued");
    assert_int_equal(json_integer_value(json_object_get(document, "attempt")), 0);
    static const char *const absent[] = {"error", "started_at", "finished_at", "worker", "device", "result"};
    for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++)
        if (!json_is_null(json_object_get(document, absent[i]))) fail_msg("%s is left", absent[i]);
    assert_true(json_is_false(json_object_get(document, "cancel_requested")));
    assert_int_equal(json_integer_value(json_object_get(json_object_get(document, "progress"), "done")), 0);
    assert_true(json_is_null(json_object_get(json_object_get(document, "usage"), "seconds")));
    json_decref(document);
    assert_true(ask(connection,
                    "select (tries + crashes + stalls + expiries)::double precision from runs where id = $1",
                    &run) < 1);
    succeed(connection, &run);
    GIVES(STATUS_CONFLICT, run_retry(connection, run.text, 0, &document, &error));
    assert_non_null(strstr(error.detail, "succeeded"));
    change(connection, "delete from runs where id = $1", &run);
}

/* Oldest first, each once, whatever the size of the pages. */
static void test_events_are_read_by_pages(void **state)
{
    struct connection *connection = connection_of(state);
    struct error error;
    json_t *document, *lines = json_pack("[s, s, s]", "one", "two", "three");
    const struct store_id run = enqueue(connection, (struct run_new){.priority = 0}, STORE_CREATED);
    const struct lease lease = take_run(connection, &run);
    static const char *const expected[] = {"queued", "running", "one", "two", "three"};
    json_int_t last = 0;
    OK(queue_log(connection, &lease, lines, &error));
    for (int i = 0; i < 5; i += 2) {
        OK(run_events(connection, run.text, last, 2, &document, &error));
        assert_int_equal(json_array_size(document), i < 4 ? 2 : 1);
        for (size_t k = 0; k < json_array_size(document); k++) {
            const json_t *event = json_array_get(document, k), *data = json_object_get(event, "data");
            assert_string_equal(text_at(data, i + (int)k < 2 ? "to" : "line"), expected[i + (int)k]);
            assert_true(json_integer_value(json_object_get(event, "id")) > last);
            last = json_integer_value(json_object_get(event, "id"));
        }
        json_decref(document);
    }
    OK(run_events(connection, run.text, last, 2, &document, &error));
    assert_int_equal(json_array_size(document), 0);
    json_decref(document);
    json_decref(lines);
    change(connection, "delete from runs where id = $1", &run);
}

static void add_timed(struct connection *connection, const char *device, const char *params, double work,
                      double seconds)
{
    struct error error;
    const struct store_id run = enqueue(connection, (struct run_new){.kind = "timed"}, STORE_CREATED);
    OK(connection_execute(connection, "update run_specs set params = $2::text::json where run = $1",
                          VALUES(value_text(run.text), value_text(params)), NULL, &error));
    OK(connection_execute(
        connection,
        "update runs set state = 'succeeded', finished_at = clock_timestamp(), device = $2, usage_work = $3,"
        " result_epoch = epoch,"
        " usage_seconds = $4 where id = $1",
        VALUES(value_text(run.text), value_text(device), value_double(work), value_double(seconds)), NULL, &error));
}

/* Rates of 1, 2, 3, 4 and 50 near the work asked about: 3; a larger run, another device and another precision do not
 * count. */
static void test_rates_are_the_median_of_the_nearest_five(void **state)
{
    struct connection *connection = connection_of(state);
    struct error error;
    const struct run_like plain = {"timed", "cpu", NULL, 100}, narrow = {"timed", "cpu", "bf16", 100};
    double rate;
    int64_t count;
    OK(run_rate(connection, &plain, &rate, &count, &error));
    assert_true(count == 0 && rate <= 0);
    add_timed(connection, "cuda:0", "{}", 100, 1);
    add_timed(connection, "cpu", "{\"precision\": \"bf16\"}", 100, 10);
    add_timed(connection, "cpu", "{}", 100, 100);
    add_timed(connection, "cpu", "{}", 100, 50);
    OK(run_rate(connection, &plain, &rate, &count, &error));
    assert_true(count == 2 && fabs(rate - 1.5) < 1e-12);
    OK(run_rate(connection, &narrow, &rate, &count, &error));
    assert_true(count == 1 && fabs(rate - 10) < 1e-12);
    add_timed(connection, "cpu", "{}", 120, 40);
    add_timed(connection, "cpu", "{}", 80, 20);
    add_timed(connection, "cpu", "{}", 100, 2);
    add_timed(connection, "cpu", "{}", 1e6, 1);
    OK(run_rate(connection, &plain, &rate, &count, &error));
    assert_true(count == 5 && fabs(rate - 3) < 1e-12);
    OK(connection_execute(connection, "delete from runs where kind = 'timed'", NO_VALUES, NULL, &error));
}

/* 10,000 wait: one more is refused, and with one less it is not. */
static void test_the_queue_holds_ten_thousand(void **state)
{
    struct connection *connection = connection_of(state);
    struct error error;
    enum store_outcome outcome;
    json_t *document = NULL, *params = json_object();
    const struct run_new new = {.kind = "test", .params = params};
    connection_set_deadline(connection, 120000); /* ten thousand rows on a busy machine */
    OK(connection_execute(connection, "delete from runs where state = 'queued'", NO_VALUES, NULL, &error));
    OK(connection_execute(connection, "insert into runs (kind) select 'flood' from generate_series(1, 9999)", NO_VALUES,
                          NULL, &error));
    (void)enqueue(connection, (struct run_new){.priority = 0}, STORE_CREATED);
    GIVES(STATUS_TOO_MANY, run_insert(connection, &new, &outcome, &document, &error));
    OK(connection_execute(connection, "delete from runs where state = 'queued'", NO_VALUES, NULL, &error));
    connection_set_deadline(connection, 0);
    json_decref(params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_runs_are_one_while_one_may_succeed),
        cmocka_unit_test(test_equal_runs_that_wait_are_one_if_they_require_the_same),
        cmocka_unit_test(test_what_is_being_cancelled_is_not_joined),
        cmocka_unit_test(test_cancelling_depends_on_the_state),
        cmocka_unit_test(test_trying_again_begins_anew),
        cmocka_unit_test(test_events_are_read_by_pages),
        cmocka_unit_test(test_rates_are_the_median_of_the_nearest_five),
        cmocka_unit_test(test_the_queue_holds_ten_thousand),
    };
    return cmocka_run_group_tests_name("runs", tests, set_up, tear_down);
}
