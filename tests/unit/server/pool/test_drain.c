/* When a worker begins no more runs, and when it ends. */
#include "unit.h"

#include "pool/drain.h"

static void test_without_limits_it_never_ends(void **state)
{
    struct drain drain;
    (void)state;
    drain_init(&drain, 100, 0, 0);
    assert_true(drain_may_lease(&drain, 1e9));
    assert_int_equal(drain_due(&drain, 1e9, false), DRAIN_NOT);
}

static void test_before_a_limit_no_run_is_begun_and_then_runs_go_back(void **state)
{
    struct drain drain;
    (void)state;
    drain_init(&drain, 100, 3600, 0);
    assert_true(drain_may_lease(&drain, 100 + 3529));
    assert_false(drain_may_lease(&drain, 100 + 3530));
    assert_int_equal(drain_due(&drain, 100 + 3529, false), DRAIN_NOT);
    assert_int_equal(drain_due(&drain, 100 + 3530, false), DRAIN_LIMIT);
    assert_int_equal(drain_due(&drain, 100 + 3589, true), DRAIN_NOT);
    assert_int_equal(drain_due(&drain, 100 + 3590, true), DRAIN_LIMIT);
}

static void test_a_short_limit_leaves_time_for_work(void **state)
{
    struct drain drain;
    (void)state;
    drain_init(&drain, 0, 10, 0);
    assert_true(drain_may_lease(&drain, 3.9));
    assert_false(drain_may_lease(&drain, 4));
    assert_int_equal(drain_due(&drain, 4.9, true), DRAIN_NOT);
    assert_int_equal(drain_due(&drain, 5, true), DRAIN_LIMIT);
}

static void test_idle_time_begins_again_with_each_run(void **state)
{
    struct drain drain;
    (void)state;
    drain_init(&drain, 100, 0, 30);
    assert_int_equal(drain_due(&drain, 129, false), DRAIN_NOT);
    assert_int_equal(drain_due(&drain, 500, true), DRAIN_NOT);
    assert_int_equal(drain_due(&drain, 529, false), DRAIN_NOT);
    assert_int_equal(drain_due(&drain, 530, false), DRAIN_IDLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_limits_it_never_ends),
        cmocka_unit_test(test_before_a_limit_no_run_is_begun_and_then_runs_go_back),
        cmocka_unit_test(test_a_short_limit_leaves_time_for_work),
        cmocka_unit_test(test_idle_time_begins_again_with_each_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
