/* estimate.h: plans queued runs (runs/dry_run.h), so that a launcher asks the batch system for enough memory and time.
 * A need is stored only for a run that does not fit the usual worker; other runs can do with less memory. */
#ifndef LAUNCH_ESTIMATE_H
#define LAUNCH_ESTIMATE_H

#include "runs/dry_run.h"

/* Plans a few queued runs that have no plan yet, as if on a worker of `place`, and stores the results. *planned: the
 * number of runs. A run that cannot be planned is stored as not known. */
MUST_CHECK enum status estimate_some(const struct dry_run_place *place, int *planned, struct error *error);

#endif
