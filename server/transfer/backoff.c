#include "transfer/backoff.h"

#include "base/clock.h"

#include <stdint.h>
#include <sys/random.h>
#include <time.h>

enum { AGAIN_MOST = 3600 };
static const double FIRST_SECONDS = 0.25, LONGEST_SECONDS = 60, LOOK_SECONDS = 0.25;

/* Between 0.75 and 1.25 times `seconds`. */
static double jittered(double seconds)
{
    uint16_t bits = 0;
    if (getrandom(&bits, sizeof bits, 0) != sizeof bits) bits = 0x8000;
    return seconds * (0.75 + 0.5 * bits / 65536.0);
}

enum status backoff_fail(struct backoff *backoff, double named, const struct error *why, double *wait,
                         struct error *error)
{
    double seconds = FIRST_SECONDS;
    const struct error cause = *why; /* `why` may be `error` */
    if (backoff->tries + 1 >= backoff->most)
        return error_set(error, STATUS_UNAVAILABLE, "%.300s; given up after %d tries without progress", cause.detail,
                         backoff->tries + 1);
    if (named > backoff->longest) {
        (void)error_set(error, STATUS_UNAVAILABLE, "%.300s; it asks to wait %.0f s: try again then", cause.detail,
                        named);
        error->again_seconds = named < AGAIN_MOST ? (int)named : AGAIN_MOST;
        return STATUS_UNAVAILABLE;
    }
    for (int i = 0; i < backoff->tries && seconds < LONGEST_SECONDS; i++) seconds *= 2;
    *wait = named >= 0 ? named : jittered(seconds < LONGEST_SECONDS ? seconds : LONGEST_SECONDS);
    backoff->tries++;
    return STATUS_OK;
}

enum status backoff_fail_too(struct backoff *backoff, double named, const struct error *why, double *wait,
                             struct error *error)
{
    if (backoff->tries > 0) backoff->tries--; /* progress may have reset them meanwhile */
    return backoff_fail(backoff, named, why, wait, error);
}

void backoff_reset(struct backoff *backoff)
{
    backoff->tries = 0;
}

enum status backoff_sleep(double seconds, const struct monitor *monitor, struct error *error)
{
    const double end = clock_seconds() + seconds;
    for (;;) {
        const enum status status = monitor_check(monitor, error);
        double left = end - clock_seconds();
        if (status != STATUS_OK || left <= 0) return status;
        if (left > LOOK_SECONDS) left = LOOK_SECONDS;
        const struct timespec pause = {.tv_sec = 0, .tv_nsec = (long)(left * 1e9)};
        (void)nanosleep(&pause, NULL);
    }
}
