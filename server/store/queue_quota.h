/* queue_quota.h: how many runs may wait: for all together, and of one requester, so that nobody fills the queue for
 * all. Without another bound a requester who is not alone may have as many waiting runs as the queue can still take: a
 * half of an empty queue, a half of what the others leave.
 *
 * A transaction that adds runs asks before each (queue_quota_ask), so that what is refused costs little, and counts
 * once for all of them. Transactions do not see what others have not committed. So the last thing before the commit is
 * queue_quota_hold: one transaction of a requester at a time counts again and commits, and of several at once the
 * second sees the runs of the first. Those of other requesters go on meanwhile, unless the queue is more than half
 * full. */
#ifndef STORE_QUEUE_QUOTA_H
#define STORE_QUEUE_QUOTA_H

#include "store/store.h"

enum { QUEUE_QUOTA_MOST = 10000 };

/* The state of one transaction and requester. Set the lent members and leave the rest zero. */
struct queue_quota {
    const char *requester; /* "": requests that need no token */
    int64_t queued_most;   /* the bound of --queue-per-token; 0: a fair share */

    bool counted;
    int64_t all, mine; /* waiting runs; `all` is counted only to a little above the bound */
    bool others;       /* another requester has waiting runs, or a token that may post runs */
    int64_t added;
};

/* STATUS_OK when one more run may be added. STATUS_TOO_MANY names the bound and what to do. */
MUST_CHECK enum status queue_quota_ask(struct connection *connection, struct queue_quota *quota, struct error *error);

/* Counts runs that the transaction has added. */
void queue_quota_add(struct queue_quota *quota, int64_t count);

/* STATUS_OK when the added runs may stay; does nothing when none were added. Call it last in a transaction: it takes
 * locks that are held until the commit. */
MUST_CHECK enum status queue_quota_hold(struct connection *connection, struct queue_quota *quota, struct error *error);

/* Takes the lock of all requesters. A transaction that adds runs of several requesters calls it before
 * queue_quota_hold, which it then calls for each requester in the order of their names. */
MUST_CHECK enum status queue_quota_hold_all(struct connection *connection, struct error *error);

#endif
