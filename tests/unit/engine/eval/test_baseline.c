/* A kept baseline comes back to the bit, and anything less than whole is not taken for one. */
#include "eval/baseline.h"
#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 2500, COLUMNS = 3 }; /* more than two chunks */

static char directory[64], path[96]; /* of the group */

static int make_directory(void **state)
{
    (void)state;
    (void)snprintf(directory, sizeof directory, "/tmp/deltaq-baseline-XXXXXX");
    if (mkdtemp(directory) == NULL) return -1;
    (void)snprintf(path, sizeof path, "%s/kept", directory);
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    (void)unlink(path);
    return rmdir(directory);
}

static struct backend *backend_here(void)
{
    struct error error;
    struct backend *backend = NULL;
    assert_int_equal(backend_reference_new(false, NULL, &backend, &error), STATUS_OK);
    return backend;
}

static void test_comes_back_to_the_bit(void **state)
{
    struct error error;
    struct backend *backend = backend_here();
    static float kept[ROWS * COLUMNS], back[ROWS * COLUMNS];
    bool found = true;
    (void)state;
    for (int i = 0; i < ROWS * COLUMNS; i++) kept[i] = (float)i * 0.37f - 1;
    struct hidden from = hidden_of(backend, matrix_of(kept, ROWS, COLUMNS, 4));
    struct hidden to = hidden_of(backend, matrix_of(back, ROWS, COLUMNS, 4));
    assert_int_equal(baseline_load(path, &to, &found, &error), STATUS_OK);
    assert_false(found);
    assert_int_equal(baseline_save(path, &from, &error), STATUS_OK);
    assert_int_equal(baseline_load(path, &to, &found, &error), STATUS_OK);
    assert_true(found);
    assert_memory_equal(kept, back, sizeof kept);
    to = hidden_of(backend, matrix_of(back, ROWS - 1, COLUMNS, 4));
    assert_int_equal(baseline_load(path, &to, &found, &error), STATUS_OK);
    assert_false(found);
    backend_free(backend);
}

static void test_a_damaged_file_leaves_the_states_alone(void **state)
{
    struct error error;
    struct backend *backend = backend_here();
    static float states[ROWS * COLUMNS];
    struct hidden to = hidden_of(backend, matrix_of(states, ROWS, COLUMNS, 4));
    bool found = true;
    (void)state;
    const int file = open(path, O_RDWR);
    assert_true(file >= 0);
    assert_int_equal(pwrite(file, "x", 1, 9000), 1);
    close(file);
    states[0] = 7;
    assert_int_equal(baseline_load(path, &to, &found, &error), STATUS_OK);
    assert_false(found);
    assert_true(states[0] == 7 && states[1] == 0);
    assert_int_equal(truncate(path, 100), 0);
    assert_int_equal(baseline_load(path, &to, &found, &error), STATUS_OK);
    assert_false(found);
    backend_free(backend);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_comes_back_to_the_bit),
        cmocka_unit_test(test_a_damaged_file_leaves_the_states_alone),
    };
    return cmocka_run_group_tests_name("baseline", tests, make_directory, remove_directory);
}
