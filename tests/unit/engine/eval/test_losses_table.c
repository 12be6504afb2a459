/* A file of losses gives back the numbers that it was made of, and a damaged one is refused with the line. */
#include "base/memory.h"
#include "eval/losses_table.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const names[] = {"loss_fp", "loss_q"};

static enum status read_back(const char *bytes, size_t length, struct losses_table *table, struct error *error)
{
    char path[] = "/tmp/losses-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, length), length);
    assert_int_equal(close(fd), 0);
    const enum status status = losses_table_read(path, names, 2, table, error);
    assert_int_equal(unlink(path), 0);
    return status;
}

static void test_numbers_come_back_bit_for_bit(void **state)
{
    const double first[] = {0.1, nextafter(3, 4), 5e-324, -0.0},
                 second[] = {NAN, INFINITY, -INFINITY, 1.7976931348623157e308};
    const int64_t predictions[] = {1, 2047, 7, 1000000};
    const struct losses_column columns[] = {{names[0], first}, {names[1], second}};
    struct buffer text = {0};
    struct losses_table table;
    struct error error;
    (void)state;
    assert_int_equal(losses_table_print(&text, predictions, 4, columns, 2, &error), STATUS_OK);
    assert_int_equal(read_back(text.bytes, text.length, &table, &error), STATUS_OK);
    assert_int_equal(table.sequences, 4);
    assert_memory_equal(table.predictions, predictions, sizeof predictions);
    assert_memory_equal(table.columns[0], first, sizeof first);
    assert_true(isnan(table.columns[1][0]));
    assert_memory_equal(table.columns[1] + 1, second + 1, 3 * sizeof *second);
    losses_table_reset(&table);
    buffer_reset(&text);
}

static void test_a_nan_is_written_without_a_sign(void **state)
{
    const double values[] = {-NAN};
    const int64_t predictions[] = {4};
    const struct losses_column column = {"loss", values};
    struct buffer text = {0};
    struct error error;
    (void)state;
    assert_int_equal(losses_table_print(&text, predictions, 1, &column, 1, &error), STATUS_OK);
    assert_string_equal(text.bytes, "sequence,tokens,loss\n0,5,nan\n");
    buffer_reset(&text);
}

#define HEAD "sequence,tokens,loss_fp,loss_q\n"

static void test_what_was_not_written_is_refused_by_its_line(void **state)
{
    static const struct {
        const char *text, *line;
    } damages[] = {
        {"", "line 0"},
        {HEAD, "line 1"},
        {"sequence,tokens,loss_q,loss_fp\n0,5,1,2\n", "line 1"},
        {HEAD "1,5,1,2\n", "line 2"},
        {HEAD "0,1,1,2\n", "line 2"},
        {HEAD "0,-5,1,2\n", "line 2"},
        {HEAD "0,5,1\n", "line 2"},
        {HEAD "0,5,1,2,3\n", "line 2"},
        {HEAD "0,5,1, 2\n", "line 2"},
        {HEAD "0,5,,2\n", "line 2"},
        {HEAD "0,5,1,i\n", "line 2"},
        {HEAD "0,5,1,2\n1,5,1,2", "line 3"},
        {HEAD "0,5,1,2\n2,5,1,2\n", "line 3"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        struct losses_table table;
        struct error error;
        assert_int_equal(read_back(damages[i].text, strlen(damages[i].text), &table, &error), STATUS_CORRUPT);
        if (strstr(error.detail, damages[i].line) == NULL) fail_msg("%zu: %s", i, error.detail);
        losses_table_reset(&table);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_come_back_bit_for_bit),
        cmocka_unit_test(test_a_nan_is_written_without_a_sign),
        cmocka_unit_test(test_what_was_not_written_is_refused_by_its_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
