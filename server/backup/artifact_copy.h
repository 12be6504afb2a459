/* artifact_copy.h: copies artifacts into a backup and out of it, from the data directory or from the bucket in which
 * workers on other machines leave theirs. Each is compared with its name, which is its SHA-256. */
#ifndef BACKUP_ARTIFACT_COPY_H
#define BACKUP_ARTIFACT_COPY_H

#include "kinds/artifact_file.h"

#include <jansson.h>
#include <stdint.h>

#define ARTIFACT_COPY_DIRECTORY "artifacts/"

/* Copies the artifact to `to`/artifacts/SHA256 and notes it in `files`. STATUS_NOT_FOUND (which says what to do when no
 * bucket was given), STATUS_CORRUPT, statuses of artifact_file_open; every error names the artifact. */
MUST_CHECK enum status artifact_copy_out(const struct artifact_place *place, const char *sha256, int64_t bytes,
                                         const char *to, json_t *files, struct error *error);

/* Reads all bytes of the artifact at its present place. Statuses as above. */
MUST_CHECK enum status artifact_copy_check(const struct artifact_place *place, const char *sha256, int64_t bytes,
                                           struct error *error);

/* Uploads `from`/artifacts/SHA256 to place->store, unless it is there, and reads it back: STATUS_CORRUPT when an object
 * of that name has other bytes. Statuses of artifact_store_put and artifact_store_get, which name the artifact. */
MUST_CHECK enum status artifact_copy_in(const struct artifact_place *place, const char *sha256, int64_t bytes,
                                        const char *from, struct error *error);

#endif
