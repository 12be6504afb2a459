/* Spilled memory, also on file systems without nameless files (network file systems, older overlays). */
#include "engine/files/scratch.h"
#include "unit.h"

#include <errno.h>

/* Stands in for such a file system: an open for a nameless file is refused with this, unless it is 0. */
static int refusal;

static int open_there(const char *path, int flags, mode_t mode)
{
    if (refusal != 0 && (flags & O_TMPFILE) == O_TMPFILE) {
        errno = refusal;
        return -1;
    }
    return open(path, flags, mode);
}

#undef fail /* of cmocka */
#define open(path, flags, mode) open_there(path, flags, mode)
#include "files/spill.c"
#undef open

static void write_and_read(struct scratch *scratch)
{
    static const char words[] = "hidden states";
    char back[sizeof words] = "";
    struct spill *spill = NULL;
    struct error error;
    assert_int_equal(spill_open(scratch->directory, 100, "words", &spill, &error), STATUS_OK);
    assert_int_equal(scratch_entries(scratch, 0), 0);
    assert_int_equal(spill_write(spill, 7, words, sizeof words, &error), STATUS_OK);
    assert_int_equal(spill_read(spill, 7, back, sizeof back, &error), STATUS_OK);
    assert_string_equal(back, words);
    assert_int_equal(fcntl(spill->descriptor, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    spill_close(spill);
}

static void test_a_file_system_without_nameless_files_holds_spilled_bytes_too(void **state)
{
    static const int refusals[] = {0, EOPNOTSUPP, EISDIR, EINVAL};
    struct scratch scratch;
    (void)state;
    scratch_open(&scratch);
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        refusal = refusals[i];
        write_and_read(&scratch);
        assert_int_equal(scratch_entries(&scratch, 0), 0);
    }
    scratch_close(&scratch);
}

static void test_another_refusal_is_told(void **state)
{
    struct spill *spill = NULL;
    struct scratch scratch;
    struct error error;
    (void)state;
    scratch_open(&scratch);
    refusal = ENOSPC;
    assert_int_equal(spill_open(scratch.directory, 100, "words", &spill, &error), STATUS_DISK_FULL);
    refusal = 0;
    assert_int_equal(spill_open("/nowhere", 100, "words", &spill, &error), STATUS_NOT_FOUND);
    assert_non_null(strstr(error.detail, "cannot make a file for words"));
    scratch_close(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_file_system_without_nameless_files_holds_spilled_bytes_too),
        cmocka_unit_test(test_another_refusal_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
