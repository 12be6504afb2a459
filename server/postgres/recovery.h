/* recovery.h: a database made out of an archive (archive.h): a copy of it is unpacked, and PostgreSQL replays the log
 * from there on at its first start. */
#ifndef POSTGRES_RECOVERY_H
#define POSTGRES_RECOVERY_H

#include "base/error.h"

#include <stddef.h>
#include <sys/types.h>

struct child;

struct recovery {        /* lent */
    const char *archive; /* directory */
    const char *base;    /* a directory with base.tar.gz and pg_wal.tar.gz (backup/base.h) */
    const char *until;   /* "2026-11-23 15:04:05.5+00"; NULL: all that the archive has */
    const char *last;    /* the last segment that is known to be there (archive_segments.h); "": none */
};

/* Fills the empty directory that child->directory is, as the child's user; the rest of *child says how a program of
 * PostgreSQL is run. STATUS_DISK_FULL, STATUS_UNAVAILABLE, STATUS_NOT_FOUND, STATUS_IO. */
MUST_CHECK enum status recovery_unpack(const struct recovery *recovery, const struct child *child, struct error *error);

/* The settings of the start that replays, "name=value"; their number. `texts` keeps those that are written here. */
enum { RECOVERY_SETTINGS = 5, RECOVERY_TEXT = 600 };
size_t recovery_settings(const struct recovery *recovery, char texts[2][RECOVERY_TEXT], const char **out);

#endif
