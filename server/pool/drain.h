/* drain.h: when a worker ends by itself: before a time limit (of a batch system's job), or once it has had nothing to
 * do for a while. Times are seconds on the worker's clock. */
#ifndef POOL_DRAIN_H
#define POOL_DRAIN_H

#include <stdbool.h>

struct drain {
    double ends_at;      /* 0: never */
    double last_lease;   /* from here on no run is begun */
    double idle_seconds; /* 0: it waits for ever */
    double busy_at;      /* when it last had a run, or began */
};

enum drain_reason { DRAIN_NOT, DRAIN_LIMIT, DRAIN_IDLE };

/* `limit_seconds` from now on the process is gone; 0: never. Ten seconds before, runs go back; in the minute before
 * that (a tenth of a limit below ten minutes) none is begun. */
void drain_init(struct drain *drain, double now, double limit_seconds, double idle_seconds);
bool drain_may_lease(const struct drain *drain, double now);
/* Called often. `busy`: it has a run. */
enum drain_reason drain_due(struct drain *drain, double now, bool busy);
const char *drain_words(enum drain_reason reason);

#endif
