/* recovery.h: makes a database from an archive (archive.h): a base copy is unpacked, and PostgreSQL replays the log
 * from there at its first start. */
#ifndef POSTGRES_RECOVERY_H
#define POSTGRES_RECOVERY_H

#include "base/error.h"

#include <stddef.h>
#include <sys/types.h>

struct child;

struct recovery {        /* lent */
    const char *archive; /* directory */
    const char *base;    /* a directory with base.tar.gz and pg_wal.tar.gz (backup/base.h) */
    const char *until;   /* "2026-11-23 15:04:05.5+00"; NULL: to the end of the archive */
    const char *last;    /* the last segment that is known to exist (archive_segments.h); "": none */
};

/* Fills the empty directory child->directory, as the child's user; the other members of *child say how to run a program
 * of PostgreSQL. STATUS_DISK_FULL, STATUS_UNAVAILABLE, STATUS_NOT_FOUND, STATUS_IO. */
MUST_CHECK enum status recovery_unpack(const struct recovery *recovery, const struct child *child, struct error *error);

/* Writes the settings of the start that replays, "name=value", and returns their number. `texts` holds those that are
 * composed here. */
enum { RECOVERY_SETTINGS = 5, RECOVERY_TEXT = 600 };
size_t recovery_settings(const struct recovery *recovery, char texts[2][RECOVERY_TEXT], const char **out);

#endif
