/* notifier.h: a thread that the database notifies of changes. It gives the changes their ids, and wakes waiting
 * requests and event streams. Once an hour it removes expired rows. */
#ifndef RESOURCES_NOTIFIER_H
#define RESOURCES_NOTIFIER_H

#include "base/error.h"

#include <stdint.h>

struct http_server;
struct notifier;

struct notifier_options {
    const char *conninfo;       /* copied */
    struct http_server *server; /* lent until notifier_stop; call that before http_server_stop */
    int64_t keep_event_days;    /* of the change log */
};

/* The caller owns *out. */
MUST_CHECK enum status notifier_start(const struct notifier_options *options, struct notifier **out,
                                      struct error *error);
void notifier_stop(struct notifier *notifier); /* NULL is fine */

#endif
