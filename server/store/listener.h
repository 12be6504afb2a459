/* listener.h: a thread with its own session that acts whenever the store tells of a change (store_notify), and once a
 * second in any case, because a notification may get lost. */
#ifndef STORE_LISTENER_H
#define STORE_LISTENER_H

#include "postgres/connection.h"

struct listener;

struct listener_options {
    const char *conninfo;    /* a PostgreSQL URL or keyword string; copied */
    const char *application; /* the session's name in PostgreSQL */
    /* Called on the thread. A failure is retried at the next call. A lost session is reopened, and listens again, with
     * the first statement that needs it. */
    void (*turn)(void *context, struct connection *connection);
    void *context; /* lent */
};

/* The caller owns *out. STATUS_NO_MEMORY, STATUS_UNAVAILABLE, or the reason why the thread could not start. */
MUST_CHECK enum status listener_start(const struct listener_options *options, struct listener **out,
                                      struct error *error);

/* Waits until the current turn has ended. NULL: nothing. */
void listener_stop(struct listener *listener);

#endif
