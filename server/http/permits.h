/* permits.h: what there is a fixed number of, such as event streams. One client may have half of them at most, so that
 * nobody alone takes the last. Memory is bounded: there are no more clients than permits. Any thread. Private to
 * server/http. */
#ifndef HTTP_PERMITS_H
#define HTTP_PERMITS_H

#include "base/error.h"

struct permits;

enum { PERMITS_CLIENT = 64 }; /* bytes of a client's name (client_name), with its end */

/* `what`: "event streams", lent, for the errors. The caller owns *out (permits_free). STATUS_NO_MEMORY. */
MUST_CHECK enum status permits_new(unsigned limit, const char *what, struct permits **out, struct error *error);
void permits_free(struct permits *permits); /* NULL is fine */

/* STATUS_TOO_MANY: the client has half of them. STATUS_UNAVAILABLE: all are taken. */
MUST_CHECK enum status permits_take(struct permits *permits, const char *client, struct error *error);
void permits_give(struct permits *permits, const char *client); /* one that it took */

#endif
