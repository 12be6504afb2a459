/* estimate.h: plans queued runs (runs/dry_run.h), so that a launcher asks the batch system for enough memory and time.
 * A need is stored only for a run that does not fit the usual worker; other runs can do with less memory. */
#ifndef LAUNCH_ESTIMATE_H
#define LAUNCH_ESTIMATE_H

#include "launch/template.h"
#include "runs/dry_run.h"

/* Plans a few queued runs that nobody has planned, as if on a worker of `place` with the device of the template that
 * would serve the run, and notes what came out. *planned counts. A run that cannot be planned is noted as one of which
 * nothing is known. */
MUST_CHECK enum status estimate_some(const struct dry_run_place *place, const struct template *templates,
                                     size_t template_count, int *planned, struct error *error);

#endif
