/* request_body.h: turns the bytes of a body into request.body (a JSON tree) and request.large (the text of the member
 * that the route names). Private to server/http. */
#ifndef HTTP_REQUEST_BODY_H
#define HTTP_REQUEST_BODY_H

#include "http/exchange.h"

/* Parses exchange->body. *wait: its memory is in use by other requests and nothing was done; try again.
 * STATUS_MALFORMED, STATUS_TOO_LARGE (it would take more memory than all bodies may), STATUS_IO, STATUS_NO_MEMORY. */
MUST_CHECK enum status request_body_parse(struct exchange *exchange, bool *wait, struct error *error);

/* Frees the results of request_body_parse and returns their memory to the budget. The request then has no body. */
void request_body_drop(struct exchange *exchange);

#endif
