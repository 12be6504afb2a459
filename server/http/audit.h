/* audit.h: a line of the log, component "audit", for each request that changes something, whatever came of it, and for
 * each that was refused for want of a token, for a wrong one or for one that may not do this. It says who (a token's
 * name and id, the local user, nobody), from where, what (method, route, path, object), the status and the request's
 * id; never a token, a query or a body. Private to server/http.
 *
 * Lines of changes are never dropped: the answer waits for them. A repeated request that is answered from its
 * Idempotency-Key changes nothing and has none. Of refusals an address gets AUDIT_REFUSALS a second (rate_limit.h) and
 * the next line says how many were left out, so that guessing does not fill a disk. Who asks too often (429 by
 * --token-rate or --address-rate) gets a line in AUDIT_RATE_SECONDS; all of them are counted in /metrics. */
#ifndef HTTP_AUDIT_H
#define HTTP_AUDIT_H

#include "http/exchange.h"

enum { AUDIT_REFUSALS = 1, AUDIT_RATE_SECONDS = 60, AUDIT_KEY = 16 };

/* Call it on a handler thread when the answer is decided, before it is prepared. */
void audit_answer(struct exchange *exchange);

/* On a network thread: a client asks too often. `key` is its bucket's; `token`: that of a token known to be right,
 * whose id stands in the principal; else of an address. Never waits. */
void audit_rate(struct exchange *exchange, bool token, const unsigned char key[AUDIT_KEY]);

#endif
