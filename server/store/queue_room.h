/* queue_room.h: how many runs may wait: for all together, and of one requester, so that nobody fills the queue for all.
 * Without another bound a requester who is not alone may have as many waiting as places stay free: a half of an empty
 * queue, a half of what the others leave. */
#ifndef STORE_QUEUE_ROOM_H
#define STORE_QUEUE_ROOM_H

#include "store/store.h"

enum { QUEUE_ROOM_MOST = 10000 };

/* Whether `more` runs of the requester may come to those that wait (0: what the transaction has added may stay).
 * `queued_most`: the bound of --queue-per-token; 0: the share. STATUS_TOO_MANY names the bound and what to do. */
MUST_CHECK enum status queue_room_check(struct connection *connection, const char *requester, int64_t queued_most,
                                        int64_t more, struct error *error);

#endif
