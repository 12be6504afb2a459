/* artifacts.h: files that a run leaves. A file is written under a temporary name, hashed, made durable (fsync, rename,
 * fsync of the directory) as $DATA/artifacts/<sha256>, and only then recorded, in the transaction that ends the run.
 * One thread at a time. */
#ifndef KINDS_ARTIFACTS_H
#define KINDS_ARTIFACTS_H

#include "base/error.h"
#include "base/monitor.h"
#include "store/queue.h" /* struct queue_artifact */

#include <stdint.h>

struct artifact_store;
struct artifact_writer;
struct artifacts;

/* How names of temporary files begin. They are in the directory of the final files, so that a rename never crosses file
 * systems. */
#define ARTIFACTS_TEMPORARY ".tmp-"

/* Makes $DATA/artifacts if it is missing. `epoch` becomes part of the temporary names. `store` (lent; NULL: none) gets
 * each file when it is published; `monitor` (lent; NULL: nobody) may stop the upload. The caller owns *out
 * (artifacts_free). */
MUST_CHECK enum status artifacts_new(const char *data_directory, const char *run, int64_t epoch,
                                     const struct artifact_store *store, const struct monitor *monitor,
                                     struct artifacts **out, struct error *error);
void artifacts_free(struct artifacts *artifacts);

/* Starts a file called `name` in the API ("items.jsonl": letters, digits, "._-"). Ended by artifact_publish or
 * artifact_abandon. */
MUST_CHECK enum status artifact_open(struct artifacts *artifacts, const char *name, const char *media_type,
                                     struct artifact_writer **out, struct error *error);
/* STATUS_DISK_FULL, STATUS_IO. */
MUST_CHECK enum status artifact_write(struct artifact_writer *writer, const void *bytes, size_t length,
                                      struct error *error);
/* Makes the file durable and notes it for the end of the run; frees the writer in any case. */
MUST_CHECK enum status artifact_publish(struct artifact_writer *writer, struct error *error);
void artifact_abandon(struct artifact_writer *writer); /* removes the temporary file; NULL is fine */

/* Publishes a finished file at `path`, which is not changed any more: as a second link on the same file system, else as
 * a copy. `monitor` (may be NULL) may stop it: its statuses. */
MUST_CHECK enum status artifact_publish_file(struct artifacts *artifacts, const char *name, const char *media_type,
                                             const char *path, const struct monitor *monitor, struct error *error);

/* All files that were published, lent. */
const struct queue_artifact *artifacts_items(const struct artifacts *artifacts, size_t *count);

#endif
