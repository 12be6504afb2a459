/* request_body.h: from the bytes of a body to what the handler reads: request.body (a JSON tree) and request.large (the
 * text of the member that the route names). Private to server/http. */
#ifndef HTTP_REQUEST_BODY_H
#define HTTP_REQUEST_BODY_H

#include "http/exchange.h"

/* Parses exchange->body. *wait: the memory for it belongs to others just now and nothing was done; try again.
 * STATUS_MALFORMED, STATUS_TOO_LARGE (it would take more memory than all bodies may), STATUS_IO, STATUS_NO_MEMORY. */
MUST_CHECK enum status request_body_parse(struct exchange *exchange, bool *wait, struct error *error);

/* Frees what request_body_parse made, and gives the memory back. The request has no body from then on. */
void request_body_drop(struct exchange *exchange);

#endif
