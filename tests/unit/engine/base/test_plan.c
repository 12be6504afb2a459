/* Which memory a refused plan lacks. */
#include "base/plan.h"
#include "unit.h"

#include <string.h>

static void test_a_refusal_says_which_memory_is_lacking(void **state)
{
    static const struct {
        struct plan_budget budget;
        const char *said;
        bool of_device;
    } rows[] = {
        {{{9, 20, 30}, "of 40 free"}, "needs 10 bytes of host memory, 9 are available: ", false},
        {{{10, 19, 30}, "of 40 free"}, "needs 20 bytes of device memory, 19 are available (of 40 free): ", true},
        {{{10, 19, 30}, ""}, "needs 20 bytes of device memory, 19 are available: ", true},
        {{{10, 20, 29}, "of 40 free"}, "needs 30 bytes of disk, 29 are available: ", false},
        {{{9, 19, 29}, ""}, "host memory", false}, /* the first of them */
    };
    const struct run_plan plan = {.peak = {10, 20, 30}};
    struct error error = {.of_device = true};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_false(plan_fits(&plan, &rows[i].budget));
        assert_int_equal(plan_refuse(&plan, &rows[i].budget, "buy more", &error), STATUS_TOO_LARGE);
        if (strstr(error.detail, rows[i].said) == NULL || strstr(error.detail, ": buy more") == NULL)
            fail_msg("row %zu: %s", i, error.detail);
        assert_int_equal(error.of_device, rows[i].of_device);
    }
    (void)error_set(&error, STATUS_INVALID, "another");
    assert_false(error.of_device);
    assert_true(plan_fits(&plan, &(struct plan_budget){.bytes = {10, 20, 30}}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_refusal_says_which_memory_is_lacking)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
