/* places.h: what there is a fixed number of, such as event streams. One client may have half of them at most, so that
 * nobody alone takes the last. Memory is bounded: there are no more clients than places. Any thread. Private to
 * server/http. */
#ifndef HTTP_PLACES_H
#define HTTP_PLACES_H

#include "base/error.h"

struct places;

enum { PLACES_CLIENT = 64 }; /* bytes of a client's name (client_name), with its end */

/* `what`: "event streams", lent, for the errors. The caller owns *out (places_free). STATUS_NO_MEMORY. */
MUST_CHECK enum status places_new(unsigned limit, const char *what, struct places **out, struct error *error);
void places_free(struct places *places); /* NULL is fine */

/* STATUS_TOO_MANY: the client has half of them. STATUS_UNAVAILABLE: all are taken. */
MUST_CHECK enum status places_take(struct places *places, const char *client, struct error *error);
void places_give(struct places *places, const char *client); /* one that it took */

#endif
