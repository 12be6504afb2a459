/* request.h: a request as a handler sees it. Before the handler runs, the framework has linted the request, checked
 * Host, Origin, size, media type and token, and parsed the body. Everything that a request lends is valid until the
 * handler's answer is sent; `body` and `large` only until the handler has returned, other than with response_wait or
 * response_to_work. */
#ifndef HTTP_REQUEST_H
#define HTTP_REQUEST_H

#include "base/error.h"
#include "base/monitor.h"
#include "files/json_reader.h"

#include <jansson.h>
#include <stdint.h>

/* Each scope includes those before it. SCOPE_NONE: no token is needed. */
enum scope { SCOPE_NONE, SCOPE_READ, SCOPE_WRITE, SCOPE_ADMIN };

/* The sender of a request, as `authorize` found it. */
struct principal {
    char name[64];   /* token id; "" when no token was needed */
    char label[208]; /* the token's name; "": none */
    enum scope scope;
    bool local; /* set before `authorize`: the client is our own user or root on this machine, or all users of it are
                 * trusted */
};

struct name_value {
    const char *name, *value;
};

enum { REQUEST_HEADERS_MAX = 100, REQUEST_PARAMETERS_MAX = 4, REQUEST_QUERY_MAX = 64, REQUEST_LISTS = 4 };

struct request {
    const char *method; /* "GET", "POST", "PATCH", "PUT", "DELETE"; a HEAD request arrives as "GET" */
    const char *path;   /* as sent (escaped, without the query): for `instance` and logs, never for file names */
    json_t *body;       /* lent; NULL: there was none. Any JSON value: check json_is_object */
    /* The text of the body's member route.large, which is null in `body`; lent, its grammar is checked and its strings
     * may hold \u0000. Size 0: it is absent or null. */
    struct json_reader_text large;
    const char *last_event_id; /* of a reconnecting event stream; NULL: none */
    struct principal principal;
    /* For handlers that compute: its check returns STATUS_CANCELLED when the client has left, and STATUS_TOO_LARGE when
     * the work has taken longer than a request may (http_limits.work_milliseconds). Call it at least once a second. */
    const struct monitor *monitor;
    const struct monitor *presence; /* the same without that limit: for bytes that come from other servers */
    bool head;                      /* the request was a HEAD: only the headers of the answer are sent */
    bool working;   /* the handler runs on a thread for computing; otherwise it may ask for one (response_to_work) */
    bool wait_over; /* the deadline of an earlier response_wait has passed, or the server stops: answer now */
    char remembered[64]; /* the memo that the handler left with response_remember before it waited; "" at first */
    char id[17];         /* request id, also sent as X-Request-Id */

    /* used by the framework and the functions below */
    struct name_value headers[REQUEST_HEADERS_MAX];
    struct name_value parameters[REQUEST_PARAMETERS_MAX];
    struct name_value query[REQUEST_QUERY_MAX];
    size_t header_count, parameter_count, query_count;
    char *target_text, *query_text; /* own the decoded path segments and query */
    char *lists[REQUEST_LISTS];     /* owned: values of headers that came in several lines */
};

/* Adds a header, whose texts are lent. The lines of a header that is a list (Accept, Accept-Encoding, If-Match,
 * If-None-Match) become one value (RFC 9110, 5.3). Where there is no memory for that a line has no effect: then no
 * condition holds that should not. False: there are REQUEST_HEADERS_MAX already. */
MUST_CHECK bool request_add_header(struct request *request, const char *name, const char *value);

/* Frees what the request owns. */
void request_reset(struct request *request);

/* The decoded path segment in place of {name} in the route's pattern; never NULL for a name of the pattern. It may
 * contain any character except control characters ("/" was sent as %2F). */
const char *request_parameter(const struct request *request, const char *name);

/* The first value of query key `name`; NULL when absent. */
const char *request_query(const struct request *request, const char *name);

/* Value number `index` (from 0) of a repeated key; NULL past the last. */
const char *request_query_at(const struct request *request, const char *name, size_t index);

/* STATUS_INVALID with the query field's pointer ("/limit"). */
MUST_CHECK enum status request_query_fault(struct error *error, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Behind a name in the list of a route: the query field may come several times. */
#define REQUEST_QUERY_REPEATS "+"

/* Refuses query keys that are not in `names` (ends with NULL), and those that come twice and may not, naming the key.
 * STATUS_INVALID. */
MUST_CHECK enum status request_query_allow(const struct request *request, const char *const *names,
                                           struct error *error);

/* The whole number under `name` into *out, `fallback` when absent. STATUS_INVALID unless minimum <= value <=
 * maximum. */
MUST_CHECK enum status request_query_integer(const struct request *request, const char *name, int64_t fallback,
                                             int64_t minimum, int64_t maximum, int64_t *out, struct error *error);

/* Whether the body of an answer with this entity tag will be sent. It is not for HEAD, nor when the client has it
 * already. */
bool request_wants_body(const struct request *request, const char *etag);

/* First value of a header, its name in any case; NULL when absent. */
const char *request_header(const struct request *request, const char *name);

/* The seconds of `Prefer: wait=` (RFC 7240), at most `most`. 0 when the preference is missing or is no number: a
 * preference is never refused. */
int64_t request_preferred_wait(const struct request *request, int64_t most);

/* The index of the type that the Accept header prefers among `types` ("application/json", "text/csv"; ends with NULL):
 * the earlier one on ties, 0 without the header, -1 when none is acceptable (the resource then answers 406 or the first
 * type). */
int request_prefer(const struct request *request, const char *const *types);

#endif
