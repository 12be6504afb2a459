/* Times that somebody gives, which are compared as text. */
#include "unit.h"

#include "backup/base.h"

#include <string.h>

static void test_a_time_is_read_so_that_it_sorts(void **state)
{
    static const struct {
        const char *given, *read;
    } rows[] = {
        {"2026-11-23T15:04:05Z", "2026-11-23 15:04:05.000000"},
        {"2024-02-29T00:00:00Z", "2024-02-29 00:00:00.000000"},
        {"2026-11-23T15:04:05.5Z", "2026-11-23 15:04:05.500000"},
        {"2026-11-23T15:04:05.123456Z", "2026-11-23 15:04:05.123456"},
        {"2026-11-23T15:04:05.1234569Z", "2026-11-23 15:04:05.123456"},
    };
    char read[BASE_TIME];
    struct error error;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(base_read_time(rows[i].given, read, &error), STATUS_OK);
        assert_string_equal(read, rows[i].read);
    }
}

static void test_what_is_no_time_in_utc_is_refused(void **state)
{
    static const char *const refused[] = {"",
                                          "now",
                                          "2026-11-23",
                                          "2026-11-23T15:04:05",
                                          "2026-11-23 15:04:05Z",
                                          "2026-11-23T15:04:05+01:00",
                                          "2026-11-23T15:04:05.Z",
                                          "2026-02-29T15:04:05Z",
                                          "2026-13-01T15:04:05Z",
                                          "2026-12-41T15:04:05Z",
                                          "2026-11-31T15:04:05Z",
                                          "2026-11-23T24:00:00Z",
                                          "2026-11-23T15:60:05Z",
                                          "2026-11-23T15:04:60Z",
                                          "2026-11-23T15:04:05Zx",
                                          "2026-11-23T15:04:05.5Z'; drop",
                                          "2026-11-23T15:04:05.00000000000000000000000000000000Z"};
    char read[BASE_TIME];
    struct error error;
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        assert_int_equal(base_read_time(refused[i], read, &error), STATUS_INVALID);
        assert_non_null(strstr(error.detail, "--until"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_time_is_read_so_that_it_sorts),
                                       cmocka_unit_test(test_what_is_no_time_in_utc_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
