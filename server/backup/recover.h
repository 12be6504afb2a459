/* recover.h: makes a new data directory from an archive (postgres/archive.h), with the database as of any moment since
 * the archive began, and the files that it names at that moment. While a data directory archives, it keeps every
 * artifact. */
#ifndef BACKUP_RECOVER_H
#define BACKUP_RECOVER_H

#include "backup/base.h"
#include "postgres/archive_segments.h"

struct artifact_place;

struct recover {
    char base[ARCHIVE_PATH];          /* the base copy to begin with */
    char former[ARCHIVE_PATH];        /* the data directory that was archived */
    char until[BASE_TIME + 4];        /* for recovery_target_time; "": the whole archive */
    struct archive_segments segments; /* when there is a gap, moments before it can still be reached */
    int lock;                         /* keeps others from removing what is read; -1: none */
};

/* Reads the copy of the database that `until` needs, and what else can be known before anything is written. `until`:
 * as base_read_time's text, or NULL. STATUS_NOT_FOUND: no archive, none so early; STATUS_CORRUPT: it is damaged or
 * has a gap; STATUS_CONFLICT: the data directory is not empty; STATUS_UNSUPPORTED: a newer schema than `schema`.
 * recover_reset in any case. */
MUST_CHECK enum status recover_check(const char *archive, const char *until, const char *data_directory, int schema,
                                     struct recover *out, struct error *error);

void recover_reset(struct recover *recover);

/* Adds known reasons to the error of a failed recovery. Returns the status. */
enum status recover_explain(const struct recover *recover, const char *archive, struct error *error);

/* Copies the files that the recovered database names from the former data directory, or from `given` (a backup, or the
 * new place of that data directory; NULL: none). Artifacts that are in neither must be in the bucket of `place`, if it
 * has one. Then the paths of checkpoints are changed to place->data_directory. STATUS_NOT_FOUND: the first file that is
 * nowhere, and their number; STATUS_CORRUPT and statuses of artifact_copy_check. */
MUST_CHECK enum status recover_files(struct connection *connection, const struct recover *recover, const char *given,
                                     const struct artifact_place *place, struct error *error);

#endif
