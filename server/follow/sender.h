/* sender.h: threads that deliver changes to webhooks. Each leases one webhook for its next change, so that a webhook
 * gets them in order, from one server at a time, and a slow one holds up no more than one thread. Those whose
 * last try failed have one thread together, and the other webhooks that one and another. A change is done with when it
 * was taken; a server that is killed between the two delivers it again, under the same id. */
#ifndef FOLLOW_SENDER_H
#define FOLLOW_SENDER_H

#include "base/error.h"

struct sender;

/* `conninfo` is copied. The caller owns *out (sender_stop). */
MUST_CHECK enum status sender_start(const char *conninfo, bool allow_private, struct sender **out, struct error *error);
void sender_stop(struct sender *sender); /* NULL is fine; a delivery under way is broken off and made again later */

#endif
