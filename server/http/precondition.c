#include "http/precondition.h"

#include "http/encoding.h"

#include <string.h>

bool precondition_given(const struct exchange *exchange)
{
    return strcmp(exchange->request.method, "GET") != 0 && request_header(&exchange->request, "If-Match") != NULL;
}

/* The GET of the same pattern: it has the same parameters. NULL: there is none. */
static const struct route *reading_route(const struct exchange *exchange)
{
    const struct http_options *options = &exchange->server->options;
    for (size_t i = 0; i < options->route_count; i++)
        if (strcmp(options->routes[i].method, "GET") == 0 &&
            strcmp(options->routes[i].pattern, exchange->route->pattern) == 0)
            return &options->routes[i];
    return NULL;
}

enum problem_id precondition_check(struct exchange *exchange, void *thread, struct error *error)
{
    struct response *response = &exchange->response;
    const char *wanted = request_header(&exchange->request, "If-Match");
    const struct route *route = reading_route(exchange);
    struct http_context context = {exchange->server->options.application, thread, exchange->server};
    struct error ignored;
    char etag[ETAG_SIZE] = "";
    if (route == NULL) {
        (void)error_set(error, STATUS_INVALID,
                        "this address has no entity tag: If-Match is understood where a GET of the same address is");
        return PROBLEM_PRECONDITION;
    }
    response_reset(response);
    enum status status = route->handler(&context, &exchange->request, response, &ignored);
    const bool there = status == STATUS_OK && response->kind == RESPONSE_BYTES;
    if (there) status = encoding_etag(response->bytes, response->length, etag, &ignored);
    response_reset(response);
    if (!there || (status == STATUS_OK && encoding_etag_matches(wanted, etag, false))) return PROBLEM_NONE;
    (void)error_set(error, STATUS_INVALID, "it has changed since: its entity tag is \"%s\" now", etag);
    return PROBLEM_PRECONDITION;
}
