/* resume.h: uploads the saved state of a batch's runs in the background (kinds/resume_store.h), so that the engine
 * never waits for a bucket.
 * - New state is uploaded at most every minute (or `every` seconds) for each run. The first upload comes that long
 * after the lease, so a run that ends earlier uploads nothing.
 * - The next upload waits twenty times as long as the last one took, so that uploads take at most a twentieth of the
 * time, however slow the bucket is.
 * - When the worker stops, the state is uploaded once more, as far as it gets until the process ends.
 * A failure is written to the run's log and retried a minute later. */
#ifndef POOL_RESUME_H
#define POOL_RESUME_H

#include "kinds/resume_store.h"

struct resume;

/* Makes space for `most` runs; `every` 0: a minute. The caller owns *out (resume_free). STATUS_NO_MEMORY. */
MUST_CHECK enum status resume_new(size_t most, double every, struct resume **out, struct error *error);

/* Fetches the state that an earlier lease of the run left (resume_store_fetch), and uploads new state from now on;
 * *number identifies the run for resume_end. `monitor` belongs to the run; it and all of `place` are lent until
 * resume_end. An incomplete state is written to the run's log, and the run continues from its work directory. A bucket
 * that does not answer is a failure, because starting again would cost more than waiting. Statuses of
 * resume_store_fetch that are worth a retry, and those of the monitor. */
MUST_CHECK enum status resume_add(struct resume *resume, const struct resume_place *place,
                                  const struct monitor *monitor, size_t *number, struct error *error);

/* Ends the uploads of a run that the engine has finished; nothing is uploaded after it returns. `last`: the run returns
 * to the queue, and its state is uploaded first. True when the bucket has state of the run. */
bool resume_end(struct resume *resume, size_t number, bool last);

void resume_free(struct resume *resume); /* NULL is fine */

#endif
