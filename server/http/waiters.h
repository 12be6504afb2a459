/* waiters.h: parked requests. A request waits on a topic until a wake, its deadline, or its client has left (looked at
 * every half second), and is then released to the handler pool. No wake is lost between a handler's query and the
 * parking: wakes are numbered, a request notes the number before its handler runs, and parking checks whether the topic
 * was woken since. */
#ifndef HTTP_WAITERS_H
#define HTTP_WAITERS_H

#include "base/error.h"

#include <stdint.h>

struct waiters;
struct exchange;

/* `release` is called for each exchange that was woken or whose wait is over, on any thread, without the waiters'
 * lock. */
MUST_CHECK enum status waiters_new(void (*release)(struct exchange *exchange), struct waiters **out,
                                   struct error *error);
void waiters_free(struct waiters *waiters); /* NULL is fine; no exchange may be parked */

uint64_t waiters_sequence(struct waiters *waiters);

/* Parks the exchange on response.topic until deadline_ms or retry_ms, the earlier of those that are set. */
void waiters_park(struct waiters *waiters, struct exchange *exchange);

void waiters_wake(struct waiters *waiters, const char *topic); /* NULL: all */
void waiters_tick(struct waiters *waiters); /* releases exchanges whose deadline has passed or whose client has left */
unsigned waiters_count(struct waiters *waiters);

/* From now on every exchange is released at once. */
void waiters_end(struct waiters *waiters);

#endif
