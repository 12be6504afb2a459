/* precondition.h: If-Match on requests that change something. Private to server/http. */
#ifndef HTTP_PRECONDITION_H
#define HTTP_PRECONDITION_H

#include "http/exchange.h"

/* Whether the request has an If-Match. */
bool precondition_given(const struct exchange *exchange);

enum precondition { PRECONDITION_HOLDS, PRECONDITION_FAILED, PRECONDITION_BUSY };

/* Compares If-Match with the entity tag that a GET of the same address has now. HOLDS also when there is no such thing,
 * which the handler says; FAILED: `error` says why. Any other status is the GET's: whether the condition holds is not
 * known then.
 *
 * Two conditional changes of one thing must not overlap from here to the end of the handler, so HOLDS has its lock,
 * until precondition_end; BUSY: another request has it. The lock is that of the entity tag, and the tag is compared
 * once more under it: whoever names the same tag means the same state of the same thing, by whatever address and
 * server, and changes of different things do not wait for each other.
 *
 * "*" holds for whatever is there. The handler finds out whether something is, so there is nothing to compare, and no
 * lock: "*" names no state. */
MUST_CHECK enum status precondition_begin(struct exchange *exchange, void *thread, enum precondition *out,
                                          struct error *error);
void precondition_end(struct exchange *exchange, void *thread);

#endif
