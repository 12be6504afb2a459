/* backup.h: a copy of all that deltaq keeps, made while runs go on.
 *
 *   DIR/manifest.json          versions, sizes, SHA-256; written last
 *   DIR/database.dump          pg_dump's custom format
 *   DIR/artifacts/SHA256       what runs left
 *   DIR/checkpoints/RUN/...    checkpoints that runs wrote
 *
 * The order makes the two consistent: first a snapshot of the database is taken; pg_dump dumps that snapshot, and the
 * list of files is read in it. A file is published before the database names it and never changes afterwards, so every
 * file of the snapshot is there; one that was removed meanwhile fails the backup and is named. Caches (of the hub, of
 * baselines) and the work directories of running runs are left out: a restored run begins again. */
#ifndef BACKUP_BACKUP_H
#define BACKUP_BACKUP_H

#include "postgres/connection.h"

struct artifact_place;

/* Into `directory`, which must be missing or empty; `place` is the data directory, and the bucket of artifacts that are
 * not in it. With `files` false artifacts and checkpoints stay where they are, and the manifest says what the artifacts
 * must be. On failure everything that was written is removed. STATUS_CONFLICT: not empty; STATUS_NOT_FOUND: a file or
 * pg_dump is missing; STATUS_CORRUPT: a file is not what was recorded; statuses of artifact_copy_out. */
MUST_CHECK enum status backup_make(struct connection *connection, const char *conninfo,
                                   const struct artifact_place *place, const char *directory, bool files,
                                   struct error *error);

/* Called before schema `number` of the private database is changed: backs up the database only, into
 * $DATA/backups/TIME-schema-NUMBER, of which the newest two are kept. */
MUST_CHECK enum status backup_before_migration(struct connection *connection, const char *conninfo,
                                               const char *data_directory, int number, struct error *error);

#endif
