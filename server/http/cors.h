/* cors.h: pages of other origins that may read answers (Fetch Standard, CORS protocol). Off without --allow-origin: no
 * header, and no page of another origin learns anything.
 *
 * What an allowed origin gets, and no more:
 * - A page of another origin is always a stranger: it needs a token, also where the server's own user needs none. Who
 *   sits at the browser did not necessarily ask for what a page does.
 * - Cookies are never asked for (there are none), so Access-Control-Allow-Credentials is never sent.
 * - An origin given by its name may read and write. "*" may read alone.
 * All other origins are treated as without the option. */
#ifndef HTTP_CORS_H
#define HTTP_CORS_H

#include "http/request.h"

/* `origins` (ends with NULL) as options have them: "*" alone, or "SCHEME://HOST[:PORT]" as browsers write it: lower
 * case, without path, user and default port. STATUS_INVALID saying what is wrong. */
MUST_CHECK enum status cors_check(const char *const *origins, struct error *error);

/* The value of Access-Control-Allow-Origin for this request: its own Origin, "*", or NULL when there is none to send:
 * no Origin, the server's own, one that is not allowed, or no `origins` at all (NULL or empty). Lent. */
const char *cors_allowed(const char *const *origins, const struct request *request);

/* Whether it comes from a page of another origin that is named: such a page may write, with a token. */
bool cors_may_write(const char *const *origins, const struct request *request);

struct cors_answer {
    const char *vary;    /* NULL: the option is not given, and nothing is sent */
    const char *allowed; /* Access-Control-Allow-Origin; NULL: none of what follows is sent either */
    const char *exposed; /* Access-Control-Expose-Headers; NULL in a preflight */
    const char *headers; /* of a preflight, else NULL: Access-Control-Allow-Headers, */
    const char *methods; /* Access-Control-Allow-Methods */
    const char *max_age; /* and Access-Control-Max-Age */
};

/* The values of an answer's headers; lent as long as the request and `allow` are, which are the methods of the address
 * ("GET, HEAD, OPTIONS"), NULL where they are not known. */
struct cors_answer cors_answer(const char *const *origins, const struct request *request, const char *allow);

#endif
