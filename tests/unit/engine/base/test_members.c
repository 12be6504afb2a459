/* A batch: whoever fails, is stopped or finishes ends once, and the others go on. */
#include "base/members.h"
#include "unit.h"

#include <stdio.h>
#include <string.h>

enum { COUNT = 3 };

struct follower {
    struct member member;
    struct monitor monitor;
    enum status stop; /* what its monitor says */
    int64_t steps, ends, done;
    enum status status;
    char line[32], detail[sizeof((struct error *)0)->detail];
};

struct batch {
    struct members members;
    struct follower followers[COUNT];
};

static enum status follower_check(void *owner, struct error *error)
{
    const struct follower *follower = owner;
    return follower->stop == STATUS_OK ? STATUS_OK : error_set(error, follower->stop, "stopped");
}

static void follower_progress(void *owner, int64_t done, int64_t total, const char *unit)
{
    struct follower *follower = owner;
    assert_int_equal(total, 9);
    assert_string_equal(unit, "block");
    follower->done = done;
}

static void follower_log(void *owner, const char *line)
{
    struct follower *follower = owner;
    (void)snprintf(follower->line, sizeof follower->line, "%s", line);
}

static void ended(struct member *member, enum status status, const struct error *error)
{
    struct follower *follower = member->owner;
    assert_false(member->live);
    follower->ends++;
    follower->status = status;
    (void)snprintf(follower->detail, sizeof follower->detail, "%s", status == STATUS_OK ? "" : error->detail);
}

static void begin(struct batch *batch)
{
    memset(batch, 0, sizeof *batch);
    members_init(&batch->members, batch, ended);
    for (int i = 0; i < COUNT; i++) {
        struct follower *follower = &batch->followers[i];
        follower->monitor = (struct monitor){
            .owner = follower, .progress = follower_progress, .log = follower_log, .check = follower_check};
        members_enter(&batch->members, &follower->member, follower, &follower->monitor);
    }
}

static void expect_ends(const struct batch *batch, int64_t a, int64_t b, int64_t c)
{
    assert_int_equal(batch->followers[0].ends, a);
    assert_int_equal(batch->followers[1].ends, b);
    assert_int_equal(batch->followers[2].ends, c);
    assert_int_equal(batch->members.live, COUNT - a - b - c);
}

/* The second fails. */
static enum status step(struct member *member, struct error *error)
{
    struct batch *batch = member->members->owner;
    struct follower *follower = member->owner;
    follower->steps++;
    return follower == &batch->followers[1] ? error_set(error, STATUS_CORRUPT, "step") : STATUS_OK;
}

static void test_who_fails_a_step_ends_and_takes_no_other(void **state)
{
    struct batch batch;
    (void)state;
    begin(&batch);
    members_each(&batch.members, step);
    expect_ends(&batch, 0, 1, 0);
    assert_int_equal(batch.followers[1].status, STATUS_CORRUPT);
    assert_string_equal(batch.followers[1].detail, "step");
    members_each(&batch.members, step);
    assert_int_equal(batch.followers[0].steps, 2);
    assert_int_equal(batch.followers[1].steps, 1);
    assert_int_equal(batch.followers[2].steps, 2);
    expect_ends(&batch, 0, 1, 0);
}

/* The first ends the one that would be next. */
static enum status step_that_ends_the_next(struct member *member, struct error *error)
{
    struct batch *batch = member->members->owner;
    struct follower *follower = member->owner;
    follower->steps++;
    if (follower == &batch->followers[0]) members_end(&batch->followers[1].member, STATUS_CANCELLED, error);
    return STATUS_OK;
}

static void test_who_has_ended_takes_no_step(void **state)
{
    struct batch batch;
    (void)state;
    begin(&batch);
    members_each(&batch.members, step_that_ends_the_next);
    assert_int_equal(batch.followers[1].steps, 0);
    assert_int_equal(batch.followers[2].steps, 1);
    assert_ptr_equal(members_next(&batch.members, NULL), &batch.followers[0].member);
    assert_ptr_equal(members_next(&batch.members, &batch.followers[0].member), &batch.followers[2].member);
    assert_null(members_next(&batch.members, &batch.followers[2].member));
}

static void test_everybody_ends_once(void **state)
{
    struct batch batch;
    struct error error = {.detail = "all"};
    (void)state;
    begin(&batch);
    members_end(&batch.followers[2].member, STATUS_OK, &error);
    members_end(&batch.followers[2].member, STATUS_CORRUPT, &error);
    members_end_all(&batch.members, STATUS_IO, &error);
    expect_ends(&batch, 1, 1, 1);
    assert_int_equal(batch.followers[2].status, STATUS_OK);
    assert_int_equal(batch.followers[0].status, STATUS_IO);
    assert_string_equal(batch.followers[0].detail, "all");
    assert_null(members_next(&batch.members, NULL));
}

static void test_work_for_all_stops_when_nobody_is_left(void **state)
{
    struct batch batch;
    struct error error;
    (void)state;
    begin(&batch);
    const struct monitor *all = &batch.members.monitor;
    assert_int_equal(monitor_check(all, &error), STATUS_OK);
    batch.followers[0].stop = batch.followers[2].stop = STATUS_CANCELLED;
    assert_int_equal(monitor_check(all, &error), STATUS_OK);
    expect_ends(&batch, 1, 0, 1);
    assert_int_equal(batch.followers[0].status, STATUS_CANCELLED);
    monitor_progress(all, 4, 9, "block");
    monitor_log(all, "line %d", 7);
    assert_int_equal(batch.followers[0].done, 0);
    assert_int_equal(batch.followers[1].done, 4);
    assert_string_equal(batch.followers[0].line, "");
    assert_string_equal(batch.followers[1].line, "line 7");
    batch.followers[1].stop = STATUS_LEASE_LOST;
    assert_int_equal(monitor_check(all, &error), STATUS_LEASE_LOST);
    assert_string_equal(error.detail, "stopped");
    expect_ends(&batch, 1, 1, 1);
}

/* Work on one asks the others too; that one ends by what its own work returns. */
static void test_work_for_one_lets_the_others_go(void **state)
{
    struct batch batch;
    struct error error;
    (void)state;
    begin(&batch);
    const struct monitor *one = &batch.followers[1].member.monitor;
    batch.followers[0].stop = STATUS_CANCELLED;
    assert_int_equal(monitor_check(one, &error), STATUS_OK);
    expect_ends(&batch, 1, 0, 0);
    batch.followers[1].stop = STATUS_LEASE_LOST;
    assert_int_equal(monitor_check(one, &error), STATUS_LEASE_LOST);
    expect_ends(&batch, 1, 0, 0);
    monitor_progress(one, 5, 9, "block");
    monitor_log(one, "own");
    assert_int_equal(batch.followers[1].done, 5);
    assert_int_equal(batch.followers[2].done, 0);
    assert_string_equal(batch.followers[1].line, "own");
    members_check(&batch.members, NULL);
    expect_ends(&batch, 1, 1, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_fails_a_step_ends_and_takes_no_other),
        cmocka_unit_test(test_who_has_ended_takes_no_step),
        cmocka_unit_test(test_everybody_ends_once),
        cmocka_unit_test(test_work_for_all_stops_when_nobody_is_left),
        cmocka_unit_test(test_work_for_one_lets_the_others_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
