#include "hub/pieces.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SAVE_BYTES = 256 << 10, READ_BYTES = 1 << 20, OID_BYTES = 96 };
#define MAGIC UINT64_C(0x3150656365695071) /* changes with the layout of the record */

/* The record of pieces on disk: this, then how many bytes of each piece are there. */
struct record {
    uint64_t magic;
    int64_t bytes, piece_bytes;
};

struct pieces {
    int directory; /* lent */
    int fd, record;
    char oid[OID_BYTES], record_name[OID_BYTES + 8];
    int64_t bytes;
    int count;
    int64_t *there, *saved; /* [count], owned */
    EVP_MD_CTX *digest;     /* owned */
    int64_t hashed;
    char *buffer; /* [READ_BYTES], owned */
};

static int64_t piece_begin(int index)
{
    return (int64_t)index * PIECES_BYTES;
}

static int64_t piece_length(const struct pieces *pieces, int index)
{
    const int64_t left = pieces->bytes - piece_begin(index);
    return left < PIECES_BYTES ? left : PIECES_BYTES;
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

static enum status save(struct pieces *pieces, int index, struct error *error)
{
    const int64_t offset = (int64_t)sizeof(struct record) + (int64_t)index * (int64_t)sizeof(int64_t);
    pieces->saved[index] = pieces->there[index];
    return write_all(pieces->record, &pieces->there[index], sizeof(int64_t), offset, error);
}

/* ---- opening ---- */

/* Locks the file that `name` leads to now. *fd is -1 while another process has it. */
static enum status open_locked(int directory, const char *name, int *fd, struct error *error)
{
    for (;;) {
        struct stat opened, found;
        *fd = openat(directory, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (*fd < 0) return error_set_errno(error, "cannot open a file for a download");
        if (flock(*fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
            break; /* a file system without locks has but one of us */
        if (fstat(*fd, &opened) == 0 && fstatat(directory, name, &found, AT_SYMLINK_NOFOLLOW) == 0 &&
            opened.st_ino == found.st_ino)
            return STATUS_OK;
        (void)close(*fd); /* put in place or removed between the two calls */
    }
    (void)close(*fd);
    *fd = -1;
    return STATUS_OK;
}

/* What the record says, when it makes sense. */
static bool read_record(struct pieces *pieces)
{
    struct record record;
    const size_t length = (size_t)pieces->count * sizeof(int64_t);
    if (pread(pieces->record, &record, sizeof record, 0) != sizeof record) return false;
    if (record.magic != MAGIC || record.bytes != pieces->bytes || record.piece_bytes != PIECES_BYTES) return false;
    if (pread(pieces->record, pieces->there, length, sizeof record) != (ssize_t)length) return false;
    for (int i = 0; i < pieces->count; i++)
        if (pieces->there[i] < 0 || pieces->there[i] > piece_length(pieces, i)) return false;
    memcpy(pieces->saved, pieces->there, length);
    return true;
}

static enum status start_digest(struct pieces *pieces, struct error *error)
{
    char header[40];
    const bool git = strncmp(pieces->oid, "git-", 4) == 0;
    const int length = snprintf(header, sizeof header, "blob %lld", (long long)pieces->bytes) + 1; /* its NUL too */
    pieces->hashed = 0;
    if (pieces->digest == NULL) pieces->digest = EVP_MD_CTX_new();
    if (pieces->digest == NULL || EVP_DigestInit_ex(pieces->digest, git ? EVP_sha1() : EVP_sha256(), NULL) != 1 ||
        (git && EVP_DigestUpdate(pieces->digest, header, (size_t)length) != 1))
        return error_set(error, STATUS_NO_MEMORY, "no memory for a hash");
    return STATUS_OK;
}

enum status pieces_restart(struct pieces *pieces, struct error *error)
{
    const struct record record = {.magic = MAGIC, .bytes = pieces->bytes, .piece_bytes = PIECES_BYTES};
    const size_t length = (size_t)pieces->count * sizeof(int64_t);
    memset(pieces->there, 0, length);
    memset(pieces->saved, 0, length);
    if (ftruncate(pieces->record, 0) != 0 || ftruncate(pieces->fd, 0) != 0 || ftruncate(pieces->fd, pieces->bytes) != 0)
        return error_set_errno(error, "cannot make room for a download");
    enum status status = write_all(pieces->record, &record, sizeof record, 0, error);
    if (status == STATUS_OK) status = write_all(pieces->record, pieces->there, length, sizeof record, error);
    return status == STATUS_OK ? start_digest(pieces, error) : status;
}

static enum status open_both(struct pieces *pieces, bool *busy, struct error *error)
{
    struct stat found;
    enum status status = open_locked(pieces->directory, pieces->oid, &pieces->fd, error);
    *busy = status == STATUS_OK && pieces->fd < 0;
    if (status != STATUS_OK || *busy) return status;
    pieces->record = openat(pieces->directory, pieces->record_name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (pieces->record < 0 || fstat(pieces->fd, &found) != 0)
        return error_set_errno(error, "cannot open a file for a download");
    if (found.st_size == pieces->bytes && read_record(pieces)) return start_digest(pieces, error);
    return pieces_restart(pieces, error);
}

enum status pieces_open(int directory, const char *oid, int64_t bytes, struct pieces **out, struct error *error)
{
    bool busy = false;
    enum status status = STATUS_OK;
    struct pieces *pieces = calloc(1, sizeof *pieces);
    *out = NULL;
    if (pieces == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a download");
    *pieces = (struct pieces){.directory = directory, .fd = -1, .record = -1, .bytes = bytes};
    (void)snprintf(pieces->oid, sizeof pieces->oid, "%s", oid);
    (void)snprintf(pieces->record_name, sizeof pieces->record_name, "%s.pieces", pieces->oid);
    if (bytes > (int64_t)PIECES_BYTES * 1000000)
        status =
            error_set(error, STATUS_TOO_LARGE, "a file of %lld bytes is no file of a checkpoint", (long long)bytes);
    else
        pieces->count = (int)((bytes + PIECES_BYTES - 1) / PIECES_BYTES);
    pieces->there = calloc((size_t)pieces->count + 1, sizeof *pieces->there);
    pieces->saved = calloc((size_t)pieces->count + 1, sizeof *pieces->saved);
    pieces->buffer = malloc(READ_BYTES);
    if (status == STATUS_OK && (pieces->there == NULL || pieces->saved == NULL || pieces->buffer == NULL))
        status = error_set(error, STATUS_NO_MEMORY, "no memory for a download");
    if (status == STATUS_OK) status = open_both(pieces, &busy, error);
    if (status != STATUS_OK || busy)
        pieces_close(pieces);
    else
        *out = pieces;
    return status;
}

void pieces_close(struct pieces *pieces)
{
    struct error ignored;
    if (pieces == NULL) return;
    for (int i = 0; i < pieces->count && pieces->record >= 0; i++)
        if (pieces->saved[i] != pieces->there[i] && save(pieces, i, &ignored) != STATUS_OK)
            break; /* it is fetched again */
    if (pieces->record >= 0) (void)close(pieces->record);
    if (pieces->fd >= 0) (void)close(pieces->fd); /* and with it the lock */
    EVP_MD_CTX_free(pieces->digest);
    free(pieces->there);
    free(pieces->saved);
    free(pieces->buffer);
    free(pieces);
}

/* ---- filling ---- */

int pieces_count(const struct pieces *pieces)
{
    return pieces->count;
}

void pieces_missing(const struct pieces *pieces, int index, int64_t *first, int64_t *last)
{
    *first = piece_begin(index) + pieces->there[index];
    *last = piece_begin(index) + piece_length(pieces, index) - 1;
}

int64_t pieces_there(const struct pieces *pieces)
{
    int64_t sum = 0;
    for (int i = 0; i < pieces->count; i++) sum += pieces->there[i];
    return sum;
}

enum status pieces_write(struct pieces *pieces, int index, const char *bytes, size_t length, struct error *error)
{
    int64_t first, last;
    pieces_missing(pieces, index, &first, &last);
    if ((int64_t)length > last - first + 1)
        return error_set(error, STATUS_CORRUPT, "the hub sends more bytes than were asked for");
    const enum status status = write_all(pieces->fd, bytes, length, first, error);
    if (status != STATUS_OK) return status;
    pieces->there[index] += (int64_t)length;
    const bool whole = pieces->there[index] == piece_length(pieces, index);
    return whole || pieces->there[index] - pieces->saved[index] >= SAVE_BYTES ? save(pieces, index, error) : STATUS_OK;
}

/* ---- checking ---- */

/* Up to where all bytes from the beginning are there. */
static int64_t contiguous(const struct pieces *pieces)
{
    for (int i = (int)(pieces->hashed / PIECES_BYTES); i < pieces->count; i++)
        if (pieces->there[i] < piece_length(pieces, i)) return piece_begin(i) + pieces->there[i];
    return pieces->bytes;
}

enum status pieces_hash(struct pieces *pieces, int64_t most, bool *done, struct error *error)
{
    const int64_t there = contiguous(pieces), end = there - pieces->hashed > most ? pieces->hashed + most : there;
    while (pieces->hashed < end) {
        const int64_t left = end - pieces->hashed;
        const ssize_t length =
            pread(pieces->fd, pieces->buffer, left < READ_BYTES ? (size_t)left : READ_BYTES, pieces->hashed);
        if (length < 0 && errno == EINTR) continue;
        if (length < 0) return error_set_errno(error, "cannot read what was downloaded");
        if (length == 0) return error_set(error, STATUS_IO, "a file that is being downloaded has become shorter");
        if (EVP_DigestUpdate(pieces->digest, pieces->buffer, (size_t)length) != 1)
            return error_set(error, STATUS_NO_MEMORY, "no memory for a hash");
        pieces->hashed += length;
    }
    *done = pieces->hashed == pieces->bytes;
    return STATUS_OK;
}

enum status pieces_finish(struct pieces *pieces, bool *right, struct error *error)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    char text[2 * EVP_MAX_MD_SIZE + 1];
    if (EVP_DigestFinal_ex(pieces->digest, digest, &length) != 1)
        return error_set(error, STATUS_NO_MEMORY, "no memory for a hash");
    for (unsigned i = 0; i < length; i++) (void)snprintf(text + 2 * i, 3, "%02x", digest[i]);
    *right = strcmp(text, strchr(pieces->oid, '-') + 1) == 0;
    if (!*right) return STATUS_OK;
    /* A failed fsync is never repeated as if the second one meant something. */
    if (fsync(pieces->fd) != 0) return error_set_errno(error, "cannot make a download durable");
    return STATUS_OK;
}

void pieces_discard(struct pieces *pieces)
{
    (void)unlinkat(pieces->directory, pieces->oid, 0);
    pieces_forget(pieces);
}

void pieces_forget(struct pieces *pieces)
{
    (void)unlinkat(pieces->directory, pieces->record_name, 0);
    if (pieces->record >= 0) (void)close(pieces->record);
    pieces->record = -1;
}
