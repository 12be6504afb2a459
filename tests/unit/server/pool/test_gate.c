/* The gate of the tests itself (server/pool/gate.h): what it holds, until when, and that nobody notices it where it is
 * not set. */
#include "pool/gate.h"
#include "unit.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct fixture {
    char directory[64], hold[80], held[80];
    struct gate *gate;
    int checks;
    const char *then; /* what the third check writes into the file `hold`; NULL: it removes the file */
    enum status stop; /* what the third check gives */
    bool seen;        /* the sign was there at every check, and said where */
};

static const struct gate_progress place = {"quantize", "run-7", 1, "block", 3};

static void write_hold(const struct fixture *fixture, const char *text)
{
    FILE *file = fopen(fixture->hold, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static enum status third_check(void *owner, struct error *error)
{
    struct fixture *fixture = owner;
    long long done = -1;
    FILE *sign = fopen(fixture->held, "r");
    fixture->seen = fixture->seen && sign != NULL && fscanf(sign, "%lld\n", &done) == 1 && done >= place.done;
    if (sign != NULL) (void)fclose(sign);
    if (++fixture->checks < 3) return STATUS_OK;
    if (fixture->stop != STATUS_OK) return error_set(error, fixture->stop, "stopped");
    if (fixture->then == NULL)
        assert_int_equal(unlink(fixture->hold), 0);
    else
        write_hold(fixture, fixture->then);
    return STATUS_OK;
}

/* How often the monitor is asked while a run passes the gate at `at`: not at all where nothing holds it. */
static int checks_at(struct fixture *fixture, const struct gate_progress *at)
{
    const struct monitor monitor = {.owner = fixture, .check = third_check};
    fixture->checks = 0;
    fixture->seen = true;
    gate_pass(fixture->gate, at, &monitor);
    assert_int_not_equal(access(fixture->held, F_OK), 0);
    return fixture->checks;
}

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    struct error error;
    if (fixture == NULL) return -1;
    *state = fixture;
    (void)snprintf(fixture->directory, sizeof fixture->directory, "/tmp/deltaq-gate-XXXXXX");
    if (mkdtemp(fixture->directory) == NULL) return -1;
    (void)snprintf(fixture->hold, sizeof fixture->hold, "%s/hold", fixture->directory);
    (void)snprintf(fixture->held, sizeof fixture->held, "%s/held-run-7-1", fixture->directory);
    if (setenv("DELTAQ_TEST_GATE", fixture->directory, 1) != 0) return -1;
    return gate_new(&fixture->gate, &error) == STATUS_OK && fixture->gate != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    gate_free(fixture->gate);
    (void)unlink(fixture->hold);
    (void)rmdir(fixture->directory);
    free(fixture);
    return unsetenv("DELTAQ_TEST_GATE");
}

static void test_without_the_variable_there_is_no_gate(void **state)
{
    struct error error;
    struct gate *gate;
    struct fixture *fixture = *state;
    const struct monitor monitor = {.owner = fixture, .check = third_check};
    write_hold(fixture, "* * * 0\n");
    assert_int_equal(unsetenv("DELTAQ_TEST_GATE"), 0);
    assert_int_equal(gate_new(&gate, &error), STATUS_OK);
    assert_null(gate);
    gate_pass(gate, &place, &monitor);
    assert_int_equal(fixture->checks, 0);
    gate_free(gate);
}

static void test_a_gate_that_is_no_directory_is_refused(void **state)
{
    struct error error;
    struct gate *gate;
    assert_int_equal(setenv("DELTAQ_TEST_GATE", ((struct fixture *)*state)->hold, 1), 0);
    assert_int_equal(gate_new(&gate, &error), STATUS_INVALID);
    assert_null(gate);
    assert_non_null(strstr(error.detail, "/hold"));
}

static void test_it_holds_the_runs_that_a_line_means_and_no_others(void **state)
{
    static const struct {
        const char *lines;
        bool holds;
    } rows[] = {
        {"quantize 1 block 3\n", true},
        {"* * * 0\n", true},
        {"quantize * block 2\n", true},
        {"run-7 1 block 3\n", true},
        {"evaluate 1 block 3\nquantize 1 block 3\n", true},
        {"", false},
        {"run-8 * * 0\n", false},
        {"evaluate 1 block 3\n", false},
        {"quantize 2 block 3\n", false},
        {"quantize 1 token 3\n", false},
        {"quantize 1 block 4\n", false},
        {"quantize 1 block\n", false},
    };
    struct fixture *fixture = *state;
    assert_int_equal(checks_at(fixture, &place), 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        write_hold(fixture, rows[i].lines);
        assert_int_equal(checks_at(fixture, &place), rows[i].holds ? 3 : 0);
        assert_true(fixture->seen);
    }
}

static void test_a_changed_file_lets_go_of_those_it_does_not_mean(void **state)
{
    struct fixture *fixture = *state;
    struct gate_progress later = place;
    write_hold(fixture, "quantize 1 block 3\n");
    fixture->then = "quantize 1 block 5\n";
    assert_int_equal(checks_at(fixture, &place), 3);
    later.done = 5;
    fixture->then = NULL;
    assert_int_equal(checks_at(fixture, &later), 3);
}

static void test_a_stopped_run_is_held_no_longer(void **state)
{
    struct fixture *fixture = *state;
    write_hold(fixture, "quantize 1 block 3\n");
    fixture->stop = STATUS_CANCELLED;
    assert_int_equal(checks_at(fixture, &place), 3);
    assert_int_equal(access(fixture->hold, F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_without_the_variable_there_is_no_gate, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_gate_that_is_no_directory_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_it_holds_the_runs_that_a_line_means_and_no_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_changed_file_lets_go_of_those_it_does_not_mean, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_stopped_run_is_held_no_longer, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
