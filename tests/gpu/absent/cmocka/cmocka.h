/* cmocka.h: in place of cmocka's on a machine for `make check-gpu` that lacks it: the part that the device's tests use,
 * printing the same lines. A failed assertion ends its test; a crash ends the program. */
#ifndef ABSENT_CMOCKA_H
#define ABSENT_CMOCKA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef int (*CMFixtureFunction)(void **state);
struct CMUnitTest {
    const char *name;
    void (*test_func)(void **state);
};

static jmp_buf absent_out; /* of the test that runs */

__attribute__((noreturn, unused)) static void absent_fail(const char *file, int line, const char *what)
{
    printf("[  ERROR   ] --- %s:%d: %s\n", file, line, what);
    longjmp(absent_out, 1);
}

#define ABSENT_ASSERT(condition, what)                           \
    do {                                                         \
        if (!(condition)) absent_fail(__FILE__, __LINE__, what); \
    } while (0)
#define assert_true(a)               ABSENT_ASSERT(a, "not true: " #a)
#define assert_false(a)              ABSENT_ASSERT(!(a), "not false: " #a)
#define assert_null(a)               ABSENT_ASSERT((a) == NULL, "not NULL: " #a)
#define assert_non_null(a)           ABSENT_ASSERT((a) != NULL, "NULL: " #a)
#define assert_int_equal(a, b)       ABSENT_ASSERT((long long)(a) == (long long)(b), #a " is not " #b)
#define assert_int_not_equal(a, b)   ABSENT_ASSERT((long long)(a) != (long long)(b), #a " is " #b)
#define assert_string_equal(a, b)    ABSENT_ASSERT(strcmp(a, b) == 0, #a " is not " #b)
#define assert_memory_equal(a, b, n) ABSENT_ASSERT(memcmp(a, b, n) == 0, #a " and " #b " differ")
#define fail_msg(...)                        \
    do {                                     \
        printf("ERROR: " __VA_ARGS__);       \
        absent_fail(__FILE__, __LINE__, ""); \
    } while (0)
#define print_message(...) printf(__VA_ARGS__)
#define cmocka_unit_test(f) \
    {                       \
#f, f               \
    }
#define cmocka_run_group_tests_name(name, tests, setup, teardown) \
    absent_run(name, tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown)
#define cmocka_run_group_tests(tests, setup, teardown) cmocka_run_group_tests_name(#tests, tests, setup, teardown)

__attribute__((unused)) static int absent_run(const char *name, const struct CMUnitTest *tests, size_t count,
                                              CMFixtureFunction setup, CMFixtureFunction teardown)
{
    void *state = NULL;
    volatile int failed = 0;
    if (setjmp(absent_out) != 0 || (setup != NULL && setup(&state) != 0)) {
        printf("[  FAILED  ] %s: setup\n[  FAILED  ] %zu test(s)\n", name, count);
        return (int)count;
    }
    for (volatile size_t i = 0; i < count; i++) {
        printf("[ RUN      ] %s\n", tests[i].name);
        (void)fflush(stdout);
        if (setjmp(absent_out) == 0) {
            tests[i].test_func(&state);
            printf("[       OK ] %s\n", tests[i].name);
        } else {
            printf("[  FAILED  ] %s\n", tests[i].name);
            failed++;
        }
    }
    if (teardown != NULL && setjmp(absent_out) == 0) (void)teardown(&state);
    printf("[  PASSED  ] %d test(s).\n", (int)count - failed);
    if (failed > 0) printf("[  FAILED  ] %d test(s)\n", failed);
    return failed;
}

#endif
