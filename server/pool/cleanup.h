/* cleanup.h: removes files of runs that are not needed any more: work directories and half-written checkpoints of runs
 * that have ended for good, and artifacts that no run refers to. Files of a run that may continue are kept. */
#ifndef POOL_CLEANUP_H
#define POOL_CLEANUP_H

#include "postgres/connection.h"

#include <stdbool.h>

struct artifact_store;
struct unused_artifacts;

#define CLEANUP_WORK_PREFIX "run-" /* $DATA/tmp/run-ID is the work directory of run ID */

/* Puts the files of run `run` aside if it has ended for good (*ended), for cleanup_remove. The run's row is locked
 * meanwhile, so that nobody retries the run. */
MUST_CHECK enum status cleanup_run(struct connection *connection, const char *data_directory, const char *run,
                                   bool *ended, struct error *error);
/* Removes what was put aside of run `run`, which may take longer than a lease. */
void cleanup_remove(const char *data_directory, const char *run);

/* Removes the files and checkpoints of run `run` that earlier attempts had not finished. Call it under a new lease: an
 * attempt that still writes one has lost the run, and cannot put it in place any more. */
void cleanup_unfinished(const char *data_directory, const char *run);

/* Whether nobody has cleaned up in the data directory for two hours, because no worker lived long enough. A file in the
 * directory says when somebody did; a directory without one counts as clean, and gets it. */
bool cleanup_overdue(const char *data_directory);
/* Notes that a clean-up begins there. */
void cleanup_note(const char *data_directory);

/* Removes the files of all ended runs, and corrects the list of files on the node. *removed grows by the number of
 * runs. */
MUST_CHECK enum status cleanup_all(struct connection *connection, const char *node, const char *data_directory,
                                   int *removed, struct error *error);

/* Begins to remove unused artifacts (unused_artifacts.h). */
MUST_CHECK enum status cleanup_artifacts(const char *data_directory, struct unused_artifacts **out,
                                         struct error *error);

/* Removes the saved state (resume_store.h) of runs that have ended from the bucket. State of runs that the database
 * does not know is removed once it is old, because it may belong to a server with another database. *removed grows by
 * the number of runs. */
MUST_CHECK enum status cleanup_bucket(struct connection *connection, const struct artifact_store *store, int *removed,
                                      struct error *error);

#endif
