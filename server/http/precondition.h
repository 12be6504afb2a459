/* precondition.h: If-Match on requests that change something. Private to server/http. */
#ifndef HTTP_PRECONDITION_H
#define HTTP_PRECONDITION_H

#include "http/exchange.h"

/* Whether the request makes a condition of what it changes. */
bool precondition_given(const struct exchange *exchange);

/* Compares If-Match with the entity tag that a GET of the same address has now. PROBLEM_NONE: it holds, or there is no
 * such thing, and the handler says so. Two conditional requests at once must not overlap from here to the end of the
 * handler: the caller holds a lock. */
enum problem_id precondition_check(struct exchange *exchange, void *thread, struct error *error);

#endif
