/* restore.h: a backup put back, in steps: check it, copy its files, fill the database. */
#ifndef BACKUP_RESTORE_H
#define BACKUP_RESTORE_H

#include "postgres/connection.h"

struct artifact_place;

/* In a data directory while a restore fills it: nothing starts there. */
#define RESTORE_MARKER "restore.unfinished"

/* Reads all of the backup and of what it goes into; changes nothing. `place`: the data directory, and the bucket that
 * has the artifacts or is to get them. `database`: the one to fill; NULL: the private one, which is not made yet. The
 * caller owns *manifest (json_decref). STATUS_CONFLICT: the database has tables, or the data directory is not empty
 * (for a backup without files: has a database); STATUS_CORRUPT: the backup is damaged, or an artifact that should have
 * stayed where it was is; STATUS_NOT_FOUND: that is missing; statuses of artifact_copy_check. */
MUST_CHECK enum status restore_check(const char *directory, const struct artifact_place *place, int schema,
                                     struct connection *database, json_t **manifest, struct error *error);

/* Marks the data directory, so that nothing starts there. */
MUST_CHECK enum status restore_begin(const char *data_directory, struct error *error);

/* restore_begin, and copies the files; artifacts into the bucket where there is one, and nowhere else. */
MUST_CHECK enum status restore_files(const char *directory, const struct artifact_place *place, const json_t *manifest,
                                     struct error *error);

/* Fills the database, which is empty; the checkpoints of the backup lie below `data_directory` now. */
MUST_CHECK enum status restore_database(struct connection *connection, const char *conninfo, const char *directory,
                                        const char *data_directory, const json_t *manifest, struct error *error);

/* Takes the mark away, when all is durable. */
MUST_CHECK enum status restore_finish(const char *data_directory, struct error *error);

/* STATUS_CONFLICT while the data directory is marked. */
MUST_CHECK enum status restore_check_finished(const char *data_directory, struct error *error);

#endif
