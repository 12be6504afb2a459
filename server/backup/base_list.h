/* base_list.h: the base copies in an archive (base.h), sorted by time. */
#ifndef BACKUP_BASE_LIST_H
#define BACKUP_BASE_LIST_H

#include "base/error.h"

#include <stdint.h>

enum { BASE_TIME = 32, BASE_NAME = 21 };
#define BASE_UNFINISHED ".unfinished" /* suffix of the name of a copy that is being made or removed */

struct base_entry {
    char name[BASE_NAME];     /* "20261123T150405.123Z" */
    char ended_at[BASE_TIME]; /* "2026-11-23 15:04:07.123456": a recovery can reach every moment from then on */
    char segment[25];         /* the first segment of the log that it needs */
    int64_t bytes;
    char fault[300]; /* fault of its manifest, and then ended_at is empty; "": none */
};

struct base_list {
    struct base_entry *items; /* owns */
    int count;
};

/* Writes ARCHIVE/base/NAME into `out` [PATH_MAX]. STATUS_INVALID: it is too long. */
MUST_CHECK enum status base_list_path(const char *archive, const char *name, char *out, struct error *error);

/* Reads the manifests, the oldest copy first. base_list_reset in any case. STATUS_NOT_FOUND, STATUS_IO,
 * STATUS_NO_MEMORY. */
MUST_CHECK enum status base_list_read(const char *archive, struct base_list *out, struct error *error);
void base_list_reset(struct base_list *list);

/* Reads all of the copy. STATUS_CORRUPT and other errors name the damaged part. */
MUST_CHECK enum status base_list_verify(const char *archive, const struct base_entry *entry, struct error *error);

#endif
