#include "http/precondition.h"

#include "http/encoding.h"

#include <string.h>

bool precondition_given(const struct exchange *exchange)
{
    return strcmp(exchange->request.method, "GET") != 0 && request_header(&exchange->request, "If-Match") != NULL;
}

/* The GET route of the same pattern, which has the same parameters. NULL: there is none. */
static const struct route *reading_route(const struct exchange *exchange)
{
    const struct http_options *options = &exchange->server->options;
    for (size_t i = 0; i < options->route_count; i++)
        if (strcmp(options->routes[i].method, "GET") == 0 &&
            strcmp(options->routes[i].pattern, exchange->route->pattern) == 0)
            return &options->routes[i];
    return NULL;
}

/* The entity tag that a GET would send now; "" when the resource does not exist. */
static enum status read_etag(struct exchange *exchange, const struct route *route, void *thread, char etag[ETAG_SIZE],
                             struct error *error)
{
    struct response *response = &exchange->response;
    struct http_context context = {exchange->server->options.application, thread, exchange->server};
    etag[0] = '\0';
    response_reset(response);
    enum status status = route->handler(&context, &exchange->request, response, error);
    if (status == STATUS_OK && response->kind != RESPONSE_BYTES)
        status = error_set(error, STATUS_INTERNAL, "the GET of this address has no entity tag");
    else if (status == STATUS_OK)
        status = encoding_etag(response->bytes, response->length, etag, error);
    response_reset(response);
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

enum status precondition_check(struct exchange *exchange, void *thread, bool *holds, struct error *error)
{
    const char *wanted = request_header(&exchange->request, "If-Match");
    const struct route *route = reading_route(exchange);
    char etag[ETAG_SIZE];
    *holds = false;
    if (route == NULL) {
        (void)error_set(error, STATUS_INVALID,
                        "this address has no entity tag: If-Match is understood where a GET of the same address is");
        return STATUS_OK;
    }
    const enum status status = read_etag(exchange, route, thread, etag, error);
    if (status != STATUS_OK) return status;
    *holds = etag[0] == '\0' || encoding_etag_matches(wanted, etag, false);
    if (!*holds) (void)error_set(error, STATUS_INVALID, "it has changed since: its entity tag is \"%s\" now", etag);
    return STATUS_OK;
}
