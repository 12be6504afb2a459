/* restore.h: restores a backup in steps: check it, copy its files, fill the database. */
#ifndef BACKUP_RESTORE_H
#define BACKUP_RESTORE_H

#include "postgres/connection.h"

struct artifact_place;

/* A file in a data directory that is being restored: deltaq does not start there. */
#define RESTORE_MARKER "restore.unfinished"

/* Reads all of the backup and of what it goes into; changes nothing. `place`: the data directory, and the bucket that
 * has the artifacts or is to get them. `database`: the one to fill; NULL: the private one, which is not made yet. The
 * caller owns *manifest (json_decref). STATUS_CONFLICT: the database has tables, or the data directory is not empty
 * (for a backup without files: has a database); STATUS_CORRUPT: the backup is damaged, or an artifact that should have
 * stayed where it was is; STATUS_NOT_FOUND: that is missing, and the data directory has no artifacts at all (else the
 * log says how many are missing); statuses of artifact_copy_check. */
MUST_CHECK enum status restore_check(const char *directory, const struct artifact_place *place, int schema,
                                     struct connection *database, json_t **manifest, struct error *error);

/* Marks the data directory, so that deltaq does not start there. */
MUST_CHECK enum status restore_begin(const char *data_directory, struct error *error);

/* Calls restore_begin and copies the files; artifacts go into the bucket when there is one, and otherwise into the data
 * directory. */
MUST_CHECK enum status restore_files(const char *directory, const struct artifact_place *place, const json_t *manifest,
                                     struct error *error);

/* Fills the empty database and changes the paths of checkpoints to `data_directory`. */
MUST_CHECK enum status restore_database(struct connection *connection, const char *conninfo, const char *directory,
                                        const char *data_directory, const json_t *manifest, struct error *error);

/* Changes the paths of checkpoints below `former`, and of those that runs wrote while it was at yet another path, to
 * those that they have below `data_directory`. */
MUST_CHECK enum status restore_paths(struct connection *connection, const char *former, const char *data_directory,
                                     struct error *error);

/* Removes the mark, when everything is durable. */
MUST_CHECK enum status restore_finish(const char *data_directory, struct error *error);

/* STATUS_CONFLICT while the data directory is marked. */
MUST_CHECK enum status restore_check_finished(const char *data_directory, struct error *error);

#endif
