#include "unit.h"

#include "base/directory.h"
#include "hub/eviction.h"
#include "hub/hub_cache.h"
#include "hub/ranges.h"
#include "hub/repository.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* SHA-256 of "abc", FIPS 180-4; git hash-object of the same three bytes. */
#define ABC_SHA256 "sha256-ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define ABC_GIT    "git-f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f"
#define EMPTY_GIT  "git-e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
#define LIMIT      (INT64_C(1) << 20)

static const struct monitor nobody = {0};

struct place {
    char directory[64];
    struct hub_cache *cache;
};

static int set_up(void **state)
{
    struct error error;
    struct place *place = calloc(1, sizeof *place);
    (void)snprintf(place->directory, sizeof place->directory, "/tmp/deltaq-hub-cache-XXXXXX");
    assert_non_null(mkdtemp(place->directory));
    assert_int_equal(hub_cache_open(place->directory, LIMIT, &place->cache, &error), STATUS_OK);
    *state = place;
    return 0;
}

static int tear_down(void **state)
{
    struct place *place = *state;
    hub_cache_close(place->cache);
    directory_remove(AT_FDCWD, place->directory);
    free(place);
    return 0;
}

/* ---- ranges ---- */

static struct ranges *open_ranges(const struct place *place, const char *oid, int64_t bytes)
{
    struct error error;
    struct ranges *ranges = NULL;
    assert_int_equal(ranges_open(place->cache->partial, oid, oid, bytes, &ranges, &error), STATUS_OK);
    return ranges;
}

static bool is_right(struct ranges *ranges)
{
    struct error error;
    bool done = false, right = false;
    assert_int_equal(ranges_hash(ranges, INT64_MAX / 2, &done, &error), STATUS_OK);
    assert_true(done);
    assert_int_equal(ranges_finish(ranges, &right, &error), STATUS_OK);
    return right;
}

static void test_files_are_known_by_their_hashes(void **state)
{
    static const char *const oids[] = {ABC_SHA256, ABC_GIT};
    struct error error;
    for (size_t i = 0; i < 2; i++) {
        struct ranges *ranges = open_ranges(*state, oids[i], 3);
        assert_int_equal(ranges_write(ranges, 0, "abd", 3, &error), STATUS_OK);
        assert_false(is_right(ranges));
        assert_int_equal(ranges_restart(ranges, &error), STATUS_OK);
        assert_int_equal(ranges_there(ranges), 0);
        assert_int_equal(ranges_write(ranges, 0, "ab", 2, &error), STATUS_OK);
        assert_int_equal(ranges_write(ranges, 0, "cd", 2, &error), STATUS_CORRUPT);
        assert_int_equal(ranges_write(ranges, 0, "c", 1, &error), STATUS_OK);
        assert_true(is_right(ranges));
        ranges_close(ranges);
    }
    struct ranges *empty = open_ranges(*state, EMPTY_GIT, 0);
    assert_int_equal(ranges_count(empty), 0);
    assert_true(is_right(empty));
    ranges_close(empty);
}

static void test_ranges_go_on_where_they_stood(void **state)
{
    static const int64_t bytes = (INT64_C(2) * RANGES_BYTES) + 5;
    struct error error;
    int64_t first, last;
    struct ranges *ranges = open_ranges(*state, ABC_SHA256, bytes);
    assert_int_equal(ranges_count(ranges), 3);
    assert_int_equal(ranges_write(ranges, 2, "12345", 5, &error), STATUS_OK);
    assert_int_equal(ranges_write(ranges, 1, "123", 3, &error), STATUS_OK);
    ranges_close(ranges);
    ranges = open_ranges(*state, ABC_SHA256, bytes);
    assert_int_equal(ranges_there(ranges), 8);
    ranges_missing(ranges, 0, &first, &last);
    assert_true(first == 0 && last == RANGES_BYTES - 1);
    ranges_missing(ranges, 1, &first, &last);
    assert_true(first == RANGES_BYTES + 3 && last == 2 * RANGES_BYTES - 1);
    ranges_missing(ranges, 2, &first, &last);
    assert_true(first > last);
    ranges_close(ranges);
    /* A file of another size is another file. */
    ranges = open_ranges(*state, ABC_SHA256, bytes - 1);
    assert_int_equal(ranges_there(ranges), 0);
    ranges_close(ranges);
}

static void test_a_damaged_record_begins_again(void **state)
{
    const struct place *place = *state;
    struct error error;
    struct ranges *ranges = open_ranges(place, ABC_SHA256, 3);
    assert_int_equal(ranges_write(ranges, 0, "abc", 3, &error), STATUS_OK);
    ranges_close(ranges);
    const int fd = openat(place->cache->partial, ABC_SHA256 ".ranges", O_WRONLY);
    const int64_t absurd = 1000;
    assert_int_equal(pwrite(fd, &absurd, sizeof absurd, 24), sizeof absurd);
    (void)close(fd);
    ranges = open_ranges(place, ABC_SHA256, 3);
    assert_int_equal(ranges_there(ranges), 0);
    ranges_close(ranges);
}

static void test_one_at_a_time_has_a_file(void **state)
{
    struct ranges *first = open_ranges(*state, ABC_SHA256, 3);
    assert_null(open_ranges(*state, ABC_SHA256, 3));
    ranges_close(first);
    first = open_ranges(*state, ABC_SHA256, 3);
    assert_non_null(first);
    ranges_close(first);
}

static void test_absurd_sizes_are_refused(void **state)
{
    const struct place *place = *state;
    struct error error;
    struct ranges *ranges;
    assert_int_equal(ranges_open(place->cache->partial, ABC_SHA256, ABC_SHA256, INT64_MAX, &ranges, &error),
                     STATUS_TOO_LARGE);
}

/* ---- snapshots ---- */

/* A snapshot `key` of one file of `bytes` bytes, blob `oid`. */
static void make(const struct place *place, const char *key, const char *oid, size_t bytes)
{
    struct error error;
    struct hub_cache_hold *hold = NULL;
    bool found = true;
    assert_int_equal(hub_cache_take_to_make(place->cache, key, &nobody, &hold, &error), STATUS_OK);
    assert_non_null(hold);
    assert_int_equal(hub_cache_begin(hold, &error), STATUS_OK);
    assert_int_equal(hub_cache_link(hold, oid, (int64_t)bytes, "a/b/file", &found, &error), STATUS_OK);
    if (!found) {
        const int fd = openat(place->cache->partial, oid, O_WRONLY | O_CREAT, 0600);
        char *content = calloc(1, bytes);
        assert_int_equal(write(fd, content, bytes), bytes);
        free(content);
        (void)close(fd);
        assert_int_equal(hub_cache_adopt(hold, place->cache, oid, "a/b/file", &error), STATUS_OK);
    }
    assert_int_equal(hub_cache_publish(hold, &error), STATUS_OK);
    hub_cache_release(hold);
}

/* The directories that were made durable, by inode. */
static ino_t synced[64];
static size_t synced_count;

/* In place of the C library's. */
int fsync(int fd)
{
    struct stat found;
    if (fstat(fd, &found) == 0 && S_ISDIR(found.st_mode) && synced_count < 64) synced[synced_count++] = found.st_ino;
    return (int)syscall(SYS_fsync, fd);
}

static bool was_synced(const struct place *place, const char *name)
{
    char path[300];
    struct stat found;
    (void)snprintf(path, sizeof path, "%s/%s", place->directory, name);
    assert_int_equal(stat(path, &found), 0);
    for (size_t i = 0; i < synced_count; i++)
        if (synced[i] == found.st_ino) return true;
    return false;
}

static bool is_there(const struct place *place, const char *key)
{
    struct error error;
    struct hub_cache_hold *hold = NULL;
    assert_int_equal(hub_cache_take(place->cache, key, NULL, &hold, &error), STATUS_OK);
    const bool there = hold != NULL;
    hub_cache_release(hold);
    return there;
}

static void key_of(char letter, char out[HUB_CACHE_KEY])
{
    memset(out, letter, HUB_CACHE_KEY - 1);
    out[HUB_CACHE_KEY - 1] = '\0';
}

static void test_a_snapshot_is_there_as_a_whole(void **state)
{
    const struct place *place = *state;
    char key[HUB_CACHE_KEY], path[300];
    struct error error;
    struct hub_cache_hold *hold;
    struct stat found;
    key_of('a', key);
    assert_false(is_there(place, key));
    make(place, key, ABC_GIT, 1000);
    assert_int_equal(hub_cache_take(place->cache, key, NULL, &hold, &error), STATUS_OK);
    (void)snprintf(path, sizeof path, "%s/a/b/file", hub_cache_path(hold));
    assert_int_equal(stat(path, &found), 0);
    assert_true(found.st_size == 1000 && found.st_nlink == 2 && (found.st_mode & 0777) == 0400);
    assert_int_equal(hub_cache_bytes(hold), 1000);
    hub_cache_release(hold);
    assert_int_equal(hub_cache_take_to_make(place->cache, key, &nobody, &hold, &error), STATUS_OK);
    assert_null(hold);
}

/* Files lie in directories of their own: without these a power failure would leave a snapshot that lacks them. */
static void test_a_snapshot_is_durable_with_all_its_directories(void **state)
{
    static const char *const names[] = {"", "/a", "/a/b"};
    const struct place *place = *state;
    char key[HUB_CACHE_KEY], name[HUB_CACHE_KEY + 32];
    key_of('a', key);
    synced_count = 0;
    make(place, key, ABC_GIT, 1000);
    assert_true(was_synced(place, "snapshots") && was_synced(place, "blobs"));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)snprintf(name, sizeof name, "snapshots/%s%s", key, names[i]);
        if (!was_synced(place, name)) fail_msg("%s was not synced", name);
    }
}

static void note_line(void *owner, const char *line)
{
    (void)snprintf(owner, 200, "%s", line);
}

/* Gives up once the log has a line, or after ten seconds. */
static enum status check_line(void *owner, struct error *error)
{
    static int looks;
    const char *line = owner;
    return line[0] != '\0' || ++looks > 200 ? error_set(error, STATUS_CANCELLED, "enough") : STATUS_OK;
}

static void test_who_waits_for_another_process_says_so(void **state)
{
    const struct place *place = *state;
    char key[HUB_CACHE_KEY], line[200] = "";
    struct error error;
    struct hub_cache_hold *making, *hold;
    const struct monitor monitor = {.owner = line, .log = note_line, .check = check_line};
    key_of('a', key);
    assert_int_equal(hub_cache_take_to_make(place->cache, key, &nobody, &making, &error), STATUS_OK);
    assert_int_equal(hub_cache_take(place->cache, key, &monitor, &hold, &error), STATUS_CANCELLED);
    assert_non_null(strstr(line, "waits until another process"));
    hub_cache_release(making);
}

static void test_what_was_never_finished_is_cleared(void **state)
{
    const struct place *place = *state;
    char key[HUB_CACHE_KEY];
    struct error error;
    struct hub_cache_hold *hold;
    bool found;
    key_of('b', key);
    make(place, key, ABC_GIT, 1000);
    key_of('a', key);
    assert_int_equal(hub_cache_take_to_make(place->cache, key, &nobody, &hold, &error), STATUS_OK);
    assert_int_equal(hub_cache_begin(hold, &error), STATUS_OK);
    assert_int_equal(hub_cache_link(hold, ABC_GIT, 1000, "left/over", &found, &error), STATUS_OK);
    assert_true(found);
    hub_cache_release(hold);
    assert_false(is_there(place, key));
    make(place, key, ABC_GIT, 1000);
    assert_int_equal(hub_cache_take(place->cache, key, NULL, &hold, &error), STATUS_OK);
    assert_int_equal(hub_cache_bytes(hold), 1000); /* and no more: the left-over is gone */
    hub_cache_release(hold);
}

static void test_a_blob_of_another_size_is_refused(void **state)
{
    const struct place *place = *state;
    char key[HUB_CACHE_KEY];
    struct error error;
    struct hub_cache_hold *hold;
    bool found;
    key_of('a', key);
    make(place, key, ABC_GIT, 1000);
    key_of('b', key);
    assert_int_equal(hub_cache_take_to_make(place->cache, key, &nobody, &hold, &error), STATUS_OK);
    assert_int_equal(hub_cache_begin(hold, &error), STATUS_OK);
    assert_int_equal(hub_cache_link(hold, ABC_GIT, 1001, "file", &found, &error), STATUS_CORRUPT);
    hub_cache_release(hold);
}

static void test_keys_depend_on_all_and_not_on_order(void **state)
{
    static const char *const ab[] = {"a", "b"}, *const ba[] = {"b", "a"};
    char keys[5][HUB_CACHE_KEY];
    struct error error;
    (void)state;
    assert_int_equal(hub_cache_key("r", "c", NULL, 0, keys[0], &error), STATUS_OK);
    assert_int_equal(hub_cache_key("r", "d", NULL, 0, keys[1], &error), STATUS_OK);
    assert_int_equal(hub_cache_key("rc", "", NULL, 0, keys[2], &error), STATUS_OK);
    assert_int_equal(hub_cache_key("r", "c", ab, 2, keys[3], &error), STATUS_OK);
    assert_int_equal(hub_cache_key("r", "c", ba, 2, keys[4], &error), STATUS_OK);
    assert_string_equal(keys[3], keys[4]);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < i; k++) assert_string_not_equal(keys[i], keys[k]);
}

/* ---- eviction ---- */

enum { BLOB_BYTES = 300000 }; /* three fit under the bound */

/* A hold to make the snapshot of `letter`, begun. */
static struct hub_cache_hold *begin(const struct place *place, char letter)
{
    char key[HUB_CACHE_KEY];
    struct error error;
    struct hub_cache_hold *hold;
    key_of(letter, key);
    assert_int_equal(hub_cache_take_to_make(place->cache, key, &nobody, &hold, &error), STATUS_OK);
    assert_non_null(hold);
    assert_int_equal(hub_cache_begin(hold, &error), STATUS_OK);
    return hold;
}

/* Makes space under `hold` for a file "git-NAME" of `bytes` bytes. */
static enum status reserve(const struct place *place, const struct hub_cache_hold *hold, const char *name,
                           int64_t bytes, struct error *error)
{
    struct repository_file file = {.bytes = bytes};
    (void)snprintf(file.oid, sizeof file.oid, "git-%s", name);
    const struct eviction_request request = {.hold = hold, .files = &file, .count = 1, .monitor = &nobody};
    return eviction_make_space(place->cache, &request, error);
}

/* Makes space for one file of a snapshot that is not made afterwards. */
static enum status make_space(const struct place *place, int64_t bytes, const struct eviction_need *needs, size_t count,
                              struct error *error)
{
    const struct repository_file file = {.oid = "git-next", .bytes = bytes};
    struct hub_cache_hold *hold = begin(place, 'f');
    const struct eviction_request request = {
        .hold = hold, .files = &file, .count = 1, .needs = needs, .need_count = count, .monitor = &nobody};
    const enum status status = eviction_make_space(place->cache, &request, error);
    hub_cache_release(hold);
    return status;
}

static void make_three(const struct place *place, char keys[3][HUB_CACHE_KEY])
{
    for (int i = 0; i < 3; i++) {
        char oid[80], path[200];
        const struct timespec when[2] = {{.tv_sec = 1000 + i}, {.tv_sec = 1000 + i}};
        key_of((char)('a' + i), keys[i]);
        (void)snprintf(oid, sizeof oid, "git-%s", keys[i]);
        make(place, keys[i], oid, BLOB_BYTES);
        (void)snprintf(path, sizeof path, "%s/locks/%s", place->directory, keys[i]);
        assert_int_equal(utimensat(AT_FDCWD, path, when, 0), 0);
    }
}

static void test_the_least_recently_used_goes_first(void **state)
{
    const struct place *place = *state;
    char keys[3][HUB_CACHE_KEY];
    struct error error;
    int64_t used;
    make_three(place, keys);
    assert_int_equal(make_space(place, BLOB_BYTES, NULL, 0, &error), STATUS_OK);
    assert_false(is_there(place, keys[0]));
    assert_int_equal(eviction_used(place->cache, &used, &error), STATUS_OK);
    assert_in_range(used, 2 * BLOB_BYTES, 2 * BLOB_BYTES + 16384);
    assert_true(is_there(place, keys[1]) && is_there(place, keys[2]));
}

static void test_what_runs_need_goes_last_or_stays(void **state)
{
    const struct place *place = *state;
    char keys[3][HUB_CACHE_KEY];
    struct eviction_need needs[2] = {{.running = true}, {.running = false}};
    struct error error;
    make_three(place, keys);
    memcpy(needs[0].key, keys[0], HUB_CACHE_KEY);
    memcpy(needs[1].key, keys[1], HUB_CACHE_KEY);
    assert_int_equal(make_space(place, BLOB_BYTES, needs, 2, &error), STATUS_OK);
    assert_true(is_there(place, keys[0]) && is_there(place, keys[1]) && !is_there(place, keys[2]));
    assert_int_equal(make_space(place, 2 * BLOB_BYTES, needs, 2, &error), STATUS_OK);
    assert_true(is_there(place, keys[0]) && !is_there(place, keys[1]));
    assert_int_equal(make_space(place, 3 * BLOB_BYTES, needs, 2, &error), STATUS_UNAVAILABLE);
    assert_int_equal(error.again_seconds, 120);
    assert_true(is_there(place, keys[0]));
}

static void test_what_is_held_stays(void **state)
{
    const struct place *place = *state;
    char keys[3][HUB_CACHE_KEY];
    struct hub_cache_hold *hold;
    struct error error;
    make_three(place, keys);
    assert_int_equal(hub_cache_take(place->cache, keys[0], NULL, &hold, &error), STATUS_OK);
    assert_int_equal(make_space(place, 3 * BLOB_BYTES, NULL, 0, &error), STATUS_UNAVAILABLE);
    assert_true(is_there(place, keys[0]) && !is_there(place, keys[1]) && !is_there(place, keys[2]));
    hub_cache_release(hold);
    assert_int_equal(make_space(place, 3 * BLOB_BYTES, NULL, 0, &error), STATUS_OK);
    assert_false(is_there(place, keys[0]));
}

static void test_a_shared_blob_stays_as_long_as_one_needs_it(void **state)
{
    const struct place *place = *state;
    char keys[2][HUB_CACHE_KEY];
    struct eviction_need need = {.running = true};
    struct error error;
    int64_t used;
    for (int i = 0; i < 2; i++) {
        key_of((char)('a' + i), keys[i]);
        make(place, keys[i], ABC_GIT, BLOB_BYTES);
    }
    assert_int_equal(eviction_used(place->cache, &used, &error), STATUS_OK);
    assert_in_range(used, BLOB_BYTES, BLOB_BYTES + 8192);
    memcpy(need.key, keys[1], HUB_CACHE_KEY);
    assert_int_equal(make_space(place, LIMIT - 1000, &need, 1, &error), STATUS_UNAVAILABLE);
    assert_true(!is_there(place, keys[0]) && is_there(place, keys[1]));
    assert_int_equal(faccessat(place->cache->blobs, ABC_GIT, F_OK, 0), 0);
}

static void test_more_than_the_bound_is_refused_at_once(void **state)
{
    const struct place *place = *state;
    char keys[3][HUB_CACHE_KEY];
    struct error error;
    make_three(place, keys);
    assert_int_equal(make_space(place, LIMIT + 1, NULL, 0, &error), STATUS_TOO_LARGE);
    assert_true(is_there(place, keys[0]));
}

static void test_what_another_fetch_will_bring_is_not_given_twice(void **state)
{
    const struct place *place = *state;
    struct error error;
    struct hub_cache_hold *first = begin(place, 'a'), *second = begin(place, 'b');
    assert_int_equal(reserve(place, first, "first", 2 * BLOB_BYTES, &error), STATUS_OK);
    assert_int_equal(reserve(place, second, "second", 2 * BLOB_BYTES, &error), STATUS_UNAVAILABLE);
    assert_int_equal(error.again_seconds, 120);
    assert_non_null(strstr(error.detail, "other fetches"));
    assert_int_equal(reserve(place, second, "second", BLOB_BYTES, &error), STATUS_OK);
    assert_int_equal(reserve(place, second, "first", 2 * BLOB_BYTES, &error), STATUS_OK); /* the same blob, once */
    hub_cache_release(first);
    assert_int_equal(reserve(place, second, "second", 3 * BLOB_BYTES, &error), STATUS_OK);
    hub_cache_release(second);
}

/* What has come of a reserved file is there already. */
static void test_a_reservation_shrinks_as_its_files_come(void **state)
{
    const struct place *place = *state;
    struct error error;
    static char content[BLOB_BYTES];
    struct hub_cache_hold *first = begin(place, 'a'), *second = begin(place, 'b');
    assert_int_equal(reserve(place, first, "first", 2 * BLOB_BYTES, &error), STATUS_OK);
    const int fd = openat(place->cache->partial, "git-first", O_WRONLY | O_CREAT, 0600);
    assert_int_equal(write(fd, content, BLOB_BYTES), BLOB_BYTES);
    assert_int_equal(reserve(place, second, "second", BLOB_BYTES, &error), STATUS_OK);
    assert_int_equal(write(fd, content, BLOB_BYTES), BLOB_BYTES);
    (void)close(fd);
    assert_int_equal(hub_cache_adopt(first, place->cache, "git-first", "file", &error), STATUS_OK);
    assert_int_equal(reserve(place, second, "second", BLOB_BYTES, &error), STATUS_OK);
    hub_cache_release(first);
    hub_cache_release(second);
}

static void test_who_is_killed_leaves_no_reservation(void **state)
{
    const struct place *place = *state;
    struct error error;
    int ready[2], outcome;
    char byte;
    assert_int_equal(pipe(ready), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* also of a test that fails */
        const enum status status = reserve(place, begin(place, 'a'), "first", 2 * BLOB_BYTES, &error);
        if (status != STATUS_OK || write(ready[1], "+", 1) != 1) _exit(1);
        for (;;) (void)pause();
    }
    (void)close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    struct hub_cache_hold *second = begin(place, 'b');
    assert_int_equal(reserve(place, second, "second", 2 * BLOB_BYTES, &error), STATUS_UNAVAILABLE);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &outcome, 0), child);
    assert_int_equal(reserve(place, second, "second", 2 * BLOB_BYTES, &error), STATUS_OK);
    struct hub_cache_hold *first = begin(place, 'a'); /* and who makes its snapshot begins without it */
    assert_int_equal(reserve(place, second, "second", 3 * BLOB_BYTES, &error), STATUS_OK);
    hub_cache_release(first);
    hub_cache_release(second);
    (void)close(ready[0]);
}

static bool without_locks;

/* In place of the C library's. */
int flock(int fd, int operation)
{
    if (!without_locks) return (int)syscall(SYS_flock, fd, operation);
    errno = ENOLCK;
    return -1;
}

static bool is_being_made(const struct place *place, char letter)
{
    char name[HUB_CACHE_KEY + 1] = ".";
    struct stat found;
    key_of(letter, name + 1);
    return fstatat(place->cache->snapshots, name, &found, 0) == 0;
}

/* They come before the last of the three, which a queued run needs. */
static void test_without_locks_no_fetch_evicts_what_is_being_made(void **state)
{
    static const struct repository_file file = {.oid = "git-own", .bytes = INT64_C(3) * BLOB_BYTES};
    const struct place *place = *state;
    char keys[3][HUB_CACHE_KEY];
    struct eviction_need need = {.running = false};
    struct error error;
    make_three(place, keys);
    memcpy(need.key, keys[2], HUB_CACHE_KEY);
    without_locks = true;
    struct hub_cache_hold *own = begin(place, 'd'), *other = begin(place, 'e');
    const struct eviction_request request = {
        .hold = own, .files = &file, .count = 1, .needs = &need, .need_count = 1, .monitor = &nobody};
    const enum status status = eviction_make_space(place->cache, &request, &error);
    const bool stay = is_being_made(place, 'd') && is_being_made(place, 'e');
    hub_cache_release(own);
    hub_cache_release(other);
    without_locks = false;
    assert_int_equal(status, STATUS_OK);
    assert_true(stay);
    assert_false(is_there(place, keys[0]) || is_there(place, keys[1]) || is_there(place, keys[2]));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_files_are_known_by_their_hashes),
        TEST(test_ranges_go_on_where_they_stood),
        TEST(test_a_damaged_record_begins_again),
        TEST(test_one_at_a_time_has_a_file),
        TEST(test_absurd_sizes_are_refused),
        TEST(test_a_snapshot_is_there_as_a_whole),
        TEST(test_a_snapshot_is_durable_with_all_its_directories),
        TEST(test_who_waits_for_another_process_says_so),
        TEST(test_what_was_never_finished_is_cleared),
        TEST(test_a_blob_of_another_size_is_refused),
        cmocka_unit_test(test_keys_depend_on_all_and_not_on_order),
        TEST(test_the_least_recently_used_goes_first),
        TEST(test_what_runs_need_goes_last_or_stays),
        TEST(test_what_is_held_stays),
        TEST(test_a_shared_blob_stays_as_long_as_one_needs_it),
        TEST(test_more_than_the_bound_is_refused_at_once),
        TEST(test_what_another_fetch_will_bring_is_not_given_twice),
        TEST(test_a_reservation_shrinks_as_its_files_come),
        TEST(test_who_is_killed_leaves_no_reservation),
        TEST(test_without_locks_no_fetch_evicts_what_is_being_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
