/* drain.h: decides when a worker ends by itself: before a time limit (of a batch system's job), or after some time
 * without work. Times are seconds on the worker's clock. */
#ifndef POOL_DRAIN_H
#define POOL_DRAIN_H

#include <stdbool.h>

struct drain {
    double ends_at;      /* 0: never */
    double last_lease;   /* no run is begun from then on */
    double idle_seconds; /* 0: it waits for ever */
    double busy_at;      /* when it last had a run, or was started */
};

enum drain_reason { DRAIN_NOT, DRAIN_LIMIT, DRAIN_IDLE };

/* `limit_seconds` from now the process is killed; 0: never. Ten seconds before, its runs return to the queue; in the
 * minute before that (for limits below ten minutes, a tenth of the limit) no run is begun. */
void drain_init(struct drain *drain, double now, double limit_seconds, double idle_seconds);
bool drain_may_lease(const struct drain *drain, double now);
/* Call it often. `busy`: the worker has a run. */
enum drain_reason drain_due(struct drain *drain, double now, bool busy);
const char *drain_words(enum drain_reason reason);

#endif
