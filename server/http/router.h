/* router.h: the rows of a route table, and how the row of a request is found. The product's rows stand in
 * resources/handlers.h. */
#ifndef HTTP_ROUTER_H
#define HTTP_ROUTER_H

#include "http/request.h"
#include "http/response.h"

struct http_server;

/* The arguments of a handler beside the request. */
struct http_context {
    void *application;          /* http_options.application */
    void *thread;               /* what thread_open made for this handler thread; NULL for a ROUTE_INLINE route */
    struct http_server *server; /* for http_server_wake, http_server_metrics */
};

/* Runs on a handler thread and may block on the database for a few seconds, never longer. */
typedef enum status http_handler(struct http_context *context, const struct request *request, struct response *response,
                                 struct error *error);

/* A body is JSON, with Content-Type application/json. */
enum route_body { ROUTE_BODY_NONE, ROUTE_BODY_OPTIONAL, ROUTE_BODY_REQUIRED };

enum {
    /* The handler runs on a network thread, so it must not block or compute (healthz, metrics); its scope is
     * SCOPE_NONE. */
    ROUTE_INLINE = 1,
    /* Answered on the listener for probes too, and on handler threads of their own: one of that listener, one of the
     * other fronts. */
    ROUTE_PROBE = 2,
    /* The handler computes, so it runs on handler threads of its own and other requests need not wait. */
    ROUTE_WORK = 4,
};

/* The most bytes of a body, without and with its large member. */
enum { HTTP_BODY_LIMIT = 1 << 20, HTTP_BODY_LIMIT_LARGE = 16 << 20 };

struct route {
    const char *method;  /* "GET" (HEAD and OPTIONS follow from the table), "POST", "PATCH", "PUT", "DELETE" */
    const char *pattern; /* "/v1/runs/{id}/events": literal segments win over {parameters} */
    http_handler *handler;
    enum scope scope;
    enum route_body body;
    const char *large; /* the member of the body that becomes request.large; NULL: none */
    unsigned flags;
    /* the allowed query fields (ends with NULL), others are refused; NULL: the handler checks them */
    const char *const *query;
};

enum route_match { ROUTE_FOUND, ROUTE_UNKNOWN, ROUTE_METHOD };

/* Splits request->path, decodes each segment once and finds the row for request->method; parameters go into the
 * request. ROUTE_FOUND: *row is the row. ROUTE_METHOD: the path exists with other methods; `allow` gets them ("GET,
 * HEAD, OPTIONS"). STATUS_MALFORMED for bad escapes and control characters, STATUS_NO_MEMORY. */
MUST_CHECK enum status router_find(const struct route *routes, size_t count, struct request *request,
                                   enum route_match *match, const struct route **row, char *allow, size_t allow_size,
                                   struct error *error);

/* Decodes `text` ("a=1&b=%20x+y") into request->query. STATUS_MALFORMED, STATUS_TOO_LARGE (more than
 * REQUEST_QUERY_MAX). */
MUST_CHECK enum status router_query(struct request *request, const char *text, struct error *error);

/* Decodes %XX in place (and "+" as a space when `plus`). STATUS_MALFORMED: bad escape, %00, a control character,
 * invalid UTF-8. */
MUST_CHECK enum status router_unescape(char *text, bool plus, struct error *error);

#endif
