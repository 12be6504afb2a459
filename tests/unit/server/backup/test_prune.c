/* What an archive keeps by a rule; the rest goes. The copies are made up: each has one file, which is
 * empty. */
#include "unit.h"

#include "backup/manifest.h"
#include "backup/prune.h"
#include "postgres/archive.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NOON = 1795435200 /* 2026-11-23 12:00:00 UTC */ };

struct place {
    char base[64], archive[96];
};

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status;
    (void)where;
    return type == FTW_DP ? rmdir(path) : unlink(path);
}

static void put(const char *directory, const char *name, const char *text)
{
    char path[300];
    assert_true(snprintf(path, sizeof path, "%s/%s", directory, name) < (int)sizeof path);
    FILE *file = fopen(path, "we");
    assert_true(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

static bool is_there(const struct place *place, const char *name)
{
    char path[300];
    assert_true(snprintf(path, sizeof path, "%s/%s", place->archive, name) < (int)sizeof path);
    return access(path, F_OK) == 0;
}

static const char sha256_of_nothing[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/* Whole at noon of that day of November, and beginning with the segment of that number. */
static void put_copy_of(const struct place *place, int day, int number)
{
    char directory[200], ended_at[40], segment[40];
    struct error error;
    (void)snprintf(directory, sizeof directory, "%s/base/202611%02dT115900.000Z", place->archive, day);
    (void)snprintf(ended_at, sizeof ended_at, "2026-11-%02d 12:00:00.000000", day);
    (void)snprintf(segment, sizeof segment, "0000000100000000000000%02X", number);
    assert_int_equal(mkdir(directory, 0700), 0);
    put(directory, "base.tar.gz", "");
    json_t *manifest =
        json_pack("{si sb ss si ss ss ss s[{ss si ss}] s[]}", "format", MANIFEST_FORMAT, "whole", 0, "deltaq", "1",
                  "schema", 1, "ended_at", ended_at, "segment", segment, "data_directory", "/data", "files", "path",
                  "base.tar.gz", "bytes", 0, "sha256", sha256_of_nothing, "elsewhere");
    assert_non_null(manifest);
    assert_int_equal(manifest_write(directory, manifest, &error), STATUS_OK);
    json_decref(manifest);
}

static void put_copy(const struct place *place, int day)
{
    put_copy_of(place, day, day);
}

static void put_segment(const struct place *place, int number)
{
    char wal[200], name[40];
    (void)snprintf(wal, sizeof wal, "%s/wal", place->archive);
    (void)snprintf(name, sizeof name, "0000000100000000000000%02X.gz", number);
    put(wal, name, "1234567890");
}

static bool has_copy(const struct place *place, int day)
{
    char name[60];
    (void)snprintf(name, sizeof name, "base/202611%02dT115900.000Z", day);
    return is_there(place, name);
}

static bool has_segment(const struct place *place, int number)
{
    char name[60];
    (void)snprintf(name, sizeof name, "wal/0000000100000000000000%02X.gz", number);
    return is_there(place, name);
}

/* Copies of the 20th, 21st and 22nd, and segments 16 to 25. */
static struct place make_place(void)
{
    struct place place = {.base = "/tmp/deltaq-prune-XXXXXX"};
    char data[100];
    struct archive archive;
    struct error error;
    assert_non_null(mkdtemp(place.base));
    (void)snprintf(data, sizeof data, "%s/pg", place.base);
    (void)snprintf(place.archive, sizeof place.archive, "%s/archive", place.base);
    assert_int_equal(mkdir(data, 0700), 0);
    const int home = open(data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(archive_open(home, place.base, place.archive, getuid(), getgid(), &archive, &error), STATUS_OK);
    archive_close(&archive);
    assert_int_equal(close(home), 0);
    for (int day = 20; day <= 22; day++) put_copy(&place, day);
    for (int number = 16; number <= 25; number++) put_segment(&place, number);
    return place;
}

static void remove_place(const struct place *place)
{
    assert_int_equal(nftw(place->base, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
}

/* At noon of the 23rd. */
static enum status prune(const struct place *place, int64_t copies, int64_t days, bool remove,
                         struct prune_found *found, struct error *error)
{
    const struct prune_rule rule = {.copies = copies, .days = days};
    return prune_run(place->archive, &rule, NOON, remove, found, error);
}

static void assert_all_is_there(const struct place *place)
{
    for (int day = 20; day <= 22; day++) assert_true(has_copy(place, day));
    for (int number = 16; number <= 25; number++) assert_true(has_segment(place, number));
}

static void test_what_a_rule_keeps(void **state)
{
    static const struct {
        int copies, days, oldest; /* 0: there is not enough, so all stay */
    } rows[] = {{1, 0, 22}, {2, 0, 21}, {3, 0, 20}, {4, 0, 0},  {0, 1, 22}, {0, 2, 21},
                {0, 3, 20}, {0, 4, 0},  {1, 2, 21}, {2, 1, 21}, {3, 1, 20}, {1, 4, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct place place = make_place();
        struct prune_found told, found;
        struct error error;
        const int oldest = rows[i].oldest > 0 ? rows[i].oldest : 20;
        assert_int_equal(prune(&place, rows[i].copies, rows[i].days, false, &told, &error), STATUS_OK);
        assert_all_is_there(&place);
        assert_int_equal(prune(&place, rows[i].copies, rows[i].days, true, &found, &error), STATUS_OK);
        assert_memory_equal(&told, &found, sizeof told);
        assert_int_equal(found.enough, rows[i].oldest > 0);
        assert_int_equal(found.go, oldest - 20);
        assert_int_equal(found.stay, 23 - oldest);
        assert_int_equal(found.segments.files, rows[i].oldest > 0 ? oldest - 16 : 0);
        assert_int_equal(found.segments.bytes, 10 * found.segments.files);
        for (int day = 20; day <= 22; day++) assert_int_equal(has_copy(&place, day), day >= oldest);
        for (int number = 16; number <= 25; number++)
            assert_int_equal(has_segment(&place, number), rows[i].oldest == 0 || number >= oldest);
        char since[40];
        (void)snprintf(since, sizeof since, "2026-11-%d 12:00:00.000000", oldest);
        assert_string_equal(found.since, since);
        assert_int_equal(prune(&place, rows[i].copies, rows[i].days, true, &found, &error), STATUS_OK);
        assert_int_equal(found.go + found.segments.files, 0); /* there is nothing more */
        remove_place(&place);
    }
}

static void test_a_damaged_copy_counts_for_nothing(void **state)
{
    struct place place = make_place();
    struct prune_found found;
    struct error error;
    char path[200];
    (void)state;
    (void)snprintf(path, sizeof path, "%s/base/20261122T115900.000Z", place.archive);
    put(path, "base.tar.gz", "other bytes");
    assert_int_equal(prune(&place, 1, 0, true, &found, &error), STATUS_OK);
    assert_int_equal(found.damaged, 1);
    assert_non_null(strstr(found.fault, "20261122T115900.000Z/base.tar.gz"));
    assert_true(!has_copy(&place, 20) && has_copy(&place, 21) && has_copy(&place, 22));
    assert_true(!has_segment(&place, 20) && has_segment(&place, 21));
    (void)snprintf(path, sizeof path, "%s/base/20261121T115900.000Z/manifest.json", place.archive);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(prune(&place, 1, 0, true, &found, &error), STATUS_OK);
    assert_false(found.enough);
    assert_int_equal(found.damaged, 2);
    assert_string_equal(found.since, "");
    assert_true(has_copy(&place, 21) && has_copy(&place, 22) && has_segment(&place, 21));
    remove_place(&place);
}

/* Made before the others, by a clock that ran ahead. */
static void test_a_copy_with_a_later_name_keeps_its_segments(void **state)
{
    struct place place = make_place();
    struct prune_found found;
    struct error error;
    (void)state;
    put_copy_of(&place, 23, 18);
    assert_int_equal(prune(&place, 2, 0, true, &found, &error), STATUS_OK);
    assert_true(!has_copy(&place, 20) && !has_copy(&place, 21) && has_copy(&place, 22) && has_copy(&place, 23));
    assert_true(!has_segment(&place, 17) && has_segment(&place, 18));
    assert_int_equal(found.segments.files, 2);
    remove_place(&place);
}

static void test_nothing_goes_while_a_segment_is_missing(void **state)
{
    struct place place = make_place();
    struct prune_found found;
    struct error error;
    char path[200];
    (void)state;
    (void)snprintf(path, sizeof path, "%s/wal/000000010000000000000018.gz", place.archive); /* 24 */
    assert_int_equal(unlink(path), 0);
    assert_int_equal(prune(&place, 1, 0, true, &found, &error), STATUS_CORRUPT);
    assert_non_null(strstr(error.detail, "lacks wal/000000010000000000000018.gz"));
    put_segment(&place, 24);
    assert_all_is_there(&place);
    (void)snprintf(path, sizeof path, "%s/wal/000000010000000000000014.gz", place.archive); /* 20, which goes anyway */
    assert_int_equal(unlink(path), 0);
    assert_int_equal(prune(&place, 1, 0, true, &found, &error), STATUS_OK);
    assert_true(!has_copy(&place, 21) && has_copy(&place, 22));
    remove_place(&place);
}

static void test_what_was_killed_is_removed_at_the_next_time(void **state)
{
    static const char unfinished[] = "base/20261120T115900.000Z.unfinished";
    struct place place = make_place();
    struct prune_found found;
    struct error error;
    char whole[200], aside[200];
    (void)state;
    (void)snprintf(whole, sizeof whole, "%s/base/20261120T115900.000Z", place.archive);
    (void)snprintf(aside, sizeof aside, "%s/%s", place.archive, unfinished);
    assert_int_equal(rename(whole, aside), 0);
    assert_int_equal(prune(&place, 3, 0, false, &found, &error), STATUS_OK);
    assert_false(found.enough);
    assert_int_equal(found.unfinished, 1);
    assert_true(is_there(&place, unfinished));
    assert_int_equal(prune(&place, 3, 0, true, &found, &error), STATUS_OK);
    assert_false(is_there(&place, unfinished));
    assert_true(has_copy(&place, 21) && has_copy(&place, 22) && has_segment(&place, 16));
    assert_int_equal(prune(&place, 2, 0, true, &found, &error), STATUS_OK);
    assert_true(!has_segment(&place, 20) && has_segment(&place, 21));
    remove_place(&place);
}

static void test_who_reads_the_archive_is_waited_for(void **state)
{
    struct place place = make_place();
    struct prune_found found;
    struct archive archive;
    struct error error;
    char owner[ARCHIVE_PATH];
    int lock = -1;
    (void)state;
    assert_int_equal(archive_read(place.archive, owner, &archive, &error), STATUS_OK);
    assert_int_equal(archive_lock(&archive, false, &lock, &error), STATUS_OK);
    assert_int_equal(prune(&place, 1, 0, true, &found, &error), STATUS_CONFLICT);
    assert_all_is_there(&place);
    assert_int_equal(close(lock), 0);
    archive_close(&archive);
    assert_int_equal(prune(&place, 1, 0, true, &found, &error), STATUS_OK);
    remove_place(&place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_a_rule_keeps),
                                       cmocka_unit_test(test_a_damaged_copy_counts_for_nothing),
                                       cmocka_unit_test(test_a_copy_with_a_later_name_keeps_its_segments),
                                       cmocka_unit_test(test_nothing_goes_while_a_segment_is_missing),
                                       cmocka_unit_test(test_what_was_killed_is_removed_at_the_next_time),
                                       cmocka_unit_test(test_who_reads_the_archive_is_waited_for)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
