#include "hub/hub_cache.h"

#include "base/clock.h"
#include "base/directory.h"
#include "base/hex.h"
#include "transfer/backoff.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <limits.h>
#include <math.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

struct hub_cache_hold {
    int lock; /* descriptor */
    char key[HUB_CACHE_KEY];
    char path[PATH_MAX];  /* of the snapshot */
    int blobs, snapshots; /* its own descriptors, only for making; else -1, because a run may hold a thousand */
};

/* ---- the key ---- */

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

enum status hub_cache_key(const char *repo, const char *commit, const char *const *files, size_t count,
                          char out[HUB_CACHE_KEY], struct error *error)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    const char **sorted = calloc(count + 1, sizeof *sorted);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool good = sorted != NULL && context != NULL && EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1;
    good = good && EVP_DigestUpdate(context, repo, strlen(repo) + 1) == 1 &&
           EVP_DigestUpdate(context, commit, strlen(commit) + 1) == 1;
    for (size_t i = 0; good && i < count; i++) sorted[i] = files[i];
    if (good && count > 0) qsort(sorted, count, sizeof *sorted, compare_texts);
    for (size_t i = 0; good && i < count; i++) good = EVP_DigestUpdate(context, sorted[i], strlen(sorted[i]) + 1) == 1;
    good = good && EVP_DigestFinal_ex(context, digest, &length) == 1;
    EVP_MD_CTX_free(context);
    free(sorted);
    if (!good) return error_set(error, STATUS_NO_MEMORY, "no memory for a hash");
    hex_write(digest, (HUB_CACHE_KEY - 1) / 2, out);
    return STATUS_OK;
}

/* ---- the directory ---- */

bool hub_cache_there(const char *directory, const char *key)
{
    char path[PATH_MAX];
    return snprintf(path, sizeof path, "%s/snapshots/%s", directory, key) < (int)sizeof path && access(path, F_OK) == 0;
}

static enum status open_part(int parent, const char *name, int *out, struct error *error)
{
    if (mkdirat(parent, name, 0700) != 0 && errno != EEXIST)
        return error_set_errno(error, "making a directory of the hub's cache");
    *out = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return *out >= 0 ? STATUS_OK : error_set_errno(error, "opening a directory of the hub's cache");
}

enum status hub_cache_open(const char *directory, int64_t most, struct hub_cache **out, struct error *error)
{
    enum status status;
    struct hub_cache *cache = calloc(1, sizeof *cache);
    int top = -1;
    *out = NULL;
    if (cache == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for the hub's cache");
    *cache = (struct hub_cache){.blobs = -1, .snapshots = -1, .partial = -1, .locks = -1, .most = most};
    cache->directory = strdup(directory);
    if (cache->directory == NULL) {
        status = error_set(error, STATUS_NO_MEMORY, "no memory for the hub's cache");
        goto done;
    }
    if ((status = open_part(AT_FDCWD, directory, &top, error)) != STATUS_OK) goto done;
    if ((status = open_part(top, "blobs", &cache->blobs, error)) != STATUS_OK) goto done;
    if ((status = open_part(top, "snapshots", &cache->snapshots, error)) != STATUS_OK) goto done;
    if ((status = open_part(top, "partial", &cache->partial, error)) != STATUS_OK) goto done;
    status = open_part(top, "locks", &cache->locks, error);
done:
    if (top >= 0) (void)close(top);
    if (status != STATUS_OK)
        hub_cache_close(cache);
    else
        *out = cache;
    return status;
}

void hub_cache_close(struct hub_cache *cache)
{
    if (cache == NULL) return;
    const int parts[] = {cache->blobs, cache->snapshots, cache->partial, cache->locks};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (parts[i] >= 0) (void)close(parts[i]);
    free(cache->directory);
    free(cache);
}

/* ---- holds ---- */

static enum status is_there(const struct hub_cache *cache, const char *key, bool *there, struct error *error)
{
    struct stat found;
    const bool seen = fstatat(cache->snapshots, key, &found, AT_SYMLINK_NOFOLLOW) == 0;
    *there = seen && S_ISDIR(found.st_mode);
    return seen || errno == ENOENT ? STATUS_OK : error_set_errno(error, "looking for a snapshot of the hub");
}

/* How long a run waits before its log says what for. */
static const double SILENT_SECONDS = 2;

/* Locks the file of `key`. *fd is -1 when another process has the lock and `wait` is false. Eviction may remove the
 * file between open and flock, so it is checked afterwards. A file system without locks gives another error, and the
 * lock then counts as taken. */
static enum status lock(const struct hub_cache *cache, const char *key, int how, bool wait,
                        const struct monitor *monitor, int *fd, struct error *error)
{
    double said_at = clock_seconds() + SILENT_SECONDS;
    for (;;) {
        struct stat opened;
        *fd = openat(cache->locks, key, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (*fd < 0) return error_set_errno(error, "opening a lock of the hub's cache");
        const bool busy = flock(*fd, how | LOCK_NB) != 0 && errno == EWOULDBLOCK;
        if (!busy && fstat(*fd, &opened) != 0) {
            (void)error_set_errno(error, "examining a lock of the hub's cache");
            (void)close(*fd);
            return error->status;
        }
        if (!busy && opened.st_nlink > 0) return STATUS_OK;
        (void)close(*fd);
        *fd = -1;
        if (busy && !wait) return STATUS_OK;
        if (busy && clock_seconds() >= said_at) {
            monitor_log(monitor, "waits until another process on this data directory has fetched or evicted files");
            said_at = INFINITY;
        }
        const enum status status = backoff_sleep(busy ? 0.05 : 0, monitor, error);
        if (status != STATUS_OK) return status;
    }
}

static enum status hold_new(const struct hub_cache *cache, const char *key, int fd, bool making,
                            struct hub_cache_hold **out, struct error *error)
{
    struct hub_cache_hold *hold = calloc(1, sizeof *hold);
    *out = hold;
    if (hold == NULL) {
        (void)close(fd);
        return error_set(error, STATUS_NO_MEMORY, "no memory for the hub's cache");
    }
    *hold = (struct hub_cache_hold){.lock = fd};
    hold->blobs = making ? dup(cache->blobs) : -1;
    hold->snapshots = making ? dup(cache->snapshots) : -1;
    (void)snprintf(hold->key, sizeof hold->key, "%s", key);
    const int length = snprintf(hold->path, sizeof hold->path, "%s/snapshots/%s", cache->directory, key);
    /* a process that was killed while it made the snapshot may have left what it had reserved */
    const bool made = !making || (hold->blobs >= 0 && hold->snapshots >= 0 && ftruncate(fd, 0) == 0);
    if (made && length < (int)sizeof hold->path) {
        (void)futimens(fd, NULL); /* the time of the last use, which decides eviction */
        return STATUS_OK;
    }
    hub_cache_release(hold);
    *out = NULL;
    return error_set(error, STATUS_IO,
                     "cannot hold a snapshot of the hub: too many files are open, or its path is too long");
}

enum status hub_cache_take(const struct hub_cache *cache, const char *key, const struct monitor *monitor,
                           struct hub_cache_hold **out, struct error *error)
{
    int fd;
    bool there = true;
    enum status status = STATUS_OK;
    *out = NULL;
    if (monitor == NULL) status = is_there(cache, key, &there, error);
    if (status != STATUS_OK || !there) return status;
    status = lock(cache, key, LOCK_SH, monitor != NULL, monitor, &fd, error);
    if (status != STATUS_OK || fd < 0) return status;
    status = is_there(cache, key, &there, error);
    if (status == STATUS_OK && there) return hold_new(cache, key, fd, false, out, error);
    (void)close(fd);
    return status;
}

enum status hub_cache_take_to_make(const struct hub_cache *cache, const char *key, const struct monitor *monitor,
                                   struct hub_cache_hold **out, struct error *error)
{
    int fd;
    bool there = false;
    *out = NULL;
    enum status status = lock(cache, key, LOCK_EX, monitor != NULL, monitor, &fd, error);
    if (status != STATUS_OK || fd < 0) return status;
    status = is_there(cache, key, &there, error);
    if (status == STATUS_OK && !there) return hold_new(cache, key, fd, true, out, error);
    (void)close(fd);
    return status;
}

void hub_cache_release(struct hub_cache_hold *hold)
{
    if (hold == NULL) return;
    if (hold->blobs >= 0 && ftruncate(hold->lock, 0) != 0) (void)0; /* what is reserved ends with the lock anyway */
    if (hold->blobs >= 0) (void)close(hold->blobs);
    if (hold->snapshots >= 0) (void)close(hold->snapshots);
    (void)close(hold->lock);
    free(hold);
}

const char *hub_cache_path(const struct hub_cache_hold *hold)
{
    return hold->path;
}

const char *hub_cache_key_of(const struct hub_cache_hold *hold)
{
    return hold->key;
}

int hub_cache_lock_of(const struct hub_cache_hold *hold)
{
    return hold->lock;
}

enum status hub_cache_lock_space(const struct hub_cache *cache, const struct monitor *monitor, int *fd,
                                 struct error *error)
{
    return lock(cache, "space", LOCK_EX, true, monitor, fd, error);
}

/* ---- making ---- */

static void staging_name(const struct hub_cache_hold *hold, char out[HUB_CACHE_KEY + 1])
{
    (void)snprintf(out, HUB_CACHE_KEY + 1, ".%s", hold->key);
}

enum status hub_cache_begin(const struct hub_cache_hold *hold, struct error *error)
{
    char name[HUB_CACHE_KEY + 1];
    staging_name(hold, name);
    directory_remove(hold->snapshots, name);
    return mkdirat(hold->snapshots, name, 0700) == 0 ? STATUS_OK : error_set_errno(error, "making a snapshot");
}

/* Makes the directories of `name`. */
static enum status make_parents(int directory, const char *name, struct error *error)
{
    char part[NAMES_FILE_MOST + 1];
    for (const char *slash = strchr(name, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        (void)snprintf(part, sizeof part, "%.*s", (int)(slash - name), name);
        if (mkdirat(directory, part, 0700) != 0 && errno != EEXIST) return error_set_errno(error, "making a snapshot");
    }
    return STATUS_OK;
}

/* Links OID, a file of the directory `from`, into the snapshot that is being made. */
static enum status link_as(const struct hub_cache_hold *hold, int from, const char *oid, const char *name, bool *found,
                           struct error *error)
{
    char staging[HUB_CACHE_KEY + 1];
    staging_name(hold, staging);
    *found = false;
    const int directory = openat(hold->snapshots, staging, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (directory < 0) return error_set_errno(error, "opening a snapshot");
    enum status status = make_parents(directory, name, error);
    if (status == STATUS_OK) {
        *found = linkat(from, oid, directory, name, 0) == 0;
        if (!*found && errno != ENOENT) status = error_set_errno(error, "linking a file of a snapshot");
    }
    (void)close(directory);
    return status;
}

static enum status has_blob(int blobs, const char *oid, int64_t bytes, bool *found, struct error *error)
{
    struct stat blob;
    *found = fstatat(blobs, oid, &blob, AT_SYMLINK_NOFOLLOW) == 0;
    if (!*found && errno != ENOENT) return error_set_errno(error, "looking for a file of the hub's cache");
    if (!*found || (S_ISREG(blob.st_mode) && blob.st_size == bytes)) return STATUS_OK;
    return error_set(error, STATUS_CORRUPT, "the hub's cache has another file in the place of %.90s: remove it", oid);
}

enum status hub_cache_has(const struct hub_cache *cache, const char *oid, int64_t bytes, bool *found,
                          struct error *error)
{
    return has_blob(cache->blobs, oid, bytes, found, error);
}

enum status hub_cache_link(const struct hub_cache_hold *hold, const char *oid, int64_t bytes, const char *name,
                           bool *found, struct error *error)
{
    const enum status status = has_blob(hold->blobs, oid, bytes, found, error);
    if (status != STATUS_OK || !*found) return status;
    *found = false;
    return link_as(hold, hold->blobs, oid, name, found, error);
}

enum status hub_cache_adopt(const struct hub_cache_hold *hold, const struct hub_cache *cache, const char *oid,
                            const char *name, struct error *error)
{
    bool linked;
    const enum status status = link_as(hold, cache->partial, oid, name, &linked, error);
    if (status != STATUS_OK) return status;
    if (!linked || renameat(cache->partial, oid, cache->blobs, oid) != 0 || fchmodat(cache->blobs, oid, 0400, 0) != 0)
        return error_set_errno(error, "putting a download in place");
    return fsync(cache->blobs) == 0 ? STATUS_OK : error_set_errno(error, "making a download durable");
}

/* Makes the directories of the snapshot durable: those that the names of its files made, then its own. */
static enum status sync_directories(int directory, struct error *error)
{
    char path[64];
    bool durable = true;
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d/.", directory);
    char *paths[] = {path, NULL};
    FTS *tree = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR | FTS_NOSTAT, NULL);
    for (const FTSENT *entry; tree != NULL && durable && (entry = fts_read(tree)) != NULL;) {
        if (entry->fts_info != FTS_DP) continue;
        const int fd = open(entry->fts_accpath, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        durable = fd >= 0 && fsync(fd) == 0;
        if (fd >= 0) (void)close(fd);
    }
    durable = durable && tree != NULL;
    const enum status status = durable ? STATUS_OK : error_set_errno(error, "making a snapshot durable");
    if (tree != NULL) (void)fts_close(tree);
    return status;
}

enum status hub_cache_publish(const struct hub_cache_hold *hold, struct error *error)
{
    char staging[HUB_CACHE_KEY + 1];
    staging_name(hold, staging);
    const int directory = openat(hold->snapshots, staging, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (directory < 0) return error_set_errno(error, "opening a snapshot");
    const enum status status = sync_directories(directory, error);
    (void)close(directory);
    if (status != STATUS_OK) return status;
    if (renameat(hold->snapshots, staging, hold->snapshots, hold->key) != 0 || fsync(hold->snapshots) != 0)
        return error_set_errno(error, "putting a snapshot in place");
    return STATUS_OK;
}

int64_t hub_cache_bytes(const struct hub_cache_hold *hold)
{
    int64_t sum = 0;
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s", hold->path);
    char *paths[] = {path, NULL};
    FTS *tree = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    for (const FTSENT *entry; tree != NULL && (entry = fts_read(tree)) != NULL;)
        if (entry->fts_info == FTS_F) sum += (int64_t)entry->fts_statp->st_size;
    if (tree != NULL) (void)fts_close(tree);
    return sum;
}
