/* What a launcher reads of the queue and writes into it: plans of runs, and jobs that ran out of memory. */
#include "database.h"

#include "store/demand.h"

enum { MIB = 1 << 20, HAD = 600 };

static const char label[] = "launcher=lab";

/* A worker of job 7 with HAD MiB, which holds `count` new runs together. */
static void hold(struct connection *connection, const struct store_id *id, int count, struct lease *leases)
{
    struct error error;
    json_t *labels = json_pack("[s]", label);
    struct worker_identity worker = someone;
    worker.id = *id;
    worker.labels = labels;
    worker.memory_bytes = (int64_t)HAD * MIB;
    (void)snprintf(worker.slurm_job, sizeof worker.slurm_job, "7");
    OK(worker_register(connection, &worker, &error));
    for (int i = 0; i < count; i++) {
        struct leased_run run;
        bool found;
        const struct store_id made = enqueue(connection, (struct run_new){.priority = 50}, STORE_CREATED);
        OK(queue_lease(connection, &worker, test_kind, 1, 30, &found, &run, &error));
        assert_true(found);
        assert_string_equal(run.lease.run.text, made.text);
        leases[i] = run.lease;
        leased_run_reset(&run);
    }
    json_decref(labels);
}

static struct demand_out_of_memory kill_job(struct connection *connection, int64_t most_mib)
{
    struct error error;
    struct demand_out_of_memory out;
    OK(demand_out_of_memory(connection, label, "7", most_mib * MIB, &out, &error));
    assert_int_equal(out.memory_bytes, (int64_t)HAD * MIB);
    return out;
}

static void expect_wanted(struct connection *connection, const struct store_id *run, double mebibytes)
{
    const double wanted = ask(connection, "select memory_wanted / 1048576.0::float8 from runs where id = $1", run);
    if (!(wanted >= mebibytes && wanted <= mebibytes)) fail_msg("%g MiB are wanted, not %g", wanted, mebibytes);
}

static double number(struct connection *connection, const char *column, const struct store_id *run)
{
    char sql[120];
    (void)snprintf(sql, sizeof sql, "select (%s)::float8 from runs where id = $1", column);
    return ask(connection, sql, run);
}

static void forget(struct connection *connection, const struct store_id *run)
{
    change(connection, "delete from runs where id = $1", run);
}

static void test_a_run_that_ran_out_of_memory_asks_for_twice_as_much(void **state)
{
    static const struct {
        int64_t most;
        double wanted;
    } rows[] = {{0, 1200}, {4000, 1200}, {1000, 1000}};
    struct connection *connection = connection_of(state);
    const struct store_id worker = {"worker-7"};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct lease lease;
        hold(connection, &worker, 1, &lease);
        const struct demand_out_of_memory out = kill_job(connection, rows[i].most);
        assert_int_equal(out.raised, 1);
        assert_int_equal(out.failed, 0);
        expect_state(connection, &lease.run, "queued");
        expect_wanted(connection, &lease.run, rows[i].wanted);
        assert_int_equal((int)number(connection, "expiries * 100 + crashes * 10 + attempts", &lease.run), 101);
        assert_int_equal((int)ask(connection,
                                  "select count(*)::float8 from run_events where run = $1 and data ->> 'evidence'"
                                  " = 'the batch system killed job 7, which had 600 MiB: out of memory'",
                                  &lease.run),
                         1);
        assert_int_equal((int)ask(connection, "select count(*)::float8 from workers where $1 <> ''", &lease.run), 0);
        forget(connection, &lease.run);
    }
}

static void test_with_the_most_memory_already_the_run_has_failed_and_says_what_to_do(void **state)
{
    struct connection *connection = connection_of(state);
    struct error error;
    struct lease lease;
    json_t *document;
    const struct store_id worker = {"worker-7"};
    hold(connection, &worker, 1, &lease);
    const struct demand_out_of_memory out = kill_job(connection, HAD);
    assert_int_equal(out.raised, 0);
    assert_int_equal(out.failed, 1);
    OK(run_get(connection, lease.run.text, &document, &error));
    const json_t *why = json_object_get(document, "error");
    assert_string_equal(text_at(document, "state"), "failed");
    assert_string_equal(text_at(why, "code"), "too_large");
    assert_non_null(strstr(text_at(why, "detail"), "killed job 7, which had 600 MiB: out of memory. No job of this"));
    assert_non_null(strstr(text_at(why, "detail"), "--most-memory"));
    json_decref(document);
    forget(connection, &lease.run);
}

/* Nobody knows which of them it was. */
static void test_of_runs_executed_together_none_fails_before_it_was_executed_alone(void **state)
{
    struct connection *connection = connection_of(state);
    struct lease leases[2];
    const struct store_id worker = {"worker-7"};
    hold(connection, &worker, 2, leases);
    change(connection, "update runs set crashes = 1 where id = $1", &leases[1].run);
    assert_int_equal(kill_job(connection, HAD).failed, 0);
    for (int i = 0; i < 2; i++) {
        expect_state(connection, &leases[i].run, "queued");
        assert_int_equal((int)number(connection, "crashes", &leases[i].run), 1 + i);
        forget(connection, &leases[i].run);
    }
    /* The budget holds, too: such a run is leased alone, but was not, say by an older worker. */
    hold(connection, &worker, 2, leases);
    change(connection, "update runs set crashes = 2 where id = $1", &leases[1].run);
    assert_int_equal(kill_job(connection, HAD).failed, 1);
    expect_state(connection, &leases[0].run, "queued");
    expect_state(connection, &leases[1].run, "failed");
    forget(connection, &leases[0].run);
    forget(connection, &leases[1].run);
}

/* The lease ended before the launcher looked, so the run waits already; one that was given back in order is not meant,
 * nor is one that another worker has. */
static void test_what_was_rescued_meanwhile_is_found(void **state)
{
    struct connection *connection = connection_of(state);
    struct error error;
    struct lease leases[3];
    int rescued;
    const struct store_id worker = {"worker-7"};
    hold(connection, &worker, 3, leases);
    OK(queue_release(connection, &leases[0], &error));
    change(connection,
           "update runs set lease_until = clock_timestamp() - interval '1 second', priority = 99"
           " where id = $1",
           &leases[1].run);
    change(connection, "update runs set lease_until = clock_timestamp() - interval '1 second' where id = $1",
           &leases[2].run);
    OK(queue_rescue(connection, 30, &rescued, &error));
    assert_int_equal(rescued, 2);
    assert_string_equal(take(connection).run.text, leases[1].run.text);
    assert_int_equal(kill_job(connection, 0).raised, 1);
    expect_wanted(connection, &leases[2].run, 1200);
    assert_int_equal((int)number(connection, "expiries * 10 + attempts", &leases[2].run), 11);
    expect_state(connection, &leases[1].run, "running");
    for (int i = 0; i < 2; i++)
        assert_int_equal((int)number(connection, "(memory_wanted is null)::int", &leases[i].run), 1);
    for (int i = 0; i < 3; i++) forget(connection, &leases[i].run);
}

static void test_a_run_that_was_to_be_cancelled_is(void **state)
{
    struct connection *connection = connection_of(state);
    struct lease lease;
    const struct store_id worker = {"worker-7"};
    hold(connection, &worker, 1, &lease);
    change(connection, "update runs set cancel_requested_at = clock_timestamp() where id = $1", &lease.run);
    const struct demand_out_of_memory out = kill_job(connection, 0);
    assert_int_equal(out.raised + out.failed, 0);
    expect_state(connection, &lease.run, "cancelled");
    forget(connection, &lease.run);
}

static void test_a_plan_says_what_a_group_of_runs_needs(void **state)
{
    struct connection *connection = connection_of(state);
    struct error error;
    struct store_id runs[2];
    json_t *list, *demand, *on_cuda = json_pack("{s:s}", "device", "cuda");
    for (int i = 0; i < 2; i++)
        runs[i] = enqueue(connection, (struct run_new){.priority = 50, .requires = on_cuda}, STORE_CREATED);
    json_decref(on_cuda);
    OK(demand_unplanned(connection, 1, &list, &error));
    assert_int_equal(json_array_size(list), 1);
    const json_t *first = json_array_get(list, 0);
    assert_string_equal(text_at(first, "id"), runs[0].text);
    assert_string_equal(text_at(first, "device"), "cuda");
    json_decref(list);
    static const struct demand_memory much = {.host = (int64_t)3 * MIB, .device = (int64_t)5 * MIB},
                                      little = {.host = (int64_t)2 * MIB, .device = (int64_t)4 * MIB}, none = {0};
    OK(demand_planned(connection, runs[0].text, &much, 20, &error));
    OK(demand_planned(connection, runs[0].text, &little, 10, &error)); /* what is wanted never falls */
    OK(demand_planned(connection, runs[1].text, &much, 40, &error));
    OK(demand_unplanned(connection, 9, &list, &error));
    assert_int_equal(json_array_size(list), 0);
    json_decref(list);
    OK(demand_read(connection, label, &demand, &error));
    const json_t *group = json_array_get(json_object_get(demand, "groups"), 0);
    assert_int_equal(json_array_size(json_object_get(demand, "groups")), 1);
    assert_string_equal(text_at(group, "device"), "cuda");
    assert_int_equal(json_integer_value(json_object_get(group, "memory_bytes")), 3 * MIB);
    assert_int_equal(json_integer_value(json_object_get(group, "device_memory_bytes")), 5 * MIB);
    assert_int_equal((int)json_number_value(json_object_get(group, "seconds")), 40);
    assert_int_equal(json_integer_value(json_object_get(group, "runs")), 2);
    json_decref(demand);
    OK(demand_planned(connection, runs[1].text, &none, (double)NAN, &error)); /* one of unknown length */
    OK(demand_read(connection, label, &demand, &error));
    assert_true(json_is_null(json_object_get(json_array_get(json_object_get(demand, "groups"), 0), "seconds")));
    json_decref(demand);
    for (int i = 0; i < 2; i++) forget(connection, &runs[i]);
}

/* A pause is at most an hour and a minute: what is due later was put off before the clock was set back. */
static void test_no_job_is_wanted_for_a_run_that_is_to_wait(void **state)
{
    static const struct {
        const char *waits;
        bool wanted;
    } cases[] = {{"-1 second", true}, {"50 seconds", true}, {"70 seconds", false}, {"1 hour", false}, {"1 day", true}};
    struct connection *connection = connection_of(state);
    const struct store_id run = enqueue(connection, (struct run_new){.priority = 50}, STORE_CREATED);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error error;
        json_t *demand;
        OK(connection_execute(connection,
                              "update runs set run_at = clock_timestamp() + $1::text::interval where id = $2",
                              VALUES(value_text(cases[i].waits), value_text(run.text)), NULL, &error));
        OK(demand_read(connection, label, &demand, &error));
        if ((json_array_size(json_object_get(demand, "groups")) > 0) != cases[i].wanted)
            fail_msg("a run that is due in %s", cases[i].waits);
        json_decref(demand);
    }
    forget(connection, &run);
}

static bool claims(struct connection *connection, const char *owner, double seconds, double ahead_seconds)
{
    struct error error;
    struct store_id id = {""};
    bool ours = false;
    (void)snprintf(id.text, sizeof id.text, "%s", owner);
    static const struct demand_memory not_bounded = {0};
    OK(demand_claim(connection, "lab", &id, seconds, ahead_seconds, &not_bounded, &ours, &error));
    return ours;
}

/* An owner that has not said so for 0 seconds has lost its name here, but for what it claimed ahead. */
static void test_a_name_is_its_owners_for_as_long_as_it_was_claimed_ahead(void **state)
{
    struct connection *connection = connection_of(state);
    struct error error;
    const struct store_id second = {"second"};
    assert_true(claims(connection, "first", 0, 200));
    assert_false(claims(connection, "second", 0, 0));
    assert_true(claims(connection, "first", 0, 0)); /* which gives back what was claimed ahead */
    assert_true(claims(connection, "second", 0, 0));
    assert_true(claims(connection, "second", 0, 200)); /* a claim renewed so, too */
    assert_false(claims(connection, "first", 0, 0));
    OK(demand_disclaim(connection, "lab", &second, &error));
}

/* Its owner may always have it, another one when the owner was not seen for 40 s. What was seen a day ahead was seen
 * before the clock was set back. */
static void test_a_name_is_free_when_its_launcher_is_gone(void **state)
{
    static const struct {
        const char *seen;
        bool free;
    } cases[] = {{"-30 seconds", false}, {"-41 seconds", true}, {"30 seconds", false}, {"1 day", true}};
    struct connection *connection = connection_of(state);
    struct error error;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_true(claims(connection, "first", 40, 0));
        OK(connection_execute(connection, "update launchers set seen_at = clock_timestamp() + $1::text::interval",
                              VALUES(value_text(cases[i].seen)), NULL, &error));
        if (claims(connection, "second", 40, 0) != cases[i].free) fail_msg("seen %s ago or ahead", cases[i].seen);
        OK(connection_execute(connection, "delete from launchers", NO_VALUES, NULL, &error));
    }
}

/* The seconds for which a launcher takes the one worker for silent. */
static double silent_seconds(struct connection *connection)
{
    struct error error;
    json_t *demand;
    OK(demand_read(connection, label, &demand, &error));
    const json_t *worker = json_array_get(json_object_get(demand, "workers"), 0);
    const double seconds = json_number_value(json_object_get(worker, "silent"));
    json_decref(demand);
    return seconds;
}

/* Also one that was seen before the clock was set back, and not since. */
static void test_runs_of_a_job_that_is_gone_wait_for_their_workers_silence(void **state)
{
    static const struct {
        const char *seen;
        int released;
    } cases[] = {{"-20 seconds", 0}, {"20 seconds", 0}, {"-30 seconds", 1}, {"1 day", 1}};
    struct connection *connection = connection_of(state);
    const struct store_id worker = {"worker-7"};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error error;
        struct lease lease;
        int released = -1;
        hold(connection, &worker, 1, &lease);
        OK(connection_execute(connection,
                              "update workers set seen_at = clock_timestamp() + $1::text::interval where id = $2",
                              VALUES(value_text(cases[i].seen), value_text(worker.text)), NULL, &error));
        if ((silent_seconds(connection) > 25) != (cases[i].released > 0)) fail_msg("seen %s: silent", cases[i].seen);
        OK(demand_job_gone(connection, label, "7", 25, &released, &error));
        if (released != cases[i].released) fail_msg("seen %s: %d released", cases[i].seen, released);
        expect_state(connection, &lease.run, released > 0 ? "queued" : "running");
        OK(worker_gone(connection, &worker, &error));
        forget(connection, &lease.run);
    }
}

/* Which was 20 s ago: what has ended since may have been about to be renewed. */
static void test_a_launcher_rescues_what_had_ended_when_it_looked(void **state)
{
    static const struct {
        const char *ends;
        int rescued;
    } cases[] = {{"-21 seconds", 1}, {"-10 seconds", 0}, {"30 seconds", 0}, {"59 seconds", 0}, {"1 day", 1}};
    struct connection *connection = connection_of(state);
    const struct store_id worker = {"worker-7"};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error error;
        int rescued = -1;
        struct lease lease;
        hold(connection, &worker, 1, &lease);
        const double now =
            ask(connection, "select extract(epoch from clock_timestamp())::float8 where $1 <> ''", &lease.run);
        OK(connection_execute(
            connection, "update runs set lease_until = to_timestamp($2) + $3::text::interval where id = $1",
            VALUES(value_text(lease.run.text), value_double(now), value_text(cases[i].ends)), NULL, &error));
        OK(queue_rescue_older(connection, now - 20, &rescued, &error));
        if (rescued != cases[i].rescued) fail_msg("a lease that ends in %s: %d rescued", cases[i].ends, rescued);
        forget(connection, &lease.run);
    }
    change(connection, "delete from workers where id = $1", &worker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_run_that_ran_out_of_memory_asks_for_twice_as_much),
        cmocka_unit_test(test_with_the_most_memory_already_the_run_has_failed_and_says_what_to_do),
        cmocka_unit_test(test_of_runs_executed_together_none_fails_before_it_was_executed_alone),
        cmocka_unit_test(test_what_was_rescued_meanwhile_is_found),
        cmocka_unit_test(test_a_run_that_was_to_be_cancelled_is),
        cmocka_unit_test(test_a_plan_says_what_a_group_of_runs_needs),
        cmocka_unit_test(test_no_job_is_wanted_for_a_run_that_is_to_wait),
        cmocka_unit_test(test_a_name_is_its_owners_for_as_long_as_it_was_claimed_ahead),
        cmocka_unit_test(test_a_name_is_free_when_its_launcher_is_gone),
        cmocka_unit_test(test_runs_of_a_job_that_is_gone_wait_for_their_workers_silence),
        cmocka_unit_test(test_a_launcher_rescues_what_had_ended_when_it_looked),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
