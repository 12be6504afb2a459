/* idempotent.h: the Idempotency-Key of a POST, between the hooks of the store and the handler. Private to
 * server/http. */
#ifndef HTTP_IDEMPOTENT_H
#define HTTP_IDEMPOTENT_H

#include "http/exchange.h"

enum idempotent_step { IDEMPOTENT_RUN, IDEMPOTENT_ANSWERED, IDEMPOTENT_PARK };

/* Looks the key up. RUN: call the handler (there is no key, or it is now reserved). ANSWERED: the response is set (an
 * earlier one, or a problem). PARK: another request with the key is running; exchange->retry_ms says when to look
 * again. */
enum idempotent_step idempotent_begin(struct exchange *exchange, void *thread);

/* Stores the response of a success, unless its handler has done so (response_recorded), and deletes the reservation of
 * a failure. Does nothing without a reservation. */
void idempotent_finish(struct exchange *exchange, void *thread, bool success);

#endif
