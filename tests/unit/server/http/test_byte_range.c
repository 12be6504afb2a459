#include "http/byte_range.h"
#include "unit.h"

static void test_parts(void **state)
{
    static const struct {
        const char *header;
        int64_t size, first, length;
    } cases[] = {
        {"bytes=0-0", 10, 0, 1},
        {"bytes=0-9", 10, 0, 10},
        {"bytes=2-5", 10, 2, 4},
        {"bytes=2-", 10, 2, 8},
        {"bytes=9-", 10, 9, 1},
        {"bytes=9-9", 10, 9, 1},
        {"bytes=5-99", 10, 5, 5},
        {"bytes=5-99999999999999999999999", 10, 5, 5},
        {"bytes=5-9223372036854775807", 10, 5, 5},
        {"bytes=-1", 10, 9, 1},
        {"bytes=-10", 10, 0, 10},
        {"bytes=-99999999999999999999", 10, 0, 10},
        {"Bytes= 1-2 ", 10, 1, 2},
        {"bytes=4294967296-", INT64_C(1) << 33, INT64_C(1) << 32, INT64_C(1) << 32},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct byte_range part = {0};
        if (byte_range_of(cases[i].header, cases[i].size, &part) != BYTE_RANGE_PART || part.first != cases[i].first ||
            part.length != cases[i].length)
            fail_msg("%s: %lld, %lld", cases[i].header, (long long)part.first, (long long)part.length);
    }
}

static void test_what_is_not_there_and_what_is_no_part(void **state)
{
    static const char *const outside[] = {"bytes=10-", "bytes=10-12", "bytes=-0", "bytes=99999999999999999999-"};
    static const char *const whole[] = {"",           "bytes",      "bytes=",      "bytes=-",   "bytes=a-b",
                                        "bytes=5-2",  "bytes=1 -2", "items=0-1",   "bytes 0-1", "bytes=0-1,3-4",
                                        "bytes=0-1,", "bytes=+1-2", "bytes=1-2-3", "bytes=--1", "bytes=0x1-2",
                                        "bytes=1-2a", "bytes=1.5-", "bytes=, 1-2", "bytes: 1-2"};
    struct byte_range part;
    (void)state;
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++)
        if (byte_range_of(outside[i], 10, &part) != BYTE_RANGE_OUTSIDE) fail_msg("%s", outside[i]);
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++)
        if (byte_range_of(whole[i], 10, &part) != BYTE_RANGE_WHOLE) fail_msg("%s", whole[i]);
    assert_int_equal(byte_range_of(NULL, 10, &part), BYTE_RANGE_WHOLE);
    assert_int_equal(byte_range_of("bytes=0-", 0, &part), BYTE_RANGE_OUTSIDE); /* an empty file */
    assert_int_equal(byte_range_of("bytes=-5", 0, &part), BYTE_RANGE_OUTSIDE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_what_is_not_there_and_what_is_no_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
