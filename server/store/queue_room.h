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

/* The state of one transaction and requester. Set the lent members and leave the rest zero. */
struct queue_room {
    const char *requester; /* "": requests that need no token */
    int64_t queued_most;   /* the bound of --queue-per-token; 0: a fair share */

    bool counted;
    int64_t all, mine; /* waiting runs; `all` is counted only to a little above the bound */
    bool others;       /* another requester has waiting runs, or a token that may post runs */
    int64_t added;
};

/* STATUS_OK when one more run may be added. STATUS_TOO_MANY names the bound and what to do. */
MUST_CHECK enum status queue_room_ask(struct connection *connection, struct queue_room *room, struct error *error);

/* Counts runs that the transaction has added. */
void queue_room_add(struct queue_room *room, int64_t count);

/* STATUS_OK when the added runs may stay; does nothing when none were added. Call it last in a transaction: it takes
 * locks that are held until the commit. */
MUST_CHECK enum status queue_room_hold(struct connection *connection, struct queue_room *room, struct error *error);

/* Takes the lock of all requesters. A transaction that adds runs of several requesters calls it before queue_room_hold,
 * which it then calls for each requester in the order of their names. */
MUST_CHECK enum status queue_room_hold_all(struct connection *connection, struct error *error);

#endif
