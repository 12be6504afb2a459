/* The rests between rounds. What is sent, and how often, is tested from outside: tests/http/test_track.py. */
#include "track/track.h"
#include "unit.h"

static void test_between_rounds_it_rests_as_long_as_was_asked(void **state)
{
    (void)state;
    assert_int_equal(track_rest(0, 10), 10);
    assert_int_equal(track_rest(0, 3600), 3600);
}

static void test_after_failures_it_backs_off_up_to_a_minute(void **state)
{
    (void)state;
    assert_int_equal(track_rest(1, 3600), 1);
    assert_int_equal(track_rest(2, 1), 2);
    assert_int_equal(track_rest(6, 1), 32);
    assert_int_equal(track_rest(7, 1), 60);
    assert_int_equal(track_rest(1000000, 1), 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_between_rounds_it_rests_as_long_as_was_asked),
        cmocka_unit_test(test_after_failures_it_backs_off_up_to_a_minute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
