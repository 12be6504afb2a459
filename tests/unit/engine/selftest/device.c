/* The self-test over the first real device, with a table of how near each check came to its bound. `make check-gpu`
 * runs it; over the emulated device `make check` does. */
#include "engine/backend/cuda/stand_in.h"

#include "selftest/selftest.h"
#include "unit.h"

static enum status open_device(void *context, const char *products, struct backend **out, struct error *error)
{
    (void)context;
    return stand_in_open(products, NULL, out, error);
}

static void test_the_device_passes(void **state)
{
    struct trial_progress progress = {.steps = 0};
    const struct selftest how = {.open = open_device, .repeat_seconds = 1, .progress = &progress};
    struct selftest_report report;
    struct error error;
    char rates[400];
    (void)state;
    const enum status status = selftest_run(&how, &report, &error);
    print_message("| check | shapes | times | error / bound | ms |\n");
    for (int i = 0; i < report.row_count; i++)
        print_message("| %s | %d | %d | %.3g | %.1f |\n", report.rows[i].name, report.rows[i].shapes,
                      report.rows[i].repetitions, report.rows[i].worst, 1e3 * report.rows[i].seconds);
    selftest_describe_rates(&report, rates, sizeof rates);
    print_message("| %s | %s | %.2f s |\n", report.device, rates, report.seconds);
    if (status != STATUS_OK) fail_msg("%s", error.detail);
    int checks = 0;
    while (selftest_name(checks) != NULL) checks++;
    assert_int_equal(report.row_count, checks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_device_passes)};
    return cmocka_run_group_tests_name("self-test", tests, NULL, NULL);
}
