/* backoff.h: when to ask again. Waits grow from a quarter of a second to a minute, with jitter; a wait that the server
 * names is kept to. What makes progress has all its backoff again. */
#ifndef HUB_BACKOFF_H
#define HUB_BACKOFF_H

#include "base/error.h"
#include "base/monitor.h"

struct backoff {
    int most;       /* tries without progress */
    double longest; /* seconds that a named wait may last */
    int tries;
};

double backoff_now(void); /* seconds on a clock that only goes on */

/* After a failure: *wait is how long to wait before the next try (`named` seconds, or by the number of tries when that
 * is negative). STATUS_UNAVAILABLE when it is enough, with `why` and what to do, and error->again_seconds when a longer
 * wait is named. */
MUST_CHECK enum status backoff_fail(struct backoff *backoff, double named, const struct error *why, double *wait,
                                    struct error *error);
void backoff_reset(struct backoff *backoff);

/* Sleeps, looking at the monitor four times a second. Statuses of monitor_check. */
MUST_CHECK enum status backoff_sleep(double seconds, const struct monitor *monitor, struct error *error);

#endif
