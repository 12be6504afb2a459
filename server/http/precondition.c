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

/* Reads the tag and compares it. */
static enum status compare(struct exchange *exchange, const struct route *route, void *thread, char etag[ETAG_SIZE],
                           enum precondition *out, struct error *error)
{
    const char *wanted = request_header(&exchange->request, "If-Match");
    const enum status status = read_etag(exchange, route, thread, etag, error);
    if (status != STATUS_OK) return status;
    *out = etag[0] == '\0' || encoding_etag_matches(wanted, etag, false) ? PRECONDITION_HOLDS : PRECONDITION_FAILED;
    if (*out == PRECONDITION_FAILED)
        (void)error_set(error, STATUS_INVALID, "it has changed since: its entity tag is \"%s\" now", etag);
    return STATUS_OK;
}

/* Whether what the request changes is a resource of its own, with or without a GET. A POST to an address that has no
 * GET is an action. */
static bool names_resource(const struct exchange *exchange)
{
    return strcmp(exchange->request.method, "POST") != 0;
}

enum status precondition_begin(struct exchange *exchange, void *thread, enum precondition *out, struct error *error)
{
    const struct condition_hooks *hooks = exchange->server->options.conditions;
    const struct route *route = reading_route(exchange);
    char etag[ETAG_SIZE];
    bool held;
    const bool any = encoding_etag_any(request_header(&exchange->request, "If-Match"));
    *out = PRECONDITION_HOLDS;
    if (any && (route != NULL || names_resource(exchange))) return STATUS_OK;
    *out = PRECONDITION_FAILED;
    if (route == NULL) {
        (void)error_set(error, STATUS_INVALID,
                        "this address has no entity tag: If-Match is understood where a GET of the same address is");
        return STATUS_OK;
    }
    enum status status = compare(exchange, route, thread, etag, out, error);
    if (status != STATUS_OK || *out != PRECONDITION_HOLDS || etag[0] == '\0' || hooks == NULL) return status;
    if ((status = hooks->hold(thread, etag, &held, error)) != STATUS_OK) return status;
    if (!held) {
        *out = PRECONDITION_BUSY;
        return STATUS_OK;
    }
    memcpy(exchange->condition, etag, sizeof exchange->condition);
    status = compare(exchange, route, thread, etag, out, error);
    if (status == STATUS_OK && *out == PRECONDITION_HOLDS && strcmp(etag, exchange->condition) == 0) return STATUS_OK;
    precondition_end(exchange, thread);
    if (status == STATUS_OK && *out == PRECONDITION_HOLDS && etag[0] != '\0')
        *out = PRECONDITION_BUSY; /* it is in another of the states that the client names: look again */
    return status;
}

void precondition_end(struct exchange *exchange, void *thread)
{
    if (exchange->condition[0] == '\0') return;
    exchange->server->options.conditions->let_go(thread, exchange->condition);
    exchange->condition[0] = '\0';
}
