/* queue_room.h: how many runs may wait: for all together, and of one requester, so that nobody fills the queue for all.
 * Without another bound a requester who is not alone may have as many waiting as places stay free: a half of an empty
 * queue, a half of what the others leave.
 *
 * A transaction that adds runs asks before each (queue_room_ask), so that what is refused costs little, and counts once
 * for all of them. Transactions do not see what others have not committed. So the last thing before the commit is
 * queue_room_hold: one transaction of a requester at a time counts again and commits, and of several at once the second
 * sees the runs of the first. Those of other requesters go on meanwhile, unless more than half of the places are
 * taken. */
#ifndef STORE_QUEUE_ROOM_H
#define STORE_QUEUE_ROOM_H

#include "store/store.h"

enum { QUEUE_ROOM_MOST = 10000 };

/* Of one transaction and requester; begins with those that are lent, and zeros. */
struct queue_room {
    const char *requester; /* "": of who needs no token */
    int64_t queued_most;   /* the bound of --queue-per-token; 0: the share */

    bool counted;
    int64_t all, mine; /* that wait; `all` is counted up to a little more than fit */
    bool others;       /* somebody else waits, or has a token to post runs with */
    int64_t added;
};

/* Whether one more run may come. STATUS_TOO_MANY names the bound and what to do. */
MUST_CHECK enum status queue_room_ask(struct connection *connection, struct queue_room *room, struct error *error);

/* So many were put into the queue. */
void queue_room_add(struct queue_room *room, int64_t count);

/* Whether what was added may stay; nothing happens where nothing was. To be called last in a transaction: it takes
 * locks, which end with it. */
MUST_CHECK enum status queue_room_hold(struct connection *connection, struct queue_room *room, struct error *error);

/* For who adds runs of several requesters and holds the room of each, in the order of their names: before the first. */
MUST_CHECK enum status queue_room_hold_all(struct connection *connection, struct error *error);

#endif
