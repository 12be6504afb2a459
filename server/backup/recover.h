/* recover.h: a new data directory out of an archive (postgres/archive.h), with the database as of any moment since the
 * archive began, and the files that it names then. While a data directory archives, it keeps every artifact. */
#ifndef BACKUP_RECOVER_H
#define BACKUP_RECOVER_H

#include "backup/base.h"
#include "postgres/archive_segments.h"

struct artifact_place;

struct recover {
    char base[ARCHIVE_PATH];          /* the copy of the database to begin from */
    char former[ARCHIVE_PATH];        /* the data directory that the archive is of */
    char until[BASE_TIME + 4];        /* for recovery_target_time; "": all that there is */
    struct archive_segments segments; /* a gap: a moment before it can be had */
    int lock;                         /* nobody removes what is read; -1: none */
};

/* Reads the copy of the database that `until` needs, and what else can be known before anything is written. `until`:
 * as base_read_time's text, or NULL. STATUS_NOT_FOUND: no archive, none so early; STATUS_CORRUPT: it is damaged or
 * has a gap; STATUS_CONFLICT: the data directory is not empty; STATUS_UNSUPPORTED: a newer schema than `schema`.
 * recover_reset in any case. */
MUST_CHECK enum status recover_check(const char *archive, const char *until, const char *data_directory, int schema,
                                     struct recover *out, struct error *error);

void recover_reset(struct recover *recover);

/* Says of a recovery that failed what is known besides. Returns the status. */
enum status recover_explain(const struct recover *recover, const char *archive, struct error *error);

/* Copies the files that the recovered database names from the former data directory, or from `given` (a backup, or
 * where that data directory is now; NULL: none), and checks that other artifacts are in the bucket of `place`, if it
 * has one; then the checkpoints lie below place->data_directory. STATUS_NOT_FOUND: the first that is nowhere, and how
 * many are; STATUS_CORRUPT and statuses of artifact_copy_check. */
MUST_CHECK enum status recover_files(struct connection *connection, const struct recover *recover, const char *given,
                                     const struct artifact_place *place, struct error *error);

#endif
