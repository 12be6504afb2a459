/* conditions.h: locks of conditional changes (If-Match), held by a session from the check to the end of the change. All
 * servers of the database share them. */
#ifndef STORE_CONDITIONS_H
#define STORE_CONDITIONS_H

#include "store/store.h"

/* Takes the lock of what has the entity tag `tag`, without waiting. *held: it is this session's now, once more if it
 * was already; condition_let_go once for each. It ends with the session, too. */
MUST_CHECK enum status condition_hold(struct connection *connection, const char *tag, bool *held, struct error *error);
MUST_CHECK enum status condition_let_go(struct connection *connection, const char *tag, struct error *error);

#endif
