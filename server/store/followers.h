/* followers.h: how far each follower of the change log has read, stored in the transaction that writes the follower's
 * results. */
#ifndef STORE_FOLLOWERS_H
#define STORE_FOLLOWERS_H

#include "store/store.h"

/* The change up to which follower `name` has worked; its row stays locked, so one works at a time. */
MUST_CHECK enum status follower_lock(struct connection *connection, const char *name, int64_t *after,
                                     struct error *error);
MUST_CHECK enum status follower_advance(struct connection *connection, const char *name, int64_t after,
                                        struct error *error);

#endif
