#include "hub/eviction.h"

#include "base/directory.h"
#include "hub/reservation.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

/* IN_USE: when a run is tried again that found no space because other runs need what is there. */
enum { ABANDONED_SECONDS = 3600, IN_USE_SECONDS = 120 };

/* Calls `visit` for each entry of `directory` until it returns false. */
static enum status each(int directory, bool (*visit)(void *owner, int directory, const char *name), void *owner,
                        struct error *error)
{
    const int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
    if (stream == NULL) {
        if (fd >= 0) (void)close(fd);
        return error_set_errno(error, "listing the hub's cache");
    }
    for (const struct dirent *entry; (entry = readdir(stream)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            !visit(owner, directory, entry->d_name))
            break;
    (void)closedir(stream);
    return STATUS_OK;
}

/* ---- counting ---- */

/* Counts blocks, because a partial file has holes where ranges are missing. */
static bool count_blocks(void *owner, int directory, const char *name)
{
    struct stat found;
    int64_t *sum = owner;
    if (fstatat(directory, name, &found, AT_SYMLINK_NOFOLLOW) == 0) *sum += (int64_t)found.st_blocks * 512;
    return true;
}

/* Partial files first: one that is finished meanwhile is counted twice, and not missed. */
enum status eviction_used(const struct hub_cache *cache, int64_t *out, struct error *error)
{
    *out = 0;
    const enum status status = each(cache->partial, count_blocks, out, error);
    return status == STATUS_OK ? each(cache->blobs, count_blocks, out, error) : status;
}

static int64_t disk_free(const struct hub_cache *cache)
{
    struct statvfs space;
    return fstatvfs(cache->blobs, &space) == 0 ? (int64_t)space.f_bavail * (int64_t)space.f_frsize : 0;
}

/* What is still to come is asked first: bytes that come meanwhile are counted twice, and not missed. */
static enum status has_space(const struct hub_cache *cache, const struct hub_cache_hold *hold, bool *space,
                             struct error *error)
{
    int64_t used = 0, bytes = 0;
    enum status status = reservation_bytes(cache, hold, &bytes, error);
    if (status == STATUS_OK) status = eviction_used(cache, &used, error);
    *space = status == STATUS_OK && bytes <= cache->most - used && bytes <= disk_free(cache) - bytes / 10;
    return status;
}

/* ---- removing ---- */

/* Removes a blob that no snapshot links to. */
static bool remove_orphan(void *owner, int directory, const char *name)
{
    struct stat found;
    (void)owner;
    if (fstatat(directory, name, &found, AT_SYMLINK_NOFOLLOW) == 0 && found.st_nlink == 1)
        (void)unlinkat(directory, name, 0);
    return true;
}

/* Removes a download that no process has open and that was not written for a while, and its record. */
static bool remove_abandoned(void *owner, int directory, const char *name)
{
    struct stat found;
    char record[300];
    (void)owner;
    if (fstatat(directory, name, &found, AT_SYMLINK_NOFOLLOW) != 0 || time(NULL) - found.st_mtime < ABANDONED_SECONDS)
        return true;
    const int fd = openat(directory, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return true;
    const char *dot = strrchr(name, '.'); /* a record without its file is what a crash left of a finished file */
    (void)snprintf(record, sizeof record, "%.*s", dot != NULL ? (int)(dot - name) : 0, name);
    const bool alone = dot == NULL || faccessat(directory, record, F_OK, AT_SYMLINK_NOFOLLOW) != 0;
    if (alone && (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)) {
        (void)snprintf(record, sizeof record, "%.250s.ranges", name);
        (void)unlinkat(directory, name, 0);
        (void)unlinkat(directory, record, 0);
    }
    (void)close(fd);
    return true;
}

/* ---- which snapshots are evicted ---- */

struct candidate {
    char name[HUB_CACHE_KEY + 1]; /* a key, or "." and a key: one that was never finished */
    int rank;                     /* the lower rank is evicted first */
    struct timespec used;
};

struct candidates {
    const struct hub_cache *cache;
    const struct eviction_request *request;
    struct candidate *items;
    size_t count, space;
    bool failed;
};

enum { RANK_FREE, RANK_QUEUED, RANK_RUNNING };

static int rank(const struct candidates *list, const char *key)
{
    int found = RANK_FREE;
    const struct eviction_need *needs = list->request->needs;
    for (size_t i = 0; i < list->request->need_count && found < RANK_RUNNING; i++)
        if (strcmp(needs[i].key, key) == 0) found = needs[i].running ? RANK_RUNNING : RANK_QUEUED;
    return found;
}

static bool note_candidate(void *owner, int directory, const char *name)
{
    struct candidates *list = owner;
    struct stat lock;
    const char *key = name + (name[0] == '.');
    (void)directory;
    if (strcmp(name + strcspn(name + 1, ".") + 1, ".gone") == 0)
        directory_remove(list->cache->snapshots, name); /* left by an evictor that was killed */
    if (!names_is_hex(key, HUB_CACHE_KEY - 1) || strcmp(key, hub_cache_key_of(list->request->hold)) == 0) return true;
    if (list->count == list->space) {
        const size_t space = 2 * list->space + 64;
        struct candidate *larger = realloc(list->items, space * sizeof *larger);
        list->failed = larger == NULL;
        if (larger == NULL) return false;
        list->items = larger;
        list->space = space;
    }
    struct candidate *item = &list->items[list->count++];
    *item = (struct candidate){.rank = rank(list, key)};
    (void)snprintf(item->name, sizeof item->name, "%s", name);
    if (fstatat(list->cache->locks, key, &lock, AT_SYMLINK_NOFOLLOW) == 0) item->used = lock.st_mtim;
    return true;
}

static int compare_candidates(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->rank != y->rank) return x->rank - y->rank;
    if (x->used.tv_sec != y->used.tv_sec) return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    return x->used.tv_nsec < y->used.tv_nsec ? -1 : x->used.tv_nsec > y->used.tv_nsec;
}

/* Whether the snapshot may be evicted, whose lock is `fd`; then it is locked. On a file system without locks nobody
 * knows whether a snapshot is still being made: one that was begun within the hour is taken for that. */
static bool may_evict(int fd, const struct candidate *item)
{
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) return true;
    return errno != EWOULDBLOCK && (item->name[0] != '.' || time(NULL) - item->used.tv_sec >= ABANDONED_SECONDS);
}

/* Evicts a snapshot under its lock. It is renamed first, so that no process finds half of it. */
static void evict(const struct hub_cache *cache, const struct candidate *item, const struct monitor *monitor)
{
    char gone[HUB_CACHE_KEY + 8];
    const char *key = item->name + (item->name[0] == '.');
    struct error ignored;
    const int fd = openat(cache->locks, key, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return;
    if (may_evict(fd, item)) {
        (void)snprintf(gone, sizeof gone, ".%s.gone", key);
        directory_remove(cache->snapshots, gone);
        if (renameat(cache->snapshots, item->name, cache->snapshots, gone) == 0)
            directory_remove(cache->snapshots, gone);
        (void)unlinkat(cache->locks, key, 0);
        if (each(cache->blobs, remove_orphan, NULL, &ignored) == STATUS_OK && item->name[0] != '.')
            monitor_log(monitor, "a snapshot of the hub was evicted to make space");
    }
    (void)close(fd);
}

static enum status no_space(const struct hub_cache *cache, int64_t bytes, struct error *error)
{
    static const double gibibyte = 1 << 30;
    return error_set(error, STATUS_DISK_FULL,
                     "%.3f GiB are to be fetched; the cache may hold %.3f GiB, and %.3f GiB of the disk are free: free"
                     " space, or raise --hub-cache",
                     (double)bytes / gibibyte, (double)cache->most / gibibyte, (double)disk_free(cache) / gibibyte);
}

/* It would fit if everything were evicted (eviction_check), so there is space when other runs have ended. */
static enum status in_use(const struct hub_cache *cache, int64_t bytes, struct error *error)
{
    static const double gibibyte = 1 << 30;
    (void)error_set(error, STATUS_UNAVAILABLE,
                    "%.3f GiB are to be fetched; the cache may hold %.3f GiB, and running runs need what is there or"
                    " what other fetches bring: wait for them, or raise --hub-cache",
                    (double)bytes / gibibyte, (double)cache->most / gibibyte);
    error->again_seconds = IN_USE_SECONDS;
    return STATUS_UNAVAILABLE;
}

enum status eviction_most(const struct hub_cache *cache, int64_t *out, struct error *error)
{
    int64_t used = 0;
    const enum status status = eviction_used(cache, &used, error);
    const int64_t disk = used + disk_free(cache), spared = disk - disk / 11; /* a tenth of the rest is left free */
    *out = spared < cache->most ? spared : cache->most;
    return status;
}

enum status eviction_check(const struct hub_cache *cache, int64_t bytes, struct error *error)
{
    int64_t most = 0;
    if (bytes > cache->most)
        return error_set(error, STATUS_TOO_LARGE,
                         "%lld bytes are to be fetched and the cache may hold %lld: raise --hub-cache",
                         (long long)bytes, (long long)cache->most);
    const enum status status = eviction_most(cache, &most, error);
    return status == STATUS_OK && bytes > most ? no_space(cache, bytes, error) : status;
}

/* Removes what no snapshot needs, and lists the snapshots, those that go first at the beginning. */
static enum status candidates_list(const struct hub_cache *cache, struct candidates *list, struct error *error)
{
    enum status status = each(cache->partial, remove_abandoned, NULL, error);
    if (status == STATUS_OK) status = each(cache->blobs, remove_orphan, NULL, error);
    if (status == STATUS_OK) status = each(cache->snapshots, note_candidate, list, error);
    if (status == STATUS_OK && list->failed)
        status = error_set(error, STATUS_NO_MEMORY, "no memory for a list of snapshots");
    if (list->count > 0) qsort(list->items, list->count, sizeof *list->items, compare_candidates);
    return status;
}

/* Evicts one after the other until there is space, or only what running runs need is left. */
static enum status candidates_evict(const struct hub_cache *cache, struct candidates *list, bool *space,
                                    struct error *error)
{
    const struct monitor *monitor = list->request->monitor;
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i <= list->count; i++) {
        status = has_space(cache, list->request->hold, space, error);
        if (status == STATUS_OK) status = monitor_check(monitor, error);
        if (*space || i == list->count || list->items[i].rank == RANK_RUNNING) break;
        if (status == STATUS_OK) evict(cache, &list->items[i], monitor);
    }
    return status;
}

/* The caller releases the hold of a fetch that finds no space, and with it what is reserved here. */
static enum status make_space_locked(const struct hub_cache *cache, const struct eviction_request *request,
                                     int64_t bytes, struct error *error)
{
    struct candidates list = {.cache = cache, .request = request};
    bool space = false;
    enum status status = reservation_write(request->hold, request->files, request->count, error);
    if (status == STATUS_OK) status = has_space(cache, request->hold, &space, error);
    if (status == STATUS_OK && !space) status = candidates_list(cache, &list, error);
    if (status == STATUS_OK && !space) status = candidates_evict(cache, &list, &space, error);
    if (status == STATUS_OK && !space) status = in_use(cache, bytes, error);
    free(list.items);
    return status;
}

enum status eviction_make_space(const struct hub_cache *cache, const struct eviction_request *request,
                                struct error *error)
{
    int64_t bytes = 0;
    int fd = -1;
    enum status status = reservation_missing(cache, request->files, request->count, &bytes, error);
    if (status == STATUS_OK) status = eviction_check(cache, bytes, error);
    if (status == STATUS_OK) status = hub_cache_lock_space(cache, request->monitor, &fd, error);
    if (status != STATUS_OK) return status;
    status = make_space_locked(cache, request, bytes, error);
    (void)close(fd);
    return status;
}
