#include "hub/ranges.h"

#include "hub/digest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* SAVE: how many bytes of a range the record may lack. SYNC: how many bytes of all ranges, where each record costs a
 * sync. */
enum { SAVE_BYTES = 256 << 10, SYNC_BYTES = 16 << 20, READ_BYTES = 1 << 20, OID_BYTES = 96 };

/* They change with the layout of the record. SYNCED: the record counts only bytes that were synced before it. */
#define MAGIC        UINT64_C(0x3150656365695071)
#define MAGIC_SYNCED UINT64_C(0x3153656365695071)

/* The head of the record on disk. The number of downloaded bytes of each range follows it. */
struct record {
    uint64_t magic;
    int64_t bytes, range_bytes;
};

struct ranges {
    int directory; /* lent */
    int fd, record;
    char oid[OID_BYTES], record_name[OID_BYTES + 8];
    int64_t bytes;
    int count;
    int64_t *there, *saved; /* [count], owned */
    struct digest *digest;  /* owned */
    int64_t hashed;
    bool synced;      /* there is no hash, so the record counts only bytes that were synced */
    bool unsound;     /* a sync has failed */
    int64_t unsynced; /* bytes that were written since the last sync */
    char *buffer;     /* [READ_BYTES], owned */
};

static int64_t range_begin(int index)
{
    return (int64_t)index * RANGES_BYTES;
}

static int64_t range_length(const struct ranges *ranges, int index)
{
    const int64_t left = ranges->bytes - range_begin(index);
    return left < RANGES_BYTES ? left : RANGES_BYTES;
}

static enum status write_all(int fd, const void *bytes, size_t length, int64_t offset, struct error *error)
{
    const char *next = bytes;
    while (length > 0) {
        const ssize_t written = pwrite(fd, next, length, offset);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return error_set_errno(error, "cannot write what is downloaded");
        next += written;
        offset += written;
        length -= (size_t)written;
    }
    return STATUS_OK;
}

static enum status save(struct ranges *ranges, int index, struct error *error)
{
    const int64_t offset = (int64_t)sizeof(struct record) + (int64_t)index * (int64_t)sizeof(int64_t);
    ranges->saved[index] = ranges->there[index];
    return write_all(ranges->record, &ranges->there[index], sizeof(int64_t), offset, error);
}

/* A failed sync is not repeated, because the success of a second one would say nothing about the first bytes. */
static enum status sync_bytes(struct ranges *ranges, struct error *error)
{
    if (!ranges->synced) return STATUS_OK;
    if (ranges->unsound) return error_set(error, STATUS_IO, "a download is not durable");
    if (ranges->unsynced == 0) return STATUS_OK;
    ranges->unsound = fdatasync(ranges->fd) != 0;
    if (ranges->unsound) return error_set_errno(error, "cannot make a download durable");
    ranges->unsynced = 0;
    return STATUS_OK;
}

static enum status save_all(struct ranges *ranges, struct error *error)
{
    enum status status = sync_bytes(ranges, error);
    for (int i = 0; status == STATUS_OK && i < ranges->count; i++)
        if (ranges->saved[i] != ranges->there[i]) status = save(ranges, i, error);
    return status;
}

/* ---- opening ---- */

static uint64_t magic_of(const struct ranges *ranges)
{
    return ranges->synced ? MAGIC_SYNCED : MAGIC;
}

/* Locks the file that `name` refers to now. *fd is -1 while another process has it. */
static enum status open_locked(int directory, const char *name, int *fd, struct error *error)
{
    for (;;) {
        struct stat opened, found;
        *fd = openat(directory, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (*fd < 0) return error_set_errno(error, "cannot open a file for a download");
        if (flock(*fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
            break; /* another error: this file system has no locks, and one process uses it */
        if (fstat(*fd, &opened) == 0 && fstatat(directory, name, &found, AT_SYMLINK_NOFOLLOW) == 0 &&
            opened.st_ino == found.st_ino)
            return STATUS_OK;
        (void)close(*fd); /* put in place or removed between the two calls */
    }
    (void)close(*fd);
    *fd = -1;
    return STATUS_OK;
}

/* Reads the record. False when it does not belong to this file, or was made under the other rule about syncs. */
static bool read_record(struct ranges *ranges)
{
    struct record record;
    const size_t length = (size_t)ranges->count * sizeof(int64_t);
    if (pread(ranges->record, &record, sizeof record, 0) != sizeof record) return false;
    if (record.magic != magic_of(ranges) || record.bytes != ranges->bytes || record.range_bytes != RANGES_BYTES)
        return false;
    if (pread(ranges->record, ranges->there, length, sizeof record) != (ssize_t)length) return false;
    for (int i = 0; i < ranges->count; i++)
        if (ranges->there[i] < 0 || ranges->there[i] > range_length(ranges, i)) return false;
    memcpy(ranges->saved, ranges->there, length);
    return true;
}

enum status ranges_restart(struct ranges *ranges, struct error *error)
{
    const struct record record = {.magic = magic_of(ranges), .bytes = ranges->bytes, .range_bytes = RANGES_BYTES};
    const size_t length = (size_t)ranges->count * sizeof(int64_t);
    memset(ranges->there, 0, length);
    memset(ranges->saved, 0, length);
    ranges->unsynced = 0;
    /* The old record must not come back after the bytes that it counts are gone. */
    if (ftruncate(ranges->record, 0) != 0 || (ranges->synced && fsync(ranges->record) != 0) ||
        ftruncate(ranges->fd, 0) != 0 || ftruncate(ranges->fd, ranges->bytes) != 0)
        return error_set_errno(error, "cannot make space for a download");
    enum status status = write_all(ranges->record, &record, sizeof record, 0, error);
    if (status == STATUS_OK) status = write_all(ranges->record, ranges->there, length, sizeof record, error);
    ranges->hashed = 0;
    return status == STATUS_OK ? digest_restart(ranges->digest, error) : status;
}

static enum status open_both(struct ranges *ranges, bool *busy, struct error *error)
{
    struct stat found;
    enum status status = open_locked(ranges->directory, ranges->oid, &ranges->fd, error);
    *busy = status == STATUS_OK && ranges->fd < 0;
    if (status != STATUS_OK || *busy) return status;
    ranges->record = openat(ranges->directory, ranges->record_name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (ranges->record < 0 || fstat(ranges->fd, &found) != 0)
        return error_set_errno(error, "cannot open a file for a download");
    if (found.st_size == ranges->bytes && read_record(ranges)) return STATUS_OK;
    return ranges_restart(ranges, error);
}

enum status ranges_open(int directory, const char *oid, const char *check, int64_t bytes, struct ranges **out,
                        struct error *error)
{
    bool busy = false;
    enum status status = STATUS_OK;
    struct ranges *ranges = calloc(1, sizeof *ranges);
    *out = NULL;
    if (ranges == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a download");
    *ranges = (struct ranges){.directory = directory, .fd = -1, .record = -1, .bytes = bytes};
    ranges->synced = check[0] == '\0';
    (void)snprintf(ranges->oid, sizeof ranges->oid, "%s", oid);
    (void)snprintf(ranges->record_name, sizeof ranges->record_name, "%s.ranges", ranges->oid);
    if (bytes > (int64_t)RANGES_BYTES * 1000000)
        status =
            error_set(error, STATUS_TOO_LARGE, "a file of %lld bytes is no file of a checkpoint", (long long)bytes);
    else
        ranges->count = (int)((bytes + RANGES_BYTES - 1) / RANGES_BYTES);
    ranges->there = calloc((size_t)ranges->count + 1, sizeof *ranges->there);
    ranges->saved = calloc((size_t)ranges->count + 1, sizeof *ranges->saved);
    ranges->buffer = malloc(READ_BYTES);
    if (status == STATUS_OK && (ranges->there == NULL || ranges->saved == NULL || ranges->buffer == NULL))
        status = error_set(error, STATUS_NO_MEMORY, "no memory for a download");
    if (status == STATUS_OK) status = digest_new(check, bytes, &ranges->digest, error);
    if (status == STATUS_OK) status = open_both(ranges, &busy, error);
    if (status != STATUS_OK || busy)
        ranges_close(ranges);
    else
        *out = ranges;
    return status;
}

void ranges_close(struct ranges *ranges)
{
    struct error ignored;
    if (ranges == NULL) return;
    if (ranges->record >= 0) (void)!save_all(ranges, &ignored); /* what is not in the record is fetched again */
    if (ranges->record >= 0) (void)close(ranges->record);
    if (ranges->fd >= 0) (void)close(ranges->fd); /* and with it the lock */
    digest_free(ranges->digest);
    free(ranges->there);
    free(ranges->saved);
    free(ranges->buffer);
    free(ranges);
}

/* ---- filling ---- */

int ranges_count(const struct ranges *ranges)
{
    return ranges->count;
}

void ranges_missing(const struct ranges *ranges, int index, int64_t *first, int64_t *last)
{
    *first = range_begin(index) + ranges->there[index];
    *last = range_begin(index) + range_length(ranges, index) - 1;
}

int64_t ranges_there(const struct ranges *ranges)
{
    int64_t sum = 0;
    for (int i = 0; i < ranges->count; i++) sum += ranges->there[i];
    return sum;
}

enum status ranges_write(struct ranges *ranges, int index, const char *bytes, size_t length, struct error *error)
{
    int64_t first, last;
    ranges_missing(ranges, index, &first, &last);
    if ((int64_t)length > last - first + 1)
        return error_set(error, STATUS_CORRUPT, "the server sends more bytes than were asked for");
    const enum status status = write_all(ranges->fd, bytes, length, first, error);
    if (status != STATUS_OK) return status;
    ranges->there[index] += (int64_t)length;
    ranges->unsynced += (int64_t)length;
    if (ranges->synced) return ranges->unsynced >= SYNC_BYTES ? save_all(ranges, error) : STATUS_OK;
    const bool whole = ranges->there[index] == range_length(ranges, index);
    return whole || ranges->there[index] - ranges->saved[index] >= SAVE_BYTES ? save(ranges, index, error) : STATUS_OK;
}

/* ---- checking ---- */

/* The number of downloaded bytes from the beginning of the file to the first gap. */
static int64_t contiguous(const struct ranges *ranges)
{
    for (int i = (int)(ranges->hashed / RANGES_BYTES); i < ranges->count; i++)
        if (ranges->there[i] < range_length(ranges, i)) return range_begin(i) + ranges->there[i];
    return ranges->bytes;
}

enum status ranges_hash(struct ranges *ranges, int64_t most, bool *done, struct error *error)
{
    const int64_t there = contiguous(ranges), end = there - ranges->hashed > most ? ranges->hashed + most : there;
    while (ranges->hashed < end) {
        const int64_t left = end - ranges->hashed;
        const ssize_t length =
            pread(ranges->fd, ranges->buffer, left < READ_BYTES ? (size_t)left : READ_BYTES, ranges->hashed);
        if (length < 0 && errno == EINTR) continue;
        if (length < 0) return error_set_errno(error, "cannot read what was downloaded");
        if (length == 0) return error_set(error, STATUS_IO, "a file that is being downloaded has become shorter");
        const enum status status = digest_add(ranges->digest, ranges->buffer, (size_t)length, error);
        if (status != STATUS_OK) return status;
        ranges->hashed += length;
    }
    *done = ranges->hashed == ranges->bytes;
    return STATUS_OK;
}

enum status ranges_finish(struct ranges *ranges, bool *right, struct error *error)
{
    const enum status status = digest_matches(ranges->digest, right, error);
    if (status != STATUS_OK || !*right) return status;
    if (fsync(ranges->fd) == 0) return STATUS_OK;
    ranges->unsound = true;
    return error_set_errno(error, "cannot make a download durable");
}

void ranges_discard(struct ranges *ranges)
{
    (void)unlinkat(ranges->directory, ranges->oid, 0);
    ranges_forget(ranges);
}

void ranges_forget(struct ranges *ranges)
{
    (void)unlinkat(ranges->directory, ranges->record_name, 0);
    if (ranges->record >= 0) (void)close(ranges->record);
    ranges->record = -1;
}
