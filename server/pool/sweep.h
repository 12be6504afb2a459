/* sweep.h: takes away what runs left on disk and nobody will need again: work directories and half-written checkpoints
 * of runs that have ended for good, and artifacts that no run refers to. A run that may go on keeps everything. */
#ifndef POOL_SWEEP_H
#define POOL_SWEEP_H

#include "postgres/connection.h"

#define SWEEP_WORK_PREFIX "run-" /* $DATA/tmp/run-ID is the work directory of run ID */

/* What run `run` left, if it has ended for good. Its row is locked meanwhile: it cannot be retried under the broom. */
MUST_CHECK enum status sweep_run(struct connection *connection, const char *data_directory, const char *run,
                                 struct error *error);

/* The leftovers of all runs, and artifacts as artifacts_sweep says. *removed counts files of artifacts and runs
 * swept. */
MUST_CHECK enum status sweep_all(struct connection *connection, const char *data_directory, int *removed,
                                 struct error *error);

#endif
