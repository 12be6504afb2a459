/* Files: what is refused, what is noticed, and that writing is all or nothing. */
#include "engine/files/scratch.h"
#include "unit.h"

#include "base/memory.h"
#include "files/file.h"
#include "files/file_writer.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

static enum status try_open(const char *path, enum file_links links, int64_t limit, struct error *error)
{
    struct file *file = NULL;
    const enum status status = file_open(AT_FDCWD, path, links, limit, &file, error);
    assert_true((status == STATUS_OK) == (file != NULL));
    file_close(file);
    return status;
}

static void test_only_regular_files_are_opened_and_none_blocks(void **state)
{
    struct scratch scratch;
    struct error error;
    (void)state;
    scratch_open(&scratch);
    assert_int_equal(mkfifo(scratch_path(&scratch, "fifo"), 0600), 0);
    assert_int_equal(try_open(scratch_path(&scratch, "fifo"), FILE_FOLLOW_LINKS, 100, &error), STATUS_INVALID);
    assert_int_equal(symlink("loop", scratch_path(&scratch, "loop")), 0);
    assert_int_equal(try_open(scratch_path(&scratch, "loop"), FILE_FOLLOW_LINKS, 100, &error), STATUS_INVALID);
    assert_int_equal(symlink("nowhere", scratch_path(&scratch, "dangling")), 0);
    assert_int_equal(try_open(scratch_path(&scratch, "dangling"), FILE_FOLLOW_LINKS, 100, &error), STATUS_NOT_FOUND);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    assert_true(strlen(scratch_path(&scratch, "socket")) < sizeof address.sun_path);
    memcpy(address.sun_path, scratch.path, strlen(scratch.path) + 1);
    const int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(server, (const struct sockaddr *)(const void *)&address, sizeof address), 0);
    assert_int_equal(try_open(scratch.path, FILE_FOLLOW_LINKS, 100, &error), STATUS_INVALID);
    (void)close(server);
    assert_int_equal(try_open("/dev/zero", FILE_FOLLOW_LINKS, 100, &error), STATUS_INVALID);
    assert_int_equal(try_open(scratch.directory, FILE_FOLLOW_LINKS, 100, &error), STATUS_INVALID);
    assert_null(strstr(error.detail, "/tmp"));
    assert_int_equal(try_open(scratch_path(&scratch, "absent"), FILE_FOLLOW_LINKS, 100, &error), STATUS_NOT_FOUND);
    assert_string_equal(error.detail, "cannot open absent: No such file or directory");
    scratch_close(&scratch);
}

static void test_links_and_limits_are_the_callers_choice(void **state)
{
    struct scratch scratch;
    struct error error;
    (void)state;
    scratch_open(&scratch);
    scratch_write(&scratch, "data", "12345", 5);
    assert_int_equal(symlink("data", scratch_path(&scratch, "link")), 0);
    assert_int_equal(try_open(scratch.path, FILE_FOLLOW_LINKS, 5, &error), STATUS_OK);
    assert_int_equal(try_open(scratch.path, FILE_REFUSE_LINKS, 5, &error), STATUS_INVALID);
    assert_int_equal(try_open(scratch.path, FILE_FOLLOW_LINKS, 4, &error), STATUS_TOO_LARGE);
    assert_string_equal(error.detail, "link has 5 bytes, at most 4 are accepted");
    scratch_write(&scratch, "huge", "", 0);
    assert_int_equal(truncate(scratch.path, INT64_C(1) << 40), 0);
    assert_int_equal(try_open(scratch.path, FILE_REFUSE_LINKS, 1 << 30, &error), STATUS_TOO_LARGE);
    scratch_close(&scratch);
}

static void test_reads_are_exact(void **state)
{
    struct scratch scratch;
    struct error error;
    struct file *file = NULL;
    char bytes[8] = "";
    (void)state;
    scratch_open(&scratch);
    scratch_write(&scratch, "data", "0123456789", 10);
    assert_int_equal(file_open(AT_FDCWD, scratch.path, FILE_REFUSE_LINKS, 100, &file, &error), STATUS_OK);
    assert_int_equal(file_bytes(file), 10);
    assert_string_equal(file_name(file), "data");
    assert_int_equal(file_read(file, 4, bytes, 6, &error), STATUS_OK);
    assert_memory_equal(bytes, "456789", 6);
    assert_int_equal(file_read(file, 10, bytes, 0, &error), STATUS_OK);
    assert_int_equal(file_read(file, 4, bytes, 7, &error), STATUS_CORRUPT);
    assert_int_equal(file_read(file, 11, bytes, 0, &error), STATUS_CORRUPT);
    assert_int_equal(file_read(file, -1, bytes, 1, &error), STATUS_CORRUPT);
    assert_int_equal(file_read(file, INT64_MAX, bytes, SIZE_MAX, &error), STATUS_CORRUPT);
    file_readahead(file, 0, 10);
    file_close(file);
    scratch_close(&scratch);
}

/* The status of checking a file that `change` was done to after it was opened. */
static enum status check_after(struct scratch *scratch, void (*change)(struct scratch *))
{
    struct error error;
    struct file *file = NULL;
    scratch_write(scratch, "data", "0123456789", 10);
    const struct timespec past[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    assert_int_equal(utimensat(AT_FDCWD, scratch->path, past, 0), 0);
    assert_int_equal(file_open(AT_FDCWD, scratch->path, FILE_FOLLOW_LINKS, 100, &file, &error), STATUS_OK);
    change(scratch);
    const enum status status = file_check_unchanged(file, &error);
    file_close(file);
    return status;
}

static void change_nothing(struct scratch *scratch)
{
    (void)scratch;
}

static void change_size(struct scratch *scratch)
{
    assert_int_equal(truncate(scratch_path(scratch, "data"), 9), 0);
}

static void change_content(struct scratch *scratch)
{
    scratch_write(scratch, "data", "9876543210", 10);
}

static void change_identity(struct scratch *scratch)
{
    struct error error;
    assert_int_equal(file_writer_put(scratch_path(scratch, "data"), "0123456789", 10, &error), STATUS_OK);
}

static void change_presence(struct scratch *scratch)
{
    assert_int_equal(unlink(scratch_path(scratch, "data")), 0);
}

static void test_changes_are_noticed(void **state)
{
    struct scratch scratch;
    (void)state;
    scratch_open(&scratch);
    assert_int_equal(check_after(&scratch, change_nothing), STATUS_OK);
    assert_int_equal(check_after(&scratch, change_size), STATUS_INPUT_CHANGED);
    assert_int_equal(check_after(&scratch, change_content), STATUS_INPUT_CHANGED);
    assert_int_equal(check_after(&scratch, change_identity), STATUS_INPUT_CHANGED);
    assert_int_equal(check_after(&scratch, change_presence), STATUS_INPUT_CHANGED);
    scratch_close(&scratch);
}

static void test_truncation_under_a_reader_is_an_error_and_no_signal(void **state)
{
    struct scratch scratch;
    struct error error;
    struct file *file = NULL;
    char bytes[10];
    (void)state;
    scratch_open(&scratch);
    scratch_write(&scratch, "data", "0123456789", 10);
    assert_int_equal(file_open(AT_FDCWD, scratch.path, FILE_FOLLOW_LINKS, 100, &file, &error), STATUS_OK);
    assert_int_equal(truncate(scratch.path, 3), 0);
    assert_int_equal(file_read(file, 0, bytes, 10, &error), STATUS_INPUT_CHANGED);
    file_close(file);
    scratch_close(&scratch);
}

static void test_writing_replaces_a_file_only_at_commit(void **state)
{
    struct scratch scratch;
    struct error error;
    struct file_writer *writer = NULL;
    char *content = NULL;
    size_t size = 0;
    (void)state;
    scratch_open(&scratch);
    scratch_write(&scratch, "data", "old", 3);
    assert_int_equal(file_writer_open(scratch.path, 8, &writer, &error), STATUS_OK);
    assert_int_equal(file_writer_append(writer, "newe", 4, &error), STATUS_OK);
    assert_int_equal(file_writer_write(writer, 6, "st", 2, &error), STATUS_OK);
    assert_int_equal(file_writer_append(writer, "st", 2, &error), STATUS_OK);
    assert_int_equal(file_read_all(AT_FDCWD, scratch.path, 100, &content, &size, &error), STATUS_OK);
    assert_string_equal(content, "old");
    memory_free(content);
    assert_int_equal(file_writer_commit(writer, &error), STATUS_OK);
    file_writer_close(writer);
    assert_int_equal(file_read_all(AT_FDCWD, scratch.path, 100, &content, &size, &error), STATUS_OK);
    assert_int_equal(size, 8);
    assert_string_equal(content, "newestst");
    memory_free(content);
    assert_int_equal(scratch_entries(&scratch, 0), 1);
    scratch_close(&scratch);
}

static void test_an_abandoned_writer_leaves_nothing(void **state)
{
    struct scratch scratch;
    struct error error;
    struct file_writer *writer = NULL;
    (void)state;
    scratch_open(&scratch);
    assert_int_equal(file_writer_open(scratch_path(&scratch, "data"), 0, &writer, &error), STATUS_OK);
    assert_int_equal(file_writer_append(writer, "abc", 3, &error), STATUS_OK);
    file_writer_close(writer);
    assert_int_equal(scratch_entries(&scratch, 0), 0);
    assert_int_equal(file_writer_open(scratch_path(&scratch, "no/data"), 0, &writer, &error), STATUS_NOT_FOUND);
    assert_int_equal(file_writer_open(scratch_path(&scratch, ""), 0, &writer, &error), STATUS_INVALID);
    assert_null(writer);
    scratch_close(&scratch);
}

static void test_a_full_disk_is_told_as_one_and_leaves_nothing(void **state)
{
    struct scratch scratch;
    struct error error;
    struct file_writer *writer = NULL;
    struct rlimit before, small;
    char block[512] = "";
    (void)state;
    scratch_open(&scratch);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 1000;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const enum status reserved = file_writer_open(scratch_path(&scratch, "data"), 4096, &writer, &error);
    assert_int_equal(file_writer_open(scratch_path(&scratch, "data"), 0, &writer, &error), STATUS_OK);
    const enum status first = file_writer_append(writer, block, sizeof block, &error);
    const enum status second = file_writer_append(writer, block, sizeof block, &error);
    file_writer_close(writer);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    (void)signal(SIGXFSZ, handler);
    assert_int_equal(reserved, STATUS_DISK_FULL);
    assert_int_equal(first, STATUS_OK);
    assert_int_equal(second, STATUS_DISK_FULL);
    assert_int_equal(scratch_entries(&scratch, 0), 0);
    scratch_close(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_regular_files_are_opened_and_none_blocks),
        cmocka_unit_test(test_links_and_limits_are_the_callers_choice),
        cmocka_unit_test(test_reads_are_exact),
        cmocka_unit_test(test_changes_are_noticed),
        cmocka_unit_test(test_truncation_under_a_reader_is_an_error_and_no_signal),
        cmocka_unit_test(test_writing_replaces_a_file_only_at_commit),
        cmocka_unit_test(test_an_abandoned_writer_leaves_nothing),
        cmocka_unit_test(test_a_full_disk_is_told_as_one_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
