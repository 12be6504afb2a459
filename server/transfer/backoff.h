/* backoff.h: the waits between tries. They grow from a quarter of a second to a minute, with jitter; a wait that the
 * server names is obeyed. Progress resets them (backoff_reset). */
#ifndef TRANSFER_BACKOFF_H
#define TRANSFER_BACKOFF_H

#include "base/error.h"
#include "base/monitor.h"

struct backoff {
    int most;       /* the most tries without progress */
    double longest; /* the longest wait that the server may ask for */
    int tries;
};

/* Call it after a failure. *wait: the seconds before the next try: `named`, or by the number of tries when `named` is
 * negative. STATUS_UNAVAILABLE after the last try, with `why`; also when the server asks for more than `longest`, which
 * is then in error->again_seconds. */
MUST_CHECK enum status backoff_fail(struct backoff *backoff, double named, const struct error *why, double *wait,
                                    struct error *error);
/* As backoff_fail, for another failure of the try that was counted last: it is not counted again. */
MUST_CHECK enum status backoff_fail_too(struct backoff *backoff, double named, const struct error *why, double *wait,
                                        struct error *error);
void backoff_reset(struct backoff *backoff);

/* Sleeps and checks the monitor four times a second. Statuses of monitor_check. */
MUST_CHECK enum status backoff_sleep(double seconds, const struct monitor *monitor, struct error *error);

#endif
