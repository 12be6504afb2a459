/* cors.h: answers for pages of other origins (Fetch Standard, CORS protocol). Without --allow-origin no header is sent,
 * and such a page can read nothing. The rights of an allowed origin:
 * - A page of another origin always needs a token, also where the server's own user needs none, because the user of a
 * browser may not have asked for what a page does.
 * - Access-Control-Allow-Credentials is never sent, because the server has no cookies.
 * - An origin that is given by its name may read and write; "*" may only read. Other origins are treated as without the
 * option. */
#ifndef HTTP_CORS_H
#define HTTP_CORS_H

#include "http/request.h"

/* Checks `origins` (ends with NULL): "*" alone, or "SCHEME://HOST[:PORT]" as browsers write it: lower case, without
 * path, user and default port. STATUS_INVALID says what is wrong. */
MUST_CHECK enum status cors_check(const char *const *origins, struct error *error);

/* The value of Access-Control-Allow-Origin for this request: its own Origin or "*". NULL when the header is not sent:
 * the request has no Origin, or the server's own, or one that is not allowed, or `origins` is NULL or empty. Lent. */
const char *cors_allowed(const char *const *origins, const struct request *request);

/* Whether the request comes from a page of a named other origin, which may write with a token. */
bool cors_may_write(const char *const *origins, const struct request *request);

struct cors_answer {
    const char *vary;    /* NULL: the option is not given, and no header is sent */
    const char *allowed; /* Access-Control-Allow-Origin; NULL: the headers below are not sent either */
    const char *exposed; /* Access-Control-Expose-Headers; NULL in a preflight */
    const char *headers; /* Access-Control-Allow-Headers; NULL unless the request is a preflight, as the two below */
    const char *methods; /* Access-Control-Allow-Methods */
    const char *max_age; /* Access-Control-Max-Age */
};

/* The values of an answer's headers, lent as long as the request and `allow`: the methods of the address ("GET, HEAD,
 * OPTIONS"), NULL when they are not known. */
struct cors_answer cors_answer(const char *const *origins, const struct request *request, const char *allow);

#endif
