/* precondition.h: If-Match on requests that change something. Private to server/http. */
#ifndef HTTP_PRECONDITION_H
#define HTTP_PRECONDITION_H

#include "http/exchange.h"

/* Whether the request makes a condition of what it changes. */
bool precondition_given(const struct exchange *exchange);

/* Compares If-Match with the entity tag that a GET of the same address has now. *holds is true also when there is no
 * such thing, which the handler says; when it is false, `error` says why. Any other status is the GET's: whether the
 * condition holds is not known then. Two conditional requests at once must not overlap from here to the end of the
 * handler: the caller holds a lock. */
MUST_CHECK enum status precondition_check(struct exchange *exchange, void *thread, bool *holds, struct error *error);

#endif
