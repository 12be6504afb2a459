/* idempotent.h: the Idempotency-Key of a POST, between the hooks of the store and the handler. Private to
 * server/http. */
#ifndef HTTP_IDEMPOTENT_H
#define HTTP_IDEMPOTENT_H

#include "http/exchange.h"

enum idempotent_step { IDEMPOTENT_RUN, IDEMPOTENT_ANSWERED, IDEMPOTENT_PARK };

/* Looks the key up. RUN: call the handler (there is no key, or it is reserved now). ANSWERED: the response is set
 * (replayed, or a problem). PARK: another request with the key is running; exchange->retry_ms says when to look
 * again. */
enum idempotent_step idempotent_begin(struct exchange *exchange, void *thread);

/* Keeps the response of a success, unless its handler has (response_recorded); forgets the reservation of a failure.
 * Without a reservation it does nothing. */
void idempotent_finish(struct exchange *exchange, void *thread, bool success);

#endif
