/* estimate.h: what queued runs will take, by their plans (runs/dry_run.h), so that a launcher asks the batch system for
 * enough. Only a run that does not fit the usual worker says what it needs: others make do with less memory. */
#ifndef LAUNCH_ESTIMATE_H
#define LAUNCH_ESTIMATE_H

#include "runs/dry_run.h"

/* Plans a few queued runs that nobody has planned, as if on a worker of `place`, and notes what came out. *planned
 * counts. A run that cannot be planned is noted as one of which nothing is known. */
MUST_CHECK enum status estimate_some(const struct dry_run_place *place, int *planned, struct error *error);

#endif
