#include "kinds/artifact_store.h"

#include "base/clock.h"
#include "files/spill.h"
#include "inputs/hash.h"
#include "objects/upload.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Short tries, as for downloads: a run whose artifact cannot be uploaded returns to the queue. */
enum { REQUEST_SECONDS = 300, TRIES = 5, READ_BYTES = 16 << 20, SPARE_BYTES = 64 << 20 };
static const double LONGEST_WAIT_SECONDS = 10;

struct artifact_store {
    struct bucket bucket;
    struct objects_place place;
};

static enum status read_place(const char *text, struct objects_place *out, struct error *error)
{
    const enum status status = objects_place_read(text, "", out, error);
    const struct error cause = *error;
    return status == STATUS_OK ? status : error_set(error, status, "--artifacts (DELTAQ_ARTIFACTS): %s", cause.detail);
}

enum status artifact_store_check(const char *place, struct error *error)
{
    struct objects_place read;
    return place != NULL ? read_place(place, &read, error) : STATUS_OK;
}

enum status artifact_store_new(const struct objects *objects, const char *place, struct artifact_store **out,
                               struct error *error)
{
    struct artifact_store *store = calloc(1, sizeof *store);
    *out = NULL;
    if (store == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a store of artifacts");
    enum status status = read_place(place, &store->place, error);
    if (status == STATUS_OK) status = bucket_init(objects, store->place.bucket, &store->bucket, error);
    if (status == STATUS_OK)
        *out = store;
    else
        artifact_store_free(store);
    return status;
}

void artifact_store_free(struct artifact_store *store)
{
    free(store);
}

static struct asking asking_of(const struct monitor *monitor)
{
    return (struct asking){
        .monitor = monitor, .seconds = REQUEST_SECONDS, .tries = TRIES, .longest_wait = LONGEST_WAIT_SECONDS};
}

static enum status key_of(const struct artifact_store *store, const char *name, char out[OBJECTS_PLACE_KEY],
                          struct error *error)
{
    if (objects_place_key(&store->place, name, out)) return STATUS_OK;
    return error_set(error, STATUS_INVALID, "--artifacts (DELTAQ_ARTIFACTS): the prefix is too long");
}

enum status artifact_store_put(const struct artifact_store *store, const char *name, int fd, int64_t bytes,
                               const struct monitor *monitor, struct error *error)
{
    char key[OBJECTS_PLACE_KEY];
    const struct asking asking = asking_of(monitor);
    const enum status status = key_of(store, name, key, error);
    return status == STATUS_OK ? upload_file(&store->bucket, &asking, key, fd, bytes, error) : status;
}

/* ---- a directory ---- */

static enum status put_file(const struct artifact_store *store, int directory, const char *file, const char *name,
                            const struct monitor *monitor, struct error *error)
{
    char whole[OBJECTS_PLACE_KEY];
    struct stat found;
    enum status status = STATUS_OK;
    const int fd = openat(directory, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &found) != 0)
        status = error_set_errno(error, "opening a file of a checkpoint");
    else if (snprintf(whole, sizeof whole, "%s/%s", name, file) >= (int)sizeof whole)
        status = error_set(error, STATUS_INVALID, "the name of a checkpoint's file is too long");
    else if (S_ISREG(found.st_mode))
        status = artifact_store_put(store, whole, fd, found.st_size, monitor, error);
    if (fd >= 0) (void)close(fd);
    return status;
}

enum status artifact_store_put_directory(const struct artifact_store *store, const char *directory, const char *name,
                                         const struct monitor *monitor, char place[OBJECTS_PLACE_MOST + 1],
                                         struct error *error)
{
    struct objects_place below = store->place;
    char text[OBJECTS_PLACE_KEY + OBJECTS_PLACE_BUCKET + 8];
    DIR *stream = NULL;
    enum status status = key_of(store, name, below.key, error);
    if (status != STATUS_OK) return status;
    objects_place_write(&below, text, sizeof text);
    if ((status = objects_place_read(text, "", &below, error)) != STATUS_OK) return status;
    objects_place_write(&below, place, OBJECTS_PLACE_MOST + 1);
    if ((stream = opendir(directory)) == NULL) return error_set_errno(error, "cannot list a checkpoint");
    while (status == STATUS_OK) {
        errno = 0; /* readdir returns NULL both at the end and on a failure */
        const struct dirent *entry = readdir(stream);
        if (entry == NULL && errno != 0) status = error_set_errno(error, "cannot list a checkpoint");
        if (entry == NULL) break;
        if (entry->d_name[0] != '.') status = put_file(store, dirfd(stream), entry->d_name, name, monitor, error);
    }
    (void)closedir(stream);
    return status;
}

/* ---- reading back ---- */

static enum status write_all(int fd, const char *bytes, size_t length, struct error *error)
{
    while (length > 0) {
        const ssize_t written = write(fd, bytes, length);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return error_set_errno(error, "cannot write an artifact");
        bytes += written;
        length -= (size_t)written;
    }
    return STATUS_OK;
}

/* Copies range by range; each range is retried on its own. */
static enum status copy(const struct artifact_store *store, const char *key, int64_t bytes, int fd, struct hash *hash,
                        const struct monitor *monitor, struct error *error)
{
    const struct asking asking = asking_of(monitor);
    struct buffer body = {.limit = READ_BYTES};
    struct transfer_head *head = malloc(sizeof *head);
    enum status status = head == NULL ? error_set(error, STATUS_NO_MEMORY, "no memory to read an artifact") : STATUS_OK;
    for (int64_t at = 0; status == STATUS_OK && at < bytes;) {
        if ((status = monitor_check(monitor, error)) != STATUS_OK) break;
        const int64_t left = bytes - at, length = left < READ_BYTES ? left : READ_BYTES;
        const struct bucket_request request = {.key = key, .first = at, .bytes = length, .what = "the artifact"};
        status = bucket_ask(&store->bucket, &asking, &request, head, &body, error);
        if (status == STATUS_OK && (int64_t)body.length != length)
            status = error_set(error, STATUS_CORRUPT, "the artifact in object storage has another size");
        if (status == STATUS_OK) status = write_all(fd, body.bytes, body.length, error);
        if (status == STATUS_OK) hash_add(hash, body.bytes, body.length);
        at += length;
    }
    buffer_reset(&body);
    free(head);
    return status;
}

/* Checked before any transfer: the database may be on the same file system and needs space to go on. */
static enum status check_space(int fd, int64_t bytes, struct error *error)
{
    struct statvfs space;
    if (fstatvfs(fd, &space) != 0) return error_set_errno(error, "looking at the space for an artifact");
    const uint64_t free_bytes = (uint64_t)space.f_bavail * space.f_frsize;
    if (free_bytes >= (uint64_t)bytes + SPARE_BYTES) return STATUS_OK;
    return error_set(error, STATUS_DISK_FULL,
                     "the artifact has %lld bytes, and the data directory, through which it is sent, has space for"
                     " %llu: read it from the bucket, or free some",
                     (long long)bytes, (unsigned long long)free_bytes);
}

enum status artifact_store_get_as(const struct artifact_store *store, const char *name, const char *sha256,
                                  int64_t bytes, const char *directory, const struct monitor *monitor, int *fd,
                                  struct error *error)
{
    char key[OBJECTS_PLACE_KEY], found[HASH_TEXT];
    struct hash *hash = NULL;
    *fd = spill_nameless(directory);
    enum status status = *fd < 0 ? error_set_errno(error, "cannot make a file for an artifact") : STATUS_OK;
    if (status == STATUS_OK) status = check_space(*fd, bytes, error);
    if (status == STATUS_OK) status = key_of(store, name, key, error);
    if (status == STATUS_OK) status = hash_new(&hash, error);
    if (status == STATUS_OK) status = copy(store, key, bytes, *fd, hash, monitor, error);
    if (status == STATUS_OK) {
        status = hash_finish(hash, found, error);
        hash = NULL;
    }
    if (status == STATUS_OK && strcmp(found, sha256) != 0)
        status = error_set(error, STATUS_CORRUPT, "the artifact in object storage has other bytes; retry the run");
    if (status == STATUS_OK && lseek(*fd, 0, SEEK_SET) != 0) status = error_set_errno(error, "reading the artifact");
    hash_free(hash);
    if (status != STATUS_OK && *fd >= 0) {
        (void)close(*fd);
        *fd = -1;
    }
    return status;
}

enum status artifact_store_get(const struct artifact_store *store, const char *sha256, int64_t bytes,
                               const char *directory, const struct monitor *monitor, int *fd, struct error *error)
{
    return artifact_store_get_as(store, sha256, sha256, bytes, directory, monitor, fd, error);
}

/* ---- listing and removing ---- */

/* A request has whole seconds for its time limit, so what is left of the last second is not used. */
static enum status asking_until(double until, const struct monitor *monitor, struct asking *out, struct error *error)
{
    const double left = until - clock_seconds();
    *out = asking_of(monitor);
    if (until <= 0) return STATUS_OK;
    if (left < 1) return error_set(error, STATUS_UNAVAILABLE, "object storage is too slow: the time for it is over");
    out->tries = 1;
    if (left < out->seconds) out->seconds = (int)left;
    return STATUS_OK;
}

enum status artifact_store_list(const struct artifact_store *store, const char *name, double until,
                                const struct monitor *monitor, struct listing *out, struct error *error)
{
    struct objects_place below = store->place;
    struct asking asking;
    enum status status = asking_until(until, monitor, &asking, error);
    if (status == STATUS_OK) status = key_of(store, name, below.key, error);
    return status == STATUS_OK ? listing_make(&store->bucket, &asking, &below, true, out, error) : status;
}

enum status artifact_store_remove(const struct artifact_store *store, const char *name, double until,
                                  const struct monitor *monitor, struct error *error)
{
    char key[OBJECTS_PLACE_KEY];
    struct asking asking;
    const struct bucket_request request = {.method = TRANSFER_DELETE, .key = key, .what = name};
    struct transfer_head *head = malloc(sizeof *head);
    enum status status = head == NULL ? error_set(error, STATUS_NO_MEMORY, "no memory for a request") : STATUS_OK;
    if (status == STATUS_OK) status = asking_until(until, monitor, &asking, error);
    if (status == STATUS_OK) status = key_of(store, name, key, error);
    if (status == STATUS_OK) status = bucket_ask(&store->bucket, &asking, &request, head, NULL, error);
    free(head);
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}
