/* A file that one writer leaves and the next goes on with. */
#include "engine/files/scratch.h"
#include "unit.h"

#include "files/file_writer.h"

enum { BYTES = 4096 };

static struct file_writer *take_up(struct scratch *scratch, bool expected)
{
    struct error error;
    struct file_writer *writer = NULL;
    bool found = !expected;
    assert_int_equal(file_writer_take_up(scratch_path(scratch, "weights"), BYTES, &writer, &found, &error), STATUS_OK);
    assert_int_equal(found, expected);
    return writer;
}

static void fill(struct file_writer *writer, char letter)
{
    struct error error;
    char bytes[BYTES];
    memset(bytes, letter, sizeof bytes);
    assert_int_equal(file_writer_write(writer, 0, bytes, sizeof bytes, &error), STATUS_OK);
}

static void expect_all(struct scratch *scratch, const char *name, char letter)
{
    char bytes[BYTES + 1];
    const int descriptor = open(scratch_path(scratch, name), O_RDONLY | O_CLOEXEC);
    assert_true(descriptor >= 0);
    assert_int_equal(read(descriptor, bytes, sizeof bytes), BYTES);
    for (int i = 0; i < BYTES; i++) assert_int_equal(bytes[i], letter);
    (void)close(descriptor);
}

static void expect_left(const struct file_writer *writer, char letter)
{
    struct error error;
    char byte;
    assert_int_equal(file_writer_read(writer, BYTES - 1, &byte, 1, &error), STATUS_OK);
    assert_int_equal(byte, letter);
}

static void test_a_writer_goes_on_with_what_the_one_before_it_left(void **state)
{
    struct scratch scratch;
    struct error error;
    (void)state;
    scratch_open(&scratch);
    struct file_writer *writer = take_up(&scratch, false);
    fill(writer, 'a');
    file_writer_close(writer);
    for (int i = 0; i < 2; i++) { /* from the unfinished file, then from the finished one */
        writer = take_up(&scratch, true);
        expect_left(writer, 'a');
        assert_int_equal(file_writer_commit(writer, &error), STATUS_OK);
        file_writer_close(writer);
        expect_all(&scratch, "weights", 'a');
        assert_int_equal(scratch_entries(&scratch, 0), 1);
    }
    scratch_close(&scratch);
}

/* As an artifact is, which has the name of its content. */
static void test_a_finished_file_with_another_link_is_not_written_to(void **state)
{
    struct scratch scratch;
    struct error error;
    char path[512];
    (void)state;
    scratch_open(&scratch);
    struct file_writer *writer = take_up(&scratch, false);
    fill(writer, 'a');
    assert_int_equal(file_writer_commit(writer, &error), STATUS_OK);
    file_writer_close(writer);
    (void)snprintf(path, sizeof path, "%s", scratch_path(&scratch, "weights"));
    assert_int_equal(link(path, scratch_path(&scratch, "artifact")), 0);
    writer = take_up(&scratch, true);
    expect_left(writer, 'a');
    fill(writer, 'b');
    expect_all(&scratch, "artifact", 'a');
    assert_int_equal(file_writer_commit(writer, &error), STATUS_OK);
    file_writer_close(writer);
    expect_all(&scratch, "artifact", 'a');
    expect_all(&scratch, "weights", 'b');
    scratch_close(&scratch);
}

/* One that lost its run and does not know it yet. */
static void test_a_writer_that_lives_writes_nothing_into_the_next_ones_file(void **state)
{
    struct scratch scratch;
    struct error error;
    (void)state;
    scratch_open(&scratch);
    struct file_writer *first = take_up(&scratch, false);
    fill(first, 'a');
    struct file_writer *second = take_up(&scratch, true);
    expect_left(second, 'a');
    fill(first, 'x');
    expect_left(second, 'a');
    assert_int_equal(file_writer_commit(first, &error), STATUS_CONFLICT);
    file_writer_close(first);
    assert_int_equal(file_writer_commit(second, &error), STATUS_OK);
    file_writer_close(second);
    expect_all(&scratch, "weights", 'a');
    assert_int_equal(scratch_entries(&scratch, 0), 1);
    scratch_close(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_writer_goes_on_with_what_the_one_before_it_left),
        cmocka_unit_test(test_a_finished_file_with_another_link_is_not_written_to),
        cmocka_unit_test(test_a_writer_that_lives_writes_nothing_into_the_next_ones_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
