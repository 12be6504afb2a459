/* backoff.h: the waits between tries. They grow from a quarter of a second to a minute, with jitter; a wait that the
 * server names is obeyed. Progress resets them (backoff_reset). */
#ifndef TRANSFER_BACKOFF_H
#define TRANSFER_BACKOFF_H

#include "base/error.h"
#include "base/monitor.h"

struct backoff {
    int most;       /* tries without progress */
    double longest; /* seconds that a named wait may last */
    int tries;
};

/* After a failure: *wait is the time before the next try, `named` seconds, or by the number of tries when `named` is
 * negative. STATUS_UNAVAILABLE after the last try, with `why`; also when the server names a wait above `longest`, which
 * is then in error->again_seconds. */
MUST_CHECK enum status backoff_fail(struct backoff *backoff, double named, const struct error *why, double *wait,
                                    struct error *error);
void backoff_reset(struct backoff *backoff);

/* Sleeps, looking at the monitor four times a second. Statuses of monitor_check. */
MUST_CHECK enum status backoff_sleep(double seconds, const struct monitor *monitor, struct error *error);

#endif
