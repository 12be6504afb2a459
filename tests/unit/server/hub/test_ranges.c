/* What the record of a download counts: never bytes that a power failure may take and no hash would miss. */
#include "unit.h"

#include "base/directory.h"
#include "hub/ranges.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OID "object-ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define MD5 "md5-900150983cd24fb0d6963f7d28e17f72"
enum { PART = 1 << 20, RECORD_HEAD = 24, RANGES = 3 };
#define BYTES (INT64_C(2) * RANGES_BYTES + 5)

/* The disk, as the power failure that may come at any moment sees it. */
static struct {
    int syncs;
    bool broken;
    int64_t written, synced; /* bytes */
} disk;

/* Stands in for the C library's. */
int fdatasync(int file)
{
    (void)file;
    disk.syncs++;
    if (disk.broken) {
        errno = EIO;
        return -1;
    }
    disk.synced = disk.written;
    return 0;
}

struct place {
    char path[64];
    int directory;
};

static int set_up(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    memset(&disk, 0, sizeof disk);
    (void)snprintf(place->path, sizeof place->path, "/tmp/deltaq-ranges-XXXXXX");
    assert_non_null(mkdtemp(place->path));
    place->directory = open(place->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(place->directory >= 0);
    *state = place;
    return 0;
}

static int tear_down(void **state)
{
    struct place *place = *state;
    (void)close(place->directory);
    directory_remove(AT_FDCWD, place->path);
    free(place);
    return 0;
}

static struct ranges *open_ranges(const struct place *place, const char *check)
{
    struct error error;
    struct ranges *ranges = NULL;
    assert_int_equal(ranges_open(place->directory, OID, check, BYTES, &ranges, &error), STATUS_OK);
    assert_non_null(ranges);
    return ranges;
}

static enum status write_part(struct ranges *ranges, int range, size_t length)
{
    static const char part[PART];
    struct error error;
    disk.written += (int64_t)length;
    return ranges_write(ranges, range, part, length, &error);
}

/* The number of bytes that the record on disk counts. */
static int64_t recorded(const struct place *place)
{
    int64_t there[RANGES], sum = 0;
    const int fd = openat(place->directory, OID ".ranges", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, there, sizeof there, RECORD_HEAD), sizeof there);
    (void)close(fd);
    for (int i = 0; i < RANGES; i++) sum += there[i];
    return sum;
}

static void test_without_a_hash_only_synced_bytes_are_counted(void **state)
{
    const struct place *place = *state;
    struct error error;
    bool done = false, right = false;
    struct ranges *ranges = open_ranges(place, "");
    for (int i = 0; i < 2 * RANGES_BYTES / PART; i++) {
        assert_int_equal(write_part(ranges, i % 2, PART), STATUS_OK);
        assert_true(recorded(place) <= disk.synced);
    }
    assert_int_equal(recorded(place), 2 * RANGES_BYTES);
    assert_int_equal(disk.syncs, 2); /* one for 16 MiB */
    assert_int_equal(write_part(ranges, 2, 5), STATUS_OK);
    assert_int_equal(recorded(place), 2 * RANGES_BYTES);
    ranges_close(ranges);
    assert_int_equal(recorded(place), BYTES);
    assert_int_equal(disk.synced, BYTES);
    ranges = open_ranges(place, "");
    assert_int_equal(ranges_there(ranges), BYTES);
    assert_int_equal(ranges_hash(ranges, BYTES, &done, &error), STATUS_OK);
    assert_int_equal(ranges_finish(ranges, &right, &error), STATUS_OK);
    assert_true(done && right);
    ranges_close(ranges);
    assert_int_equal(disk.syncs, 3);
}

static void test_bytes_whose_sync_failed_are_never_counted(void **state)
{
    const struct place *place = *state;
    struct ranges *ranges = open_ranges(place, "");
    disk.broken = true;
    for (int i = 1; i < RANGES_BYTES / PART; i++) assert_int_equal(write_part(ranges, 0, PART), STATUS_OK);
    assert_int_equal(write_part(ranges, 0, PART), STATUS_IO);
    disk.broken = false; /* a second sync would tell nothing about the first one's bytes */
    ranges_close(ranges);
    assert_int_equal(disk.syncs, 1);
    assert_int_equal(recorded(place), 0);
    ranges = open_ranges(place, "");
    assert_int_equal(ranges_there(ranges), 0);
    ranges_close(ranges);
}

static void test_with_a_hash_nothing_is_synced_meanwhile(void **state)
{
    const struct place *place = *state;
    struct ranges *ranges = open_ranges(place, MD5);
    assert_int_equal(write_part(ranges, 1, PART), STATUS_OK);
    assert_int_equal(recorded(place), PART);
    ranges_close(ranges);
    assert_int_equal(disk.syncs, 0);
}

/* As when the server keeps a checksum that it did not keep before, or the record is an older version's. */
static void test_a_record_of_unsynced_bytes_counts_for_nothing_without_a_hash(void **state)
{
    const struct place *place = *state;
    struct ranges *ranges = open_ranges(place, MD5);
    assert_int_equal(write_part(ranges, 0, PART), STATUS_OK);
    ranges_close(ranges);
    ranges = open_ranges(place, MD5);
    assert_int_equal(ranges_there(ranges), PART);
    ranges_close(ranges);
    ranges = open_ranges(place, "");
    assert_int_equal(ranges_there(ranges), 0);
    ranges_close(ranges);
    assert_int_equal(recorded(place), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_without_a_hash_only_synced_bytes_are_counted),
        TEST(test_bytes_whose_sync_failed_are_never_counted),
        TEST(test_with_a_hash_nothing_is_synced_meanwhile),
        TEST(test_a_record_of_unsynced_bytes_counts_for_nothing_without_a_hash),
    };
    return cmocka_run_group_tests_name("ranges", tests, NULL, NULL);
}
