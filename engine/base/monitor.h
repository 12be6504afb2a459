/* monitor.h: how long engine work reports its progress to its owner and learns that it should stop. The engine calls
 * these functions from its own thread, between steps of at most a second or so; the owner (a worker, a test) provides
 * them. */
#ifndef BASE_MONITOR_H
#define BASE_MONITOR_H

#include "base/error.h"

#include <stdint.h>

struct monitor {
    void *owner;
    /* `done` of `total` `unit`s ("block", "step", "sequence"). May be called often; the owner throttles. */
    void (*progress)(void *owner, int64_t done, int64_t total, const char *unit);
    /* One line for the run's log. */
    void (*log)(void *owner, const char *line);
    /* STATUS_OK to go on; STATUS_CANCELLED or STATUS_LEASE_LOST (error filled) to stop cleanly and at once. */
    enum status (*check)(void *owner, struct error *error);
};

/* These accept a NULL monitor and NULL callbacks. */
void monitor_progress(const struct monitor *monitor, int64_t done, int64_t total, const char *unit);
void monitor_log(const struct monitor *monitor, const char *format, ...) __attribute__((format(printf, 2, 3)));
MUST_CHECK enum status monitor_check(const struct monitor *monitor, struct error *error);

#endif
