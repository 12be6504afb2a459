/* artifact_copy.h: artifacts into a backup and out of it, wherever they lie: in the data directory, or in the bucket
 * where workers on other machines leave theirs. Every one is held against its name, which is its SHA-256. */
#ifndef BACKUP_ARTIFACT_COPY_H
#define BACKUP_ARTIFACT_COPY_H

#include "kinds/artifact_file.h"

#include <jansson.h>
#include <stdint.h>

#define ARTIFACT_COPY_DIRECTORY "artifacts/"

/* Copies the artifact to `to`/artifacts/SHA256 and notes it in `files`. STATUS_NOT_FOUND (which says what to do where
 * no bucket was given), STATUS_CORRUPT, statuses of artifact_file_open; all of them name it. */
MUST_CHECK enum status artifact_copy_out(const struct artifact_place *place, const char *sha256, int64_t bytes,
                                         const char *to, json_t *files, struct error *error);

/* Reads all of the artifact where it lies. Statuses as above. */
MUST_CHECK enum status artifact_copy_check(const struct artifact_place *place, const char *sha256, int64_t bytes,
                                           struct error *error);

/* Puts `from`/artifacts/SHA256 into place->store, unless it is there, and reads it back from there: STATUS_CORRUPT when
 * an object of that name has other bytes. Statuses of artifact_store_put and artifact_store_get, which name it. */
MUST_CHECK enum status artifact_copy_in(const struct artifact_place *place, const char *sha256, int64_t bytes,
                                        const char *from, struct error *error);

#endif
