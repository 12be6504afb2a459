/* resume.h: what the runs of a batch would go on from, uploaded in the background (kinds/resume_store.h), so that the
 * engine waits for no bucket. What is new is uploaded
 *   - at most every minute (or `every` seconds) for a run, the first time so long after its lease: a run that is done
 *     by then uploads nothing;
 *   - and not before twenty times as long has passed as the last upload took: what is uploaded costs at most a
 *     twentieth of the time, whatever the bucket is like;
 *   - once more when the worker stops, as far as it comes until the process ends.
 * A failure goes into the run's log, and is tried again a minute later. */
#ifndef POOL_RESUME_H
#define POOL_RESUME_H

#include "kinds/resume_store.h"

struct resume;

/* For up to `most` runs; `every` 0: a minute. The caller owns *out (resume_free). STATUS_NO_MEMORY. */
MUST_CHECK enum status resume_new(size_t most, double every, struct resume **out, struct error *error);

/* Fetches what an earlier lease of the run left (resume_store_fetch), and uploads from here on; *number is the run's
 * for resume_end. `monitor` is the run's and, as all of `place`, lent until then. That a state is not there whole goes
 * into the run's log, and the run goes on with what the work directory has. A bucket that does not answer is a
 * failure: the run would begin again, and is worth waiting for it. Statuses of resume_store_fetch that are worth a
 * retry, and those of the monitor. */
MUST_CHECK enum status resume_add(struct resume *resume, const struct resume_place *place,
                                  const struct monitor *monitor, size_t *number, struct error *error);

/* The engine is done with the run: from when this returns, nothing of it is uploaded. `last`: it goes back, and what it
 * has saved is uploaded before. Whether the bucket has something of it. */
bool resume_end(struct resume *resume, size_t number, bool last);

void resume_free(struct resume *resume); /* NULL is fine */

#endif
