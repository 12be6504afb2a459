/* listener.h: a thread with a session of its own that does something whenever the store tells of a change
 * (store_notify), and once a second in any case: a notification is only a hint that may get lost. */
#ifndef STORE_LISTENER_H
#define STORE_LISTENER_H

#include "postgres/connection.h"

struct listener;

struct listener_options {
    const char *conninfo;    /* a PostgreSQL URL or keyword string; copied */
    const char *application; /* the session's name in PostgreSQL */
    /* Called on the thread. What fails in it is tried again at the next call; a lost session is opened anew, and then
     * listens again, by the first statement that needs it. */
    void (*turn)(void *context, struct connection *connection);
    void *context; /* lent */
};

/* The caller owns *out. STATUS_NO_MEMORY, STATUS_UNAVAILABLE, or why there is no thread. */
MUST_CHECK enum status listener_start(const struct listener_options *options, struct listener **out,
                                      struct error *error);

/* Waits for the turn that is under way. NULL: nothing. */
void listener_stop(struct listener *listener);

#endif
