/* archive.h: where the log of a private database is kept for good, so that the database can be had as of any moment.
 *
 *   $DATA/pg/archive       the record: lines with the archive's directory and its name. While it is there every start
 *                          of the database archives, whoever starts it: a gap would end what can be had
 *   DIR/deltaq-archive     lines with the name again and with the data directory
 *   DIR/wal/SEGMENT.gz     PostgreSQL's log, written by its own user; made whole, never written over
 *   DIR/base/TIME          copies of the database to begin from (backup/base.h)
 *
 * PostgreSQL is given DIR/wal as a descriptor (ARCHIVE_FD), so no path is part of a shell's command and its user needs
 * no search permission above. An archive belongs to one data directory and has no gaps: one that was ended is never
 * taken up again. */
#ifndef POSTGRES_ARCHIVE_H
#define POSTGRES_ARCHIVE_H

#include "base/error.h"

#include <stdbool.h>
#include <sys/types.h>

enum { ARCHIVE_PATH = 4096, ARCHIVE_NAME = 33, ARCHIVE_FD = 11, ARCHIVE_LAG = 4 };
#define ARCHIVE_RECORD "archive"
#define ARCHIVE_OFF    "off"

struct archive {
    char directory[ARCHIVE_PATH]; /* "": none */
    char name[ARCHIVE_NAME];
    int wal; /* descriptor of DIR/wal; -1: none */
};

/* Opens the archive of the cluster whose directory ($DATA/pg) is `home`; the caller holds its lock. `wanted`: NULL for
 * the directory in the record, "off" to end archiving, or a directory: that of the record, or one that is missing or
 * empty, where a new archive begins. archive_close in any case. STATUS_CONFLICT: it archives elsewhere, or the
 * directory belongs to another; STATUS_FORBIDDEN: the data directory is a copy of one that archives there;
 * STATUS_NOT_FOUND: the directory does not exist; STATUS_IO and other errors name it. */
MUST_CHECK enum status archive_open(int home, const char *data_directory, const char *wanted, uid_t uid, gid_t gid,
                                    struct archive *out, struct error *error);
void archive_close(struct archive *archive);

/* The directory that the data directory's record names; "" for none. Any process may call it without a lock. */
MUST_CHECK enum status archive_recorded(const char *data_directory, char out[ARCHIVE_PATH], struct error *error);

/* Opens an archive for reading, whichever data directory it belongs to; `data_directory` gets that one.
 * STATUS_NOT_FOUND: there is none. */
MUST_CHECK enum status archive_read(const char *directory, char data_directory[ARCHIVE_PATH], struct archive *out,
                                    struct error *error);

/* STATUS_FORBIDDEN: the user `uid`, as whom root runs PostgreSQL, cannot read it, for example after root has copied
 * it. */
MUST_CHECK enum status archive_check_reader(const struct archive *archive, uid_t uid, struct error *error);

/* Locks the archive. Restores and copies share the lock and wait for it. `alone`: for a process that removes files; it
 * does not wait: STATUS_CONFLICT. The caller closes *lock. On a file system without locks, `alone` fails with STATUS_IO
 * or the like. */
MUST_CHECK enum status archive_lock(const struct archive *archive, bool alone, int *lock, struct error *error);

/* Settings of PostgreSQL for archiving, "name=value"; ends with NULL. */
extern const char *const archive_settings[];
/* The restore_command for a recovery. `last`: from archive_segments_look. All segments up to it exist, and the recovery
 * fails when one of them cannot be read. */
void archive_restore_command(const char *last, char *out, size_t size);

#endif
