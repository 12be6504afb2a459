/* The small files of an archive and of a data directory, and what is missing between segments. */
#include "unit.h"

#include "postgres/archive_segments.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct place {
    char base[64], data[96], home[128], archive[96];
    int fd; /* of home */
};

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status;
    (void)where;
    return type == FTW_DP ? rmdir(path) : unlink(path);
}

static struct place make_place(void)
{
    struct place place = {.base = "/tmp/deltaq-archive-XXXXXX"};
    assert_non_null(mkdtemp(place.base));
    (void)snprintf(place.data, sizeof place.data, "%s/data", place.base);
    (void)snprintf(place.home, sizeof place.home, "%s/pg", place.data);
    (void)snprintf(place.archive, sizeof place.archive, "%s/archive", place.base);
    assert_int_equal(mkdir(place.data, 0700) + mkdir(place.home, 0700), 0);
    place.fd = open(place.home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(place.fd >= 0);
    return place;
}

static void remove_place(struct place *place)
{
    assert_int_equal(close(place->fd), 0);
    assert_int_equal(nftw(place->base, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
}

static enum status open_as(const struct place *place, const char *wanted, struct archive *out, struct error *error)
{
    return archive_open(place->fd, place->data, wanted, getuid(), getgid(), out, error);
}

static void put(const struct archive *archive, const char *name)
{
    const int fd = openat(archive->wal, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && close(fd) == 0);
}

static void test_the_data_directory_remembers_its_archive(void **state)
{
    struct place place = make_place();
    struct archive archive;
    struct error error;
    char found[ARCHIVE_PATH], owner[ARCHIVE_PATH];
    (void)state;
    assert_int_equal(open_as(&place, NULL, &archive, &error), STATUS_OK);
    assert_string_equal(archive.directory, "");
    assert_int_equal(open_as(&place, place.archive, &archive, &error), STATUS_OK);
    assert_true(archive.wal >= 0);
    archive_close(&archive);
    assert_int_equal(archive_recorded(place.data, found, &error), STATUS_OK);
    assert_string_equal(found, place.archive);
    assert_int_equal(open_as(&place, NULL, &archive, &error), STATUS_OK);
    assert_string_equal(archive.directory, place.archive);
    archive_close(&archive);
    assert_int_equal(archive_read(place.archive, owner, &archive, &error), STATUS_OK);
    assert_string_equal(owner, place.data);
    archive_close(&archive);
    assert_int_equal(open_as(&place, place.base, &archive, &error), STATUS_CONFLICT); /* it has one */
    assert_int_equal(open_as(&place, ARCHIVE_OFF, &archive, &error), STATUS_OK);
    assert_int_equal(archive_recorded(place.data, found, &error), STATUS_OK);
    assert_string_equal(found, "");
    assert_int_equal(open_as(&place, place.archive, &archive, &error), STATUS_CONFLICT); /* it would have a gap */
    archive_close(&archive);
    remove_place(&place);
}

static void test_an_archive_of_another_name_is_not_taken(void **state)
{
    struct place place = make_place();
    struct archive archive;
    struct error error;
    char path[200], owner[ARCHIVE_PATH];
    (void)state;
    assert_int_equal(open_as(&place, place.archive, &archive, &error), STATUS_OK);
    archive_close(&archive);
    (void)snprintf(path, sizeof path, "%s/deltaq-archive", place.archive);
    FILE *file = fopen(path, "we");
    assert_true(file != NULL && fputs("another\n/elsewhere\n", file) >= 0 && fclose(file) == 0);
    assert_int_equal(open_as(&place, NULL, &archive, &error), STATUS_NOT_FOUND);
    assert_non_null(strstr(error.detail, place.archive));
    file = fopen(path, "we"); /* cut */
    assert_true(file != NULL && fputs("another", file) >= 0 && fclose(file) == 0);
    assert_int_not_equal(archive_read(place.archive, owner, &archive, &error), STATUS_OK);
    archive_close(&archive);
    remove_place(&place);
}

/* Both would write into it, and neither could be had back. */
static void test_a_copy_of_a_data_directory_does_not_archive(void **state)
{
    struct place place = make_place(), copy;
    struct archive archive;
    struct error error;
    char record[160], text[ARCHIVE_PATH];
    (void)state;
    assert_int_equal(open_as(&place, place.archive, &archive, &error), STATUS_OK);
    archive_close(&archive);
    (void)snprintf(record, sizeof record, "%s/archive", place.home);
    FILE *file = fopen(record, "re");
    const size_t length = fread(text, 1, sizeof text, file);
    assert_true(length > 0 && fclose(file) == 0);
    copy = make_place();
    (void)snprintf(record, sizeof record, "%s/archive", copy.home);
    file = fopen(record, "we");
    assert_true(fwrite(text, 1, length, file) == length && fclose(file) == 0);
    assert_int_equal(open_as(&copy, NULL, &archive, &error), STATUS_FORBIDDEN);
    assert_non_null(strstr(error.detail, "a copy of /tmp/"));
    assert_non_null(strstr(error.detail, "--archive off"));
    archive_close(&archive);
    assert_int_equal(open_as(&copy, place.archive, &archive, &error), STATUS_FORBIDDEN);
    archive_close(&archive);
    assert_int_equal(open_as(&place, NULL, &archive, &error), STATUS_OK); /* the first one goes on */
    archive_close(&archive);
    /* It is the one that moved when there is no other. */
    (void)snprintf(record, sizeof record, "%s/archive", place.home);
    assert_int_equal(unlink(record), 0);
    assert_int_equal(open_as(&copy, NULL, &archive, &error), STATUS_OK);
    archive_close(&archive);
    remove_place(&place);
    remove_place(&copy);
}

static void test_what_cannot_be_begun_leaves_nothing(void **state)
{
    struct place place = make_place();
    struct archive archive;
    struct error error;
    char path[160];
    (void)state;
    (void)snprintf(path, sizeof path, "%s/.archive.unfinished", place.home); /* in the way of the record */
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_not_equal(open_as(&place, place.archive, &archive, &error), STATUS_OK);
    archive_close(&archive);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(open_as(&place, place.archive, &archive, &error), STATUS_OK); /* the same directory */
    archive_close(&archive);
    remove_place(&place);
}

static void test_who_removes_is_alone(void **state)
{
    struct place place = make_place();
    struct archive archive;
    struct error error;
    int one = -1, other = -1, alone = -1;
    (void)state;
    assert_int_equal(open_as(&place, place.archive, &archive, &error), STATUS_OK);
    assert_int_equal(archive_lock(&archive, false, &one, &error), STATUS_OK);
    assert_int_equal(archive_lock(&archive, false, &other, &error), STATUS_OK);
    assert_int_equal(archive_lock(&archive, true, &alone, &error), STATUS_CONFLICT);
    assert_int_equal(alone, -1);
    assert_non_null(strstr(error.detail, place.archive));
    assert_int_equal(close(one) + close(other), 0);
    assert_int_equal(archive_lock(&archive, true, &alone, &error), STATUS_OK);
    assert_int_equal(archive_lock(&archive, true, &one, &error), STATUS_CONFLICT);
    assert_int_equal(close(alone), 0);
    archive_close(&archive);
    remove_place(&place);
}

static void test_a_gap_is_found_where_it_is(void **state)
{
    struct place place = make_place();
    struct archive archive;
    struct archive_segments found;
    struct error error;
    static const char first[] = "0000000100000000000000FE";
    (void)state;
    assert_int_equal(open_as(&place, place.archive, &archive, &error), STATUS_OK);
    assert_int_equal(archive_segments_look(&archive, first, &found, &error), STATUS_OK);
    assert_string_equal(found.gap, "");
    assert_string_equal(found.last, "");
    put(&archive, "0000000100000000000000FC.gz"); /* older than the first that is needed */
    put(&archive, "0000000100000000000000FE.gz");
    put(&archive, "0000000100000000000000FE.00000028.backup.gz");
    put(&archive, "0000000100000000000000FF.gz");
    put(&archive, "000000010000000100000000.gz"); /* the lower half counts to 256 */
    put(&archive, "000000010000000100000001.part");
    put(&archive, "000000020000000100000005.gz"); /* of another timeline */
    assert_int_equal(archive_segments_look(&archive, first, &found, &error), STATUS_OK);
    assert_string_equal(found.gap, "");
    assert_string_equal(found.last, "000000010000000100000000");
    put(&archive, "000000010000000100000002.gz");
    put(&archive, "000000010000000100000004.gz");
    assert_int_equal(archive_segments_look(&archive, first, &found, &error), STATUS_OK);
    assert_string_equal(found.gap, "000000010000000100000001");
    assert_string_equal(found.last, "000000010000000100000000");
    assert_int_equal(archive_segments_look(&archive, "0000000100000000000000FD", &found, &error), STATUS_OK);
    assert_string_equal(found.gap, "0000000100000000000000FD");
    assert_string_equal(found.last, "");
    archive_close(&archive);
    remove_place(&place);
}

static void test_what_is_older_than_a_segment_is_told_and_removed(void **state)
{
    struct place place = make_place();
    struct archive archive;
    struct archive_amount found;
    struct error error;
    static const char *const gone[] = {"0000000200000000000000FE.gz", "0000000200000000000000FF.gz",
                                       "0000000200000000000000FF.00000028.backup.gz", "0000000200000000000000FF.part"};
    static const char *const left[] = {"000000020000000100000000.gz", "000000020000000100000001.gz",
                                       "0000000100000000000000FE.gz", "00000002.history.gz", "mine"};
    enum { GONE = sizeof gone / sizeof gone[0], LEFT = sizeof left / sizeof left[0] };
    (void)state;
    assert_int_equal(open_as(&place, place.archive, &archive, &error), STATUS_OK);
    for (size_t i = 0; i < GONE; i++) put(&archive, gone[i]);
    for (size_t i = 0; i < LEFT; i++) put(&archive, left[i]);
    for (int remove = 0; remove < 2; remove++) {
        for (size_t i = 0; i < GONE; i++) assert_int_equal(faccessat(archive.wal, gone[i], F_OK, 0), 0);
        assert_int_equal(archive_segments_before(&archive, left[0], remove == 1, &found, &error), STATUS_OK);
        assert_int_equal(found.files, GONE);
    }
    for (size_t i = 0; i < GONE; i++) assert_int_not_equal(faccessat(archive.wal, gone[i], F_OK, 0), 0);
    for (size_t i = 0; i < LEFT; i++) assert_int_equal(faccessat(archive.wal, left[i], F_OK, 0), 0);
    archive_close(&archive);
    remove_place(&place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_data_directory_remembers_its_archive),
                                       cmocka_unit_test(test_an_archive_of_another_name_is_not_taken),
                                       cmocka_unit_test(test_a_copy_of_a_data_directory_does_not_archive),
                                       cmocka_unit_test(test_what_cannot_be_begun_leaves_nothing),
                                       cmocka_unit_test(test_who_removes_is_alone),
                                       cmocka_unit_test(test_a_gap_is_found_where_it_is),
                                       cmocka_unit_test(test_what_is_older_than_a_segment_is_told_and_removed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
