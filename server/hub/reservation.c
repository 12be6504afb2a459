#include "hub/reservation.h"

#include "hub/repository.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* As it is in the lock of a snapshot. */
struct promise {
    char oid[REPOSITORY_OID];
    int64_t bytes;
};

struct promises {
    struct promise *items; /* owned */
    size_t count;
};

static int compare_oids(const void *a, const void *b)
{
    const struct promise *x = a, *y = b;
    return strcmp(x->oid, y->oid);
}

/* Space for `count` more. */
static enum status promises_grow(struct promises *list, size_t count, struct error *error)
{
    struct promise *larger = realloc(list->items, (list->count + count + 1) * sizeof *larger);
    if (larger == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a reservation");
    list->items = larger;
    return STATUS_OK;
}

static enum status promises_of(const struct repository_file *files, size_t count, struct promises *out,
                               struct error *error)
{
    *out = (struct promises){NULL, 0};
    const enum status status = promises_grow(out, count, error);
    if (status != STATUS_OK) return status;
    for (size_t i = 0; i < count; i++) {
        out->items[i] = (struct promise){.bytes = files[i].bytes};
        memcpy(out->items[i].oid, files[i].oid, sizeof files[i].oid);
    }
    out->count = count;
    return STATUS_OK;
}

/* Bytes that are missing of one file. A blob has its bytes, and a partial file has blocks where ranges are there. */
static int64_t lacks(const struct hub_cache *cache, const struct promise *item)
{
    struct stat found;
    if (fstatat(cache->blobs, item->oid, &found, AT_SYMLINK_NOFOLLOW) == 0) return 0;
    if (fstatat(cache->partial, item->oid, &found, AT_SYMLINK_NOFOLLOW) != 0) return item->bytes;
    const int64_t there = (int64_t)found.st_blocks * 512;
    return there < item->bytes ? item->bytes - there : 0;
}

static int64_t promises_lack(const struct hub_cache *cache, struct promises *list)
{
    int64_t sum = 0;
    if (list->count > 0) qsort(list->items, list->count, sizeof *list->items, compare_oids);
    for (size_t i = 0; i < list->count; i++) {
        if (i > 0 && compare_oids(&list->items[i - 1], &list->items[i]) == 0) continue;
        const int64_t bytes = lacks(cache, &list->items[i]);
        sum = bytes > INT64_MAX - sum ? INT64_MAX : sum + bytes;
    }
    return sum;
}

enum status reservation_missing(const struct hub_cache *cache, const struct repository_file *files, size_t count,
                                int64_t *bytes, struct error *error)
{
    struct promises list;
    const enum status status = promises_of(files, count, &list, error);
    *bytes = status == STATUS_OK ? promises_lack(cache, &list) : 0;
    free(list.items);
    return status;
}

enum status reservation_write(const struct hub_cache_hold *hold, const struct repository_file *files, size_t count,
                              struct error *error)
{
    struct promises list;
    const int fd = hub_cache_lock_of(hold);
    enum status status = promises_of(files, count, &list, error);
    const char *next = (const char *)list.items;
    size_t left = list.count * sizeof *list.items;
    off_t at = 0;
    if (status == STATUS_OK && ftruncate(fd, 0) != 0) status = error_set_errno(error, "reserving space of the cache");
    while (status == STATUS_OK && left > 0) {
        const ssize_t written = pwrite(fd, next, left, at);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) {
            status = error_set_errno(error, "reserving space of the cache");
            break;
        }
        next += written;
        at += written;
        left -= (size_t)written;
    }
    free(list.items);
    return status;
}

/* ---- all of them ---- */

static enum status promises_read(int fd, off_t size, struct promises *list, struct error *error)
{
    const size_t most = (size_t)size / sizeof(struct promise);
    enum status status = STATUS_OK;
    if (size > (off_t)(REPOSITORY_FILES_MOST * sizeof(struct promise)))
        return error_set(error, STATUS_CORRUPT, "a lock of the hub's cache holds other than a reservation: remove it");
    if ((status = promises_grow(list, most, error)) != STATUS_OK) return status;
    for (size_t i = 0; i < most; i++) {
        struct promise *item = &list->items[list->count];
        const ssize_t came = pread(fd, item, sizeof *item, (off_t)(i * sizeof *item));
        if (came < 0) return error_set_errno(error, "reading a reservation of the hub's cache");
        if (came != sizeof *item) break; /* it was given back meanwhile */
        if (item->bytes >= 0 && memchr(item->oid, '\0', sizeof item->oid) != NULL && strchr(item->oid, '/') == NULL)
            list->count++;
    }
    return STATUS_OK;
}

/* Whether another process, or another hold of this one, holds the lock alone. */
static bool is_held_alone(int fd)
{
    if (flock(fd, LOCK_SH | LOCK_NB) == 0) {
        (void)flock(fd, LOCK_UN);
        return false;
    }
    return errno == EWOULDBLOCK;
}

/* Adds what is reserved under the lock `name`. A lock that has no content is not touched, because taking it even for a
 * moment may make another process wait. */
static enum status promises_add(const struct hub_cache *cache, const char *name, bool own, struct promises *list,
                                struct error *error)
{
    struct stat found;
    if (fstatat(cache->locks, name, &found, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(found.st_mode) || found.st_size == 0)
        return STATUS_OK;
    const int fd = openat(cache->locks, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return errno == ENOENT ? STATUS_OK : error_set_errno(error, "opening a lock of the hub's cache");
    const enum status status = own || is_held_alone(fd) ? promises_read(fd, found.st_size, list, error) : STATUS_OK;
    (void)close(fd);
    return status;
}

enum status reservation_bytes(const struct hub_cache *cache, const struct hub_cache_hold *hold, int64_t *bytes,
                              struct error *error)
{
    struct promises list = {NULL, 0};
    enum status status = STATUS_OK;
    const int fd = openat(cache->locks, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
    *bytes = 0;
    if (stream == NULL) {
        status = error_set_errno(error, "listing the locks of the hub's cache");
        if (fd >= 0) (void)close(fd);
        return status;
    }
    for (const struct dirent *entry; status == STATUS_OK && (entry = readdir(stream)) != NULL;)
        status = promises_add(cache, entry->d_name, strcmp(entry->d_name, hub_cache_key_of(hold)) == 0, &list, error);
    (void)closedir(stream);
    if (status == STATUS_OK) *bytes = promises_lack(cache, &list);
    free(list.items);
    return status;
}
