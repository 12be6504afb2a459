/* The profile of a device's operations: times add up by name, the longest comes first, and what finds no place is in
 * the last row. */
#include "backend/cuda/profile.h"

#include "unit.h"

#include <string.h>
#include <time.h>

static struct cuda_profile profile;

static int empty_profile(void **state)
{
    (void)state;
    profile = (struct cuda_profile){.on = true};
    return 0;
}

static void work(double milliseconds, const char *name)
{
    const struct timespec pause = {.tv_nsec = (long)(1e6 * milliseconds)};
    (void)nanosleep(&pause, NULL);
    profile_add(&profile, name);
}

static void test_times_add_up_by_name(void **state)
{
    (void)state;
    char text[1000] = "";
    FILE *file = fmemopen(text, sizeof text, "w");
    profile_begin(&profile);
    work(1, "short");
    work(20, "long");
    work(1, "short");
    profile_print(&profile, "a device", file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(profile.row_count, 2);
    /* a sleep may last longer than was asked, so either may come first */
    const int slow = strcmp(profile.rows[0].name, "long") == 0 ? 0 : 1;
    assert_string_equal(profile.rows[slow].name, "long");
    assert_string_equal(profile.rows[1 - slow].name, "short");
    assert_true(profile.rows[slow].count == 1 && profile.rows[1 - slow].count == 2);
    assert_true(profile.rows[slow].seconds >= 0.02 && profile.rows[1 - slow].seconds >= 0.002);
    assert_true(profile.rows[0].seconds >= profile.rows[1].seconds);
    const char *first = strstr(text, profile.rows[0].name), *second = strstr(text, profile.rows[1].name);
    assert_true(strstr(text, "a device: ") == text && first != NULL && second > first);
}

static void test_what_finds_no_place_is_in_the_last_row(void **state)
{
    (void)state;
    char name[PROFILE_NAME];
    profile_begin(&profile);
    for (int i = 0; i < PROFILE_ROWS + 20; i++) {
        (void)snprintf(name, sizeof name, "operation %d", i);
        profile_add(&profile, name);
    }
    assert_int_equal(profile.row_count, PROFILE_ROWS);
    assert_string_equal(profile.rows[PROFILE_ROWS - 1].name, "the rest");
    assert_int_equal(profile.rows[PROFILE_ROWS - 1].count, 21);
}

static void test_nothing_is_kept_unless_asked(void **state)
{
    (void)state;
    profile.on = false;
    profile_begin(&profile);
    work(0, "anything");
    assert_int_equal(profile.row_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_times_add_up_by_name, empty_profile),
        cmocka_unit_test_setup(test_what_finds_no_place_is_in_the_last_row, empty_profile),
        cmocka_unit_test_setup(test_nothing_is_kept_unless_asked, empty_profile),
    };
    return cmocka_run_group_tests_name("profile", tests, NULL, NULL);
}
