/* Which runs a worker leases: those that its device may do, and some of them together. */
#include "database.h"

static struct store_id add_companion(struct connection *connection, const char *companions, int priority)
{
    struct error error;
    enum store_outcome outcome;
    json_t *document, *params = json_pack("{s:i}", "x", 1);
    const struct run_new new = {.kind = "test", .params = params, .companions = companions, .priority = priority};
    OK(run_insert(connection, &new, &outcome, &document, &error));
    const struct store_id id = id_of(document);
    json_decref(document);
    json_decref(params);
    return id;
}

/* Releases what is taken with `lease`, which has to be `expected` in that order. */
static void expect_companions(struct connection *connection, const struct lease *lease, size_t most,
                              const struct store_id *expected, size_t count)
{
    struct error error;
    struct leased_run runs[8];
    size_t found = 9;
    OK(queue_lease_companions(connection, &someone, lease, 30, most, runs, &found, &error));
    assert_int_equal(found, count);
    for (size_t i = 0; i < found; i++) {
        assert_string_equal(runs[i].lease.run.text, expected[i].text);
        assert_non_null(runs[i].params);
        expect_state(connection, &expected[i], "running");
        OK(queue_release(connection, &runs[i].lease, &error));
        leased_run_reset(&runs[i]);
    }
}

static void test_companions_are_leased_with_the_run_that_is_held(void **state)
{
    struct connection *connection = connection_of(state);
    struct error error;
    const struct store_id first = add_companion(connection, "a", 100);
    const struct store_id waiting[] = {add_companion(connection, "a", 90), add_companion(connection, "a", 80),
                                       add_companion(connection, "a", 70)};
    (void)add_companion(connection, "b", 60);
    (void)add_companion(connection, NULL, 50);
    struct lease lease = take(connection);
    assert_string_equal(lease.run.text, first.text);
    expect_companions(connection, &lease, 7, waiting, 3);
    expect_companions(connection, &lease, 2, waiting, 2);
    struct lease stale = lease;
    stale.epoch--;
    expect_companions(connection, &stale, 7, NULL, 0);
    /* another worker is idle: half of them are its */
    const struct worker_identity idle = {.id = {"idle"}, .host = "there", .boot_id = "b", .device = "cpu", .pid = 2, .threads = 1};
    OK(worker_register(connection, &idle, &error));
    expect_companions(connection, &lease, 7, waiting, 1);
    OK(worker_gone(connection, &idle.id, &error));
    /* one more crash or stall is the last: they go alone */
    OK(connection_execute(connection, "update runs set crashes = 2 where id = $1", VALUES(value_text(waiting[0].text)), NULL,
                          &error));
    OK(connection_execute(connection, "update runs set stalls = 2 where id = $1", VALUES(value_text(waiting[1].text)), NULL,
                          &error));
    expect_companions(connection, &lease, 7, waiting + 2, 1);
    OK(connection_execute(connection, "update runs set crashes = 2 where id = $1", VALUES(value_text(first.text)), NULL, &error));
    expect_companions(connection, &lease, 7, NULL, 0);
    OK(queue_release(connection, &lease, &error));
    OK(connection_execute(connection, "update runs set state = 'cancelled', finished_at = clock_timestamp() where state = 'queued'",
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
    json_t *document, *params = json_pack("{s:i}", "x", 1);
    const struct run_new needs = {.kind = "devices", .params = params, .device = "cuda", .priority = 9},
                         any = {.kind = "devices", .params = params};
    bool found, there;
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
    OK(queue_device_there(connection, "cuda", &there, &error));
    assert_false(there);
    OK(worker_register(connection, &cuda, &error));
    OK(queue_device_there(connection, "cuda", &there, &error));
    assert_true(there);
    OK(queue_lease(connection, &cuda, kinds, 1, 30, &found, &run, &error));
    assert_true(found);
    assert_string_equal(run.lease.run.text, picky.text);
    leased_run_reset(&run);
    OK(worker_gone(connection, &cuda.id, &error));
    json_decref(params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_companions_are_leased_with_the_run_that_is_held),
                                       cmocka_unit_test(test_a_run_waits_for_a_worker_on_the_device_that_it_needs)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
