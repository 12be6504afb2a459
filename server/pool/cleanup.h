/* cleanup.h: removes what runs left on disk and nobody will need again: work directories and half-written checkpoints
 * of runs that have ended for good, and artifacts that no run refers to. The files of a run that may go on are kept. */
#ifndef POOL_CLEANUP_H
#define POOL_CLEANUP_H

#include "postgres/connection.h"

#include <stdbool.h>

struct artifact_store;

#define CLEANUP_WORK_PREFIX "run-" /* $DATA/tmp/run-ID is the work directory of run ID */

/* Removes what run `run` left, if the run has ended for good (*ended). The run's row is locked meanwhile, so that
 * nobody retries a run whose files are being removed. */
MUST_CHECK enum status cleanup_run(struct connection *connection, const char *data_directory, const char *run,
                                   bool *ended, struct error *error);

/* Removes what all runs left, and unused artifacts (artifacts_remove_unused), and corrects what is said to be on the
 * node. *removed counts the runs and the files of artifacts. */
MUST_CHECK enum status cleanup_all(struct connection *connection, const char *node, const char *data_directory,
                                   int *removed, struct error *error);

/* Removes from the bucket what runs that have ended would have gone on from (resume_store.h), and that of runs which
 * the database does not know once it is old: it may be of a server with another database. *removed grows by the
 * runs. */
MUST_CHECK enum status cleanup_bucket(struct connection *connection, const struct artifact_store *store, int *removed,
                                      struct error *error);

#endif
