/* Jobs that Slurm holds: how long their template gets no others. */
#include "unit.h"

#include "launch/held_jobs.h"

#include <stdlib.h>
#include <string.h>

static struct template templates[2];

static int set_up(void **state)
{
    struct error error;
    (void)state;
    assert_int_equal(template_parse(": --partition=cpu", &templates[0], &error), STATUS_OK);
    assert_int_equal(template_parse("device=cuda: --gres=gpu:1", &templates[1], &error), STATUS_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) template_reset(&templates[i]);
    return 0;
}

/* A look at which the first template has one held job of that number (0: none), and `busy` workers with a run. */
static void look(struct held_jobs *held, int number, int busy)
{
    enum { JOBS_MOST = 4 };
    struct error error;
    struct slurm_job jobs[JOBS_MOST] = {0};
    bool taken[JOBS_MOST] = {false};
    size_t count = 0;
    for (; (int)count < busy; count++) {
        jobs[count] = (struct slurm_job){.hash = templates[0].hash, .handle = "1", .state = "RUNNING"};
        taken[count] = true;
    }
    if (number != 0) {
        jobs[count] = (struct slurm_job){.hash = templates[0].hash,
                                         .pending = true,
                                         .delayed = true,
                                         .held = true,
                                         .state = "PENDING",
                                         .reason = "JobHeldAdmin"};
        (void)snprintf(jobs[count].handle, sizeof jobs[count].handle, "%d", number);
        count++;
    }
    assert_int_equal(held_jobs_look(held, jobs, taken, count, &error), STATUS_OK);
    if (held_jobs_wait(held, &templates[1])) fail_msg("the other template waits");
}

/* Looks without a held job until the template may have jobs again. */
static int looks_until_free(struct held_jobs *held, int busy)
{
    int count = 0;
    for (; held_jobs_wait(held, &templates[0]) && count < 100; count++) look(held, 0, busy);
    return count;
}

static struct held_jobs *make(void)
{
    struct error error;
    struct held_jobs *held = NULL;
    assert_int_equal(held_jobs_new(templates, 2, &held, &error), STATUS_OK);
    return held;
}

static void test_a_template_waits_longer_each_time_that_its_jobs_are_held(void **state)
{
    static const int looks[] = {2, 4, 8, 16, 32, 64, 64}; /* the last of them submits */
    struct held_jobs *held = make();
    (void)state;
    look(held, 0, 0);
    assert_false(held_jobs_wait(held, &templates[0]));
    for (int i = 0; i < 7; i++) {
        look(held, 10 + i, 0);
        assert_true(held_jobs_wait(held, &templates[0]));
        assert_int_equal(looks_until_free(held, 0), looks[i]);
    }
    held_jobs_free(held);
}

static void test_a_held_job_that_stays_in_the_list_counts_once(void **state)
{
    struct held_jobs *held = make();
    (void)state;
    for (int i = 0; i < 2; i++) {
        look(held, 10, 0);
        assert_true(held_jobs_wait(held, &templates[0]));
    }
    for (int i = 0; i < 4; i++) {
        look(held, 10, 0);
        assert_false(held_jobs_wait(held, &templates[0]));
    }
    held_jobs_free(held);
}

static void test_a_worker_that_takes_a_run_ends_the_waiting_but_not_one_that_had_it_before(void **state)
{
    struct held_jobs *held = make();
    (void)state;
    look(held, 10, 1);
    assert_int_equal(looks_until_free(held, 1), 2);
    look(held, 11, 1);
    assert_int_equal(looks_until_free(held, 1), 4);
    look(held, 12, 2);
    assert_int_equal(looks_until_free(held, 2), 2);
    held_jobs_free(held);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_template_waits_longer_each_time_that_its_jobs_are_held),
        cmocka_unit_test(test_a_held_job_that_stays_in_the_list_counts_once),
        cmocka_unit_test(test_a_worker_that_takes_a_run_ends_the_waiting_but_not_one_that_had_it_before),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
