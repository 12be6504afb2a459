/* lint.h: checks of a request's head before anything else reads it, because the parser of libmicrohttpd 0.9.75 lets
 * much through (docs/http.md). All of them are made before the body is received. */
#ifndef HTTP_LINT_H
#define HTTP_LINT_H

#include "http/problem.h"
#include "http/request.h"

/* The body as the head describes it. */
struct lint_body {
    bool chunked;
    bool present;    /* the body is chunked, or has a length above 0 */
    uint64_t length; /* 0 when chunked */
};

/* Checks method, target and headers: a known method in capitals, a target of visible ASCII that starts with "/" and
 * holds no fragment, header names of token characters, values without control characters, one Host, no second copy of a
 * header that may come once, Content-Length of digits, no Transfer-Encoding but `chunked` and never both. Returns
 * PROBLEM_NONE, or the problem with error->detail filled. */
MUST_CHECK enum problem_id lint_head(const struct request *request, const char *method, const char *target,
                                     const char *version, struct lint_body *body, struct error *error);

/* Host must be one of `hosts` ("localhost:8642", lower case; ends with NULL), or equal `own`, the literal address that
 * the client connected to (NULL: not to be considered). */
MUST_CHECK enum problem_id lint_host(const struct request *request, char *const *hosts, const char *own,
                                     struct error *error);

/* Whether Origin was sent and equals the address in Host, with either scheme (a proxy may end TLS). */
bool lint_own_origin(const struct request *request);

/* Whether a page of another origin may have made the browser send this: it sent a Sec-Fetch-Site other than
 * `same-origin` and `none`, or an Origin that is not Host's own. */
bool lint_other_page(const struct request *request);

/* Refuses writes from other sites (lint_other_page). */
MUST_CHECK enum problem_id lint_origin(const struct request *request, const char *method, struct error *error);

/* A body must be application/json (or application/merge-patch+json) without a content coding. */
MUST_CHECK enum problem_id lint_media_type(const struct request *request, struct error *error);

#endif
