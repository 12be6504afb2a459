/* precondition.h: If-Match on requests that change something. Private to server/http. */
#ifndef HTTP_PRECONDITION_H
#define HTTP_PRECONDITION_H

#include "http/exchange.h"

/* Whether the request has an If-Match. */
bool precondition_given(const struct exchange *exchange);

/* Compares If-Match with the entity tag of a GET of the same address. *holds is also true when the resource does not
 * exist, which the handler reports. When *holds is false, `error` says why. Any other status comes from the GET, and
 * the condition is not known then. The caller holds a lock from this call to the end of the handler, so that two
 * conditional requests do not overlap. */
MUST_CHECK enum status precondition_check(struct exchange *exchange, void *thread, bool *holds, struct error *error);

#endif
