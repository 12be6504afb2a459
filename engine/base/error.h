/* error.h: how everything that can fail says so.
 * A function that can fail returns `enum status`, takes `struct error *` last and is MUST_CHECK. The error is filled
 * where the cause is known and passed up untouched. `error` may not be NULL. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <stdbool.h>
#include <stddef.h>

#define MUST_CHECK __attribute__((warn_unused_result))

enum status {
    STATUS_OK,
    STATUS_INVALID,   /* well-formed but wrong: a parameter out of range, a vocabulary that does not fit */
    STATUS_MALFORMED, /* not the grammar it claims to be: JSON, UTF-8 */
    STATUS_NOT_FOUND,
    STATUS_GONE,      /* it existed and was removed: a cursor into rows that were deleted for their age */
    STATUS_FORBIDDEN, /* outside the roots, missing scope */
    STATUS_UNAUTHORIZED,
    STATUS_CONFLICT,
    STATUS_TOO_LARGE,
    STATUS_TOO_MANY,       /* the queue is full; worth a retry */
    STATUS_UNSUPPORTED,    /* deltaq knows of it and does not do it; the detail says what to do instead */
    STATUS_NOT_ACCEPTABLE, /* the answer exists, but not in any form that the client takes */
    STATUS_CORRUPT,        /* a file that contradicts itself or ends early */
    STATUS_NOT_FINITE,     /* NaN or infinity where a number must be */
    STATUS_INPUT_CHANGED,  /* a registered file is not the one that was registered */
    STATUS_IO,
    STATUS_DISK_FULL,
    STATUS_NO_MEMORY,
    STATUS_UNAVAILABLE, /* the database or another service cannot be reached; worth a retry */
    STATUS_DEVICE,      /* a device failed, and everything this process has on it is lost; a new process may go on */
    STATUS_LEASE_LOST,  /* the run belongs to another worker now */
    STATUS_CANCELLED,
    STATUS_INTERNAL, /* our own mistake */
    STATUS_COUNT
};

/* One row per status: the only place that knows how a status looks from outside. */
struct status_info {
    const char *name;  /* "not_finite": the problem document's `code` and the last part of its `type` */
    const char *title; /* "Not finite" */
    int http;          /* HTTP status */
    bool retry;        /* worth trying again unchanged */
};

struct error {
    enum status status;
    int again_seconds; /* STATUS_UNAVAILABLE: seconds that the other side asks us to wait; 0: it does not say */
    bool of_device;    /* STATUS_TOO_LARGE: memory of the device is lacking, not of the host */
    /* Both texts are UTF-8, whatever bytes of a file or a request they quote: answers and the database hold nothing
     * else. */
    char pointer[160]; /* RFC 6901 pointer to the parameter to blame, or "" */
    char detail[480];  /* one line for a person: what was found, what was expected, what to do */
};

const struct status_info *status_info(enum status status);

/* Fills *error (clearing its pointer) and returns `status`, so that `return error_set(...)` reads well. */
enum status error_set(struct error *error, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* STATUS_NO_MEMORY, "no memory for WHAT". */
enum status error_no_memory(struct error *error, const char *what);

/* As error_set, with the parameter to blame. */
enum status error_set_at(struct error *error, enum status status, const char *pointer, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The status for the current errno (ENOSPC, EDQUOT: disk full; ENOENT: not found; ...), "ACTION: strerror". `action`
 * names no absolute path: it reaches people outside. */
enum status error_set_errno(struct error *error, const char *action);

#endif
