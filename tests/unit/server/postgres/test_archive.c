/* The small files of an archive and of a data directory, and what is missing between segments. */
#include "unit.h"

#include "postgres/archive.h"

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

static void test_a_gap_is_found_where_it_is(void **state)
{
    struct place place = make_place();
    struct archive archive;
    struct error error;
    char gap[25];
    static const char first[] = "0000000100000000000000FE";
    (void)state;
    assert_int_equal(open_as(&place, place.archive, &archive, &error), STATUS_OK);
    assert_int_equal(archive_find_gap(&archive, first, gap, &error), STATUS_OK);
    assert_string_equal(gap, "");
    put(&archive, "0000000100000000000000FC.gz"); /* older than the first that is needed */
    put(&archive, "0000000100000000000000FE.gz");
    put(&archive, "0000000100000000000000FE.00000028.backup.gz");
    put(&archive, "0000000100000000000000FF.gz");
    put(&archive, "000000010000000100000000.gz"); /* the lower half counts to 256 */
    put(&archive, "000000010000000100000001.part");
    put(&archive, "000000020000000100000005.gz"); /* of another timeline */
    assert_int_equal(archive_find_gap(&archive, first, gap, &error), STATUS_OK);
    assert_string_equal(gap, "");
    put(&archive, "000000010000000100000002.gz");
    put(&archive, "000000010000000100000004.gz");
    assert_int_equal(archive_find_gap(&archive, first, gap, &error), STATUS_OK);
    assert_string_equal(gap, "000000010000000100000001");
    assert_int_equal(archive_find_gap(&archive, "0000000100000000000000FD", gap, &error), STATUS_OK);
    assert_string_equal(gap, "0000000100000000000000FD");
    archive_close(&archive);
    remove_place(&place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_data_directory_remembers_its_archive),
                                       cmocka_unit_test(test_an_archive_of_another_name_is_not_taken),
                                       cmocka_unit_test(test_a_gap_is_found_where_it_is)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
