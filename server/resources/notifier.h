/* notifier.h: one thread that hears from the database that something changed, and wakes waiting requests and event
 * streams. */
#ifndef RESOURCES_NOTIFIER_H
#define RESOURCES_NOTIFIER_H

#include "base/error.h"

struct http_server;
struct notifier;

/* `server` is lent until notifier_stop; call that before http_server_stop. The caller owns *out. */
MUST_CHECK enum status notifier_start(const char *conninfo, struct http_server *server, struct notifier **out,
                                      struct error *error);
void notifier_stop(struct notifier *notifier); /* NULL is fine */

#endif
