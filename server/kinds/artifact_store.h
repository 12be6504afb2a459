/* artifact_store.h: artifacts in a bucket, "PREFIX/<sha256>", so that a server gives what a worker on another machine
 * has made. The files in $DATA/artifacts stay what they are: each is uploaded before the run that made it ends.
 * Checkpoints that runs make go below "PREFIX/checkpoints" (made_checkpoint.h), what interrupted runs go on from below
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

/* The same check without keeping anything; NULL is fine. */
MUST_CHECK enum status artifact_store_check(const char *place, struct error *error);

/* Uploads `fd` as PREFIX/`name`. Statuses of upload_file. */
MUST_CHECK enum status artifact_store_put(const struct artifact_store *store, const char *name, int fd, int64_t bytes,
                                          const struct monitor *monitor, struct error *error);

/* Uploads the files that lie in `directory` itself as PREFIX/`name`/FILE. *place: "s3://BUCKET/PREFIX/name". Statuses of
 * upload_file; STATUS_INVALID when that is too long. */
MUST_CHECK enum status artifact_store_put_directory(const struct artifact_store *store, const char *directory,
                                                    const char *name, const struct monitor *monitor,
                                                    char place[OBJECTS_PLACE_MOST + 1], struct error *error);

/* A file without a name in `directory` with the object's bytes, which have that hash; *fd is the caller's. `monitor`
 * (may be NULL) may stop it. STATUS_NOT_FOUND, STATUS_CORRUPT (other bytes); statuses of bucket_ask and the monitor;
 * STATUS_DISK_FULL (also when the bytes would not fit), STATUS_IO. */
MUST_CHECK enum status artifact_store_get(const struct artifact_store *store, const char *sha256, int64_t bytes,
                                          const char *directory, const struct monitor *monitor, int *fd,
                                          struct error *error);

/* The same of PREFIX/`name`, whose bytes have that hash. */
MUST_CHECK enum status artifact_store_get_as(const struct artifact_store *store, const char *name, const char *sha256,
                                             int64_t bytes, const char *directory, const struct monitor *monitor,
                                             int *fd, struct error *error);

/* Lists what lies below PREFIX/`name`, and removes PREFIX/`name`; that nothing is there is fine. `quick`: in one try of
 * some seconds, for who cannot wait longer. The caller resets *out in any case. Statuses of listing_make and
 * bucket_ask. */
MUST_CHECK enum status artifact_store_list(const struct artifact_store *store, const char *name, bool quick,
                                           const struct monitor *monitor, struct listing *out, struct error *error);
MUST_CHECK enum status artifact_store_remove(const struct artifact_store *store, const char *name, bool quick,
                                             const struct monitor *monitor, struct error *error);

#endif
