/* artifact_store.h: artifacts in a bucket, "PREFIX/<sha256>", so that a server can send what a worker on another
 * machine made. The files in $DATA/artifacts stay: each is uploaded before the run that made it ends. Checkpoints that
 * runs make are stored below "PREFIX/checkpoints" (made_checkpoint.h), the saved states of interrupted runs below
 * "PREFIX/resume" (resume_store.h). */
#ifndef KINDS_ARTIFACT_STORE_H
#define KINDS_ARTIFACT_STORE_H

#include "base/monitor.h"
#include "objects/listing.h"
#include "objects/objects.h"
#include "objects/objects_place.h"

#include <stdint.h>

struct artifact_store;

/* `place`: "s3://BUCKET/PREFIX". The caller owns *out (artifact_store_free). STATUS_INVALID naming the option. */
MUST_CHECK enum status artifact_store_new(const struct objects *objects, const char *place, struct artifact_store **out,
                                          struct error *error);
void artifact_store_free(struct artifact_store *store); /* NULL is fine */

/* As artifact_store_new, but keeps nothing; NULL is fine. */
MUST_CHECK enum status artifact_store_check(const char *place, struct error *error);

/* Uploads `fd` as PREFIX/`name`. Statuses of upload_file. */
MUST_CHECK enum status artifact_store_put(const struct artifact_store *store, const char *name, int fd, int64_t bytes,
                                          const struct monitor *monitor, struct error *error);

/* Uploads the files that lie directly in `directory` as PREFIX/`name`/FILE. *place: "s3://BUCKET/PREFIX/name". Statuses
 * of upload_file; STATUS_INVALID when that is too long. */
MUST_CHECK enum status artifact_store_put_directory(const struct artifact_store *store, const char *directory,
                                                    const char *name, const struct monitor *monitor,
                                                    char place[OBJECTS_PLACE_MOST + 1], struct error *error);

/* Downloads the object, whose bytes have that hash, into a nameless file in `directory`; the caller owns *fd. `monitor`
 * (may be NULL) may stop it. STATUS_NOT_FOUND, STATUS_CORRUPT (other bytes); statuses of bucket_ask and the monitor;
 * STATUS_DISK_FULL (also when the bytes would not fit), STATUS_IO. */
MUST_CHECK enum status artifact_store_get(const struct artifact_store *store, const char *sha256, int64_t bytes,
                                          const char *directory, const struct monitor *monitor, int *fd,
                                          struct error *error);

/* As artifact_store_get, for PREFIX/`name`, whose bytes have that hash. */
MUST_CHECK enum status artifact_store_get_as(const struct artifact_store *store, const char *name, const char *sha256,
                                             int64_t bytes, const char *directory, const struct monitor *monitor,
                                             int *fd, struct error *error);

/* List the objects below PREFIX/`name`, and remove PREFIX/`name`; neither fails when nothing is there. `until`: for
 * callers that cannot wait long, the time (clock_seconds) at which it must be done, with one try for each request; 0:
 * none. The caller resets *out in any case. Statuses of listing_make and bucket_ask; STATUS_UNAVAILABLE when the time
 * is over. */
MUST_CHECK enum status artifact_store_list(const struct artifact_store *store, const char *name, double until,
                                           const struct monitor *monitor, struct listing *out, struct error *error);
MUST_CHECK enum status artifact_store_remove(const struct artifact_store *store, const char *name, double until,
                                             const struct monitor *monitor, struct error *error);

#endif
