/* The team runs every index once, nested loops run alone, and nothing is lost over many short loops. */
#include "base/team.h"
#include "unit.h"

#include <stdatomic.h>
#include <time.h>

enum { COUNT = 1000 };

struct counter {
    struct team *team;
    _Atomic int64_t times[COUNT];
    atomic_int threads_seen; /* bit by thread */
};

static void count_one(void *context, int64_t i, int thread)
{
    struct counter *counter = context;
    atomic_fetch_add(&counter->times[i], 1);
    atomic_fetch_or(&counter->threads_seen, 1 << thread);
}

static void test_every_index_runs_once(void **state)
{
    (void)state;
    struct error error;
    for (int threads = 1; threads <= 5; threads++) {
        struct counter counter = {0};
        assert_int_equal(team_new(threads, &counter.team, &error), STATUS_OK);
        assert_int_equal(team_size(counter.team), threads);
        for (int64_t count = 0; count <= COUNT; count += 125) team_run(counter.team, count, count_one, &counter);
        for (int64_t i = 0; i < COUNT; i++) assert_int_equal(counter.times[i], 8 - i / 125);
        assert_true(atomic_load(&counter.threads_seen) < 1 << threads);
        team_free(counter.team);
    }
}

static void inner_loop(void *context, int64_t i, int thread)
{
    struct counter *counter = context;
    (void)i, (void)thread;
    team_run(counter->team, COUNT, count_one, counter);
}

static void test_an_inner_loop_runs_alone(void **state)
{
    (void)state;
    struct error error;
    struct counter counter = {0};
    assert_int_equal(team_new(3, &counter.team, &error), STATUS_OK);
    team_run(counter.team, 20, inner_loop, &counter);
    for (int64_t i = 0; i < COUNT; i++) assert_int_equal(counter.times[i], 20);
    assert_int_equal(atomic_load(&counter.threads_seen) & ~1, 0);
    team_free(counter.team);
}

/* Short loops back to back, with now and then a pause long enough for the helpers to fall asleep. */
static void test_many_short_loops(void **state)
{
    (void)state;
    struct error error;
    struct counter counter = {0};
    assert_int_equal(team_new(4, &counter.team, &error), STATUS_OK);
    for (int loop = 0; loop < 20000; loop++) {
        team_run(counter.team, 2 + loop % 7, count_one, &counter);
        if (loop % 2000 == 0) nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    assert_int_equal(counter.times[0], 20000);
    assert_int_equal(counter.times[7], 2857);
    team_free(counter.team);
}

static void test_no_team_runs_on_the_caller(void **state)
{
    (void)state;
    struct counter counter = {0};
    team_run(NULL, COUNT, count_one, &counter);
    assert_int_equal(counter.times[COUNT - 1], 1);
    assert_int_equal(atomic_load(&counter.threads_seen), 1);
    assert_int_equal(team_size(NULL), 1);
    team_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_index_runs_once),
        cmocka_unit_test(test_an_inner_loop_runs_alone),
        cmocka_unit_test(test_many_short_loops),
        cmocka_unit_test(test_no_team_runs_on_the_caller),
    };
    return cmocka_run_group_tests_name("parallel", tests, NULL, NULL);
}
