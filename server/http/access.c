/* access.c: a request from its head to its answer, as libmicrohttpd calls for it. */
#include "http/connection.h"

#include "base/clock.h"
#include "http/accept.h"
#include "http/access_log.h"
#include "http/client.h"
#include "http/cors.h"
#include "http/handler_pool.h"
#include "http/head_guard.h"
#include "http/listen.h"
#include "http/metrics.h"
#include "http/reaper.h"
#include "http/static_files.h"

#include <gnutls/gnutls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

/* The rest of a small refused body is read, so that its connection can be used again. */
enum { SWALLOW_MAX = 64 << 10, SWALLOW_MILLISECONDS = 2000 };

/* Gives the prepared answer to libmicrohttpd. */
static enum MHD_Result queue_answer(struct exchange *exchange)
{
    struct http_server *server = exchange->server;
    const int64_t spent = clock_milliseconds() - exchange->started_ms;
    exchange->stage = EXCHANGE_ANSWERED;
    if (exchange->answer == NULL) return MHD_NO;
    const bool stream = exchange->response.kind == RESPONSE_STREAM;
    const int64_t grace = server->options.limits.write_milliseconds + exchange->answer_bytes / 65536 * 1000;
    reaper_deadline(server->reaper, exchange->entry, stream ? -1 : grace);
    if (exchange->close) reaper_lingers(server->reaper, exchange->entry);
    metrics_count(server->metrics, exchange->metric, exchange->http_status, spent);
    if (server->options.access_log)
        access_log_write(exchange->request.id, exchange->method, exchange->target, exchange->http_status,
                         exchange->answer_bytes, spent);
    return MHD_queue_response(exchange->connection, (unsigned)exchange->http_status, exchange->answer);
}

static bool may_swallow(const struct exchange *exchange, const struct lint_body *body)
{
    return body->present && !body->chunked && body->length <= SWALLOW_MAX &&
           request_header(&exchange->request, "Expect") == NULL;
}

/* Gives the prepared refusal at once, or after reading the rest of a small body. Who does not send that is given no
 * more time than who does not send a head. */
static enum MHD_Result give_refusal(struct exchange *exchange)
{
    struct reaper *reaper = exchange->server->reaper;
    if (exchange->close || !exchange->swallow) return queue_answer(exchange);
    exchange->refused = true;
    exchange->stage = EXCHANGE_BODY;
    reaper_waits(reaper, exchange->entry, true);
    reaper_deadline(reaper, exchange->entry, SWALLOW_MILLISECONDS);
    return MHD_YES;
}

static enum MHD_Result refuse(struct exchange *exchange, const struct lint_body *body, const struct problem *problem,
                              const struct error *error)
{
    answer_problem(exchange, problem, error);
    exchange->swallow = may_swallow(exchange, body);
    if (body->present && !exchange->swallow) exchange->close = true;
    answer_prepare(exchange);
    return give_refusal(exchange);
}

static enum MHD_Result refuse_row(struct exchange *exchange, const struct lint_body *body, enum problem_id id,
                                  const struct error *error)
{
    const struct problem problem = problem_row(id);
    return refuse(exchange, body, &problem, error);
}

struct header_walk {
    struct exchange *exchange;
    bool too_many, broken;
};

static enum MHD_Result header_add(void *closure, enum MHD_ValueKind kind, const char *name, size_t name_length,
                                  const char *value, size_t value_length)
{
    struct header_walk *walk = closure;
    struct request *request = &walk->exchange->request;
    (void)kind;
    if (value == NULL) value = "";
    if (strlen(name) != name_length || strlen(value) != value_length) walk->broken = true; /* a NUL inside */
    walk->too_many = !request_add_header(request, name, value);
    return walk->too_many ? MHD_NO : MHD_YES;
}

static void request_id_make(char out[17])
{
    uint64_t number = 0;
    const ssize_t got = getrandom(&number, sizeof number, GRND_NONBLOCK);
    if (got != (ssize_t)sizeof number) number = (uint64_t)clock_milliseconds();
    (void)snprintf(out, 17, "%016llx", (unsigned long long)number);
}

/* Cuts the target at its "?" and fills in what handlers see. */
static void request_fill(struct exchange *exchange, const char *method)
{
    struct request *request = &exchange->request;
    static const char *const names[] = {"GET", "GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"};
    static const char *const sent[] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"};
    char *mark = strchr(exchange->target, '?');
    exchange->query = mark != NULL ? mark + 1 : "";
    if (mark != NULL) *mark = '\0';
    request->path = exchange->target;
    request->method = "";
    exchange->method = method;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(method, sent[i]) == 0) request->method = names[i];
    request->head = strcmp(method, "HEAD") == 0;
    request->last_event_id = request_header(request, "Last-Event-ID");
}

/* What the guard has against the request so far. PROBLEM_NONE: nothing. */
static enum problem_id check_bytes(struct exchange *exchange, struct error *error)
{
    const char *fault = head_guard_fault(exchange->guard, exchange->number);
    if (fault == NULL) return PROBLEM_NONE;
    exchange->close = true;
    (void)error_set(error, STATUS_MALFORMED, "%s", fault);
    return PROBLEM_BAD_REQUEST;
}

/* Makes the checks that need no route. Returns PROBLEM_NONE, or what is wrong. */
static enum problem_id check_head(struct exchange *exchange, const char *method, const char *version,
                                  struct lint_body *body, struct error *error)
{
    const struct front *front = exchange->front;
    struct header_walk walk = {.exchange = exchange};
    enum problem_id problem;
    char own[128];
    if ((problem = check_bytes(exchange, error)) != PROBLEM_NONE) return problem;
    (void)MHD_get_connection_values_n(exchange->connection, MHD_HEADER_KIND, header_add, &walk);
    if (walk.too_many) {
        (void)error_set(error, STATUS_MALFORMED, "more than %d headers", REQUEST_HEADERS_MAX);
        return PROBLEM_TOO_MANY_HEADERS;
    }
    if (walk.broken) {
        (void)error_set(error, STATUS_MALFORMED, "a header holds a NUL");
        return PROBLEM_BAD_REQUEST;
    }
    if ((problem = lint_head(&exchange->request, method, exchange->target, version, body, error)) != PROBLEM_NONE)
        return problem;
    const bool local =
        front->wildcard && listen_local_name(connection_descriptor(exchange->connection), own, sizeof own);
    /* No name leads a browser to a unix socket. */
    if (front->kind != FRONT_SOCKET &&
        (problem = lint_host(&exchange->request, front->hosts, local ? own : NULL, error)) != PROBLEM_NONE)
        return problem;
    if (cors_may_write(exchange->server->options.allowed_origins, &exchange->request)) return PROBLEM_NONE;
    return lint_origin(&exchange->request, method, error);
}

/* Checks the body's size and type against the route. */
static enum problem_id check_body(struct exchange *exchange, const struct lint_body *body, struct error *error)
{
    const struct route *route = exchange->route;
    exchange->body_limit = route->large != NULL ? HTTP_BODY_LIMIT_LARGE : HTTP_BODY_LIMIT;
    exchange->body_declared = body->length;
    if (!body->present) return PROBLEM_NONE;
    if (route->body == ROUTE_BODY_NONE) {
        (void)error_set(error, STATUS_MALFORMED, "this request takes no body");
        return PROBLEM_BAD_REQUEST;
    }
    if (body->length > exchange->body_limit) {
        (void)error_set(error, STATUS_TOO_LARGE, "the body has %llu bytes, at most %zu are taken",
                        (unsigned long long)body->length, exchange->body_limit);
        return PROBLEM_BODY_TOO_LARGE;
    }
    return lint_media_type(&exchange->request, error);
}

static enum MHD_Result answer_static(struct exchange *exchange, const struct static_file *file, bool immutable)
{
    struct response *response = &exchange->response;
    const char *accepted = request_header(&exchange->request, "Accept-Encoding");
    response_empty(response, 200);
    response->kind = RESPONSE_BYTES;
    response->lent = true;
    response->vary = file->packing != NULL;
    response->immutable = immutable;
    if (accept_coding_quality(accepted, "gzip") > 0) response->bytes = static_file_gzip(file, &response->length);
    response->gzip = response->bytes != NULL;
    if (response->bytes == NULL) {
        response->bytes = file->bytes;
        response->length = file->length;
    }
    (void)snprintf(response->content_type, sizeof response->content_type, "%s", file->content_type);
    (void)snprintf(response->etag, sizeof response->etag, "%s", file->etag);
    answer_prepare(exchange);
    return queue_answer(exchange);
}

/* A path without a route: a static file, or nothing. */
static enum MHD_Result begin_unrouted(struct exchange *exchange, const struct lint_body *body, struct error *error)
{
    const struct static_files *files = exchange->server->options.files;
    bool immutable = false;
    const struct static_file *file =
        files != NULL ? static_files_find(files, exchange->request.path, &immutable) : NULL;
    if (file == NULL) {
        (void)error_set(error, STATUS_NOT_FOUND, "there is nothing at this address");
        return refuse_row(exchange, body, PROBLEM_ROUTE_UNKNOWN, error);
    }
    exchange->metric = metrics_row_static(exchange->server->metrics);
    if (strcmp(exchange->request.method, "GET") == 0 && !body->present) return answer_static(exchange, file, immutable);
    answer_header(exchange, "Allow", "GET, HEAD, OPTIONS");
    if (strcmp(exchange->request.method, "OPTIONS") == 0 && !body->present) {
        response_empty(&exchange->response, 204);
        answer_prepare(exchange);
        return queue_answer(exchange);
    }
    (void)error_set(error, STATUS_INVALID, "this address allows GET, HEAD, OPTIONS");
    return refuse_row(exchange, body, PROBLEM_METHOD_NOT_ALLOWED, error);
}

static enum MHD_Result begin_other_method(struct exchange *exchange, const struct lint_body *body, const char *allow,
                                          struct error *error)
{
    answer_header(exchange, "Allow", allow);
    if (strcmp(exchange->request.method, "OPTIONS") == 0 && !body->present) {
        response_empty(&exchange->response, 204);
        answer_prepare(exchange);
        return queue_answer(exchange);
    }
    (void)error_set(error, STATUS_INVALID, "this address allows %s", allow);
    return refuse_row(exchange, body, PROBLEM_METHOD_NOT_ALLOWED, error);
}

/* A method that no address has gets the methods of its own; where there is nothing, those of all. */
static void allow_of_unknown(struct exchange *exchange)
{
    const struct http_options *options = &exchange->server->options;
    char allow[96] = "";
    enum route_match match;
    struct error unused;
    const enum status status = router_find(options->routes, options->route_count, &exchange->request, &match,
                                           &exchange->route, allow, sizeof allow, &unused);
    const bool found = status == STATUS_OK && match == ROUTE_METHOD;
    answer_header(exchange, "Allow", found ? allow : "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
}

/* True: it asks too often, and *result is what became of the refusal. Probes are never refused. */
static bool limit_rate(struct exchange *exchange, const struct lint_body *body, enum MHD_Result *result)
{
    const struct route *route = exchange->route;
    const char *what = "";
    struct error error = {0};
    if (exchange->front->kind == FRONT_PROBES || (route != NULL && route->flags & ROUTE_PROBE)) return false;
    if ((exchange->retry_seconds = client_wait(exchange, &what)) == 0) return false;
    const struct problem row = problem_of_status(STATUS_TOO_MANY);
    (void)error_set(&error, STATUS_TOO_MANY, "%s sends too many requests: try again in %d s", what,
                    exchange->retry_seconds);
    *result = refuse(exchange, body, &row, &error);
    return true;
}

/* To the handler threads. False: they are busy, and the response says so. */
static bool hand_over(struct exchange *exchange, struct handler_pool *pool, enum exchange_stage stage)
{
    struct http_server *server = exchange->server;
    struct error error;
    reaper_deadline(server->reaper, exchange->entry, -1);
    exchange->stage = stage;
    exchange->pool = pool;
    MHD_suspend_connection(exchange->connection);
    if (handler_pool_push(pool, exchange)) return true;
    const struct problem problem = problem_row(PROBLEM_BUSY);
    (void)error_set(&error, STATUS_UNAVAILABLE, "%s",
                    atomic_load(&server->stopping) ? "the server is stopping"
                                                   : "too many requests are waiting; try again in a second");
    answer_problem(exchange, &problem, &error);
    return false;
}

static void resume(struct exchange *exchange)
{
    answer_prepare(exchange);
    MHD_resume_connection(exchange->connection);
}

/* Asks whether the token may do this before anything of the body is received, and before "100 Continue": who may not
 * could otherwise hold connections with bodies that never come to an end. The library calls again for the head once the
 * connection is resumed. */
static enum MHD_Result check_token(struct exchange *exchange)
{
    const struct http_server *server = exchange->server;
    if (hand_over(exchange, server->pools[POOL_PLAIN], EXCHANGE_CHECKING)) return MHD_YES;
    if (!exchange->swallow) exchange->close = true;
    resume(exchange);
    return MHD_YES;
}

/* The token was looked at. */
static enum MHD_Result after_check(struct exchange *exchange)
{
    struct http_server *server = exchange->server;
    if (exchange->http_status != 0) return give_refusal(exchange);
    reaper_deadline(server->reaper, exchange->entry, server->options.limits.body_milliseconds);
    exchange->stage = EXCHANGE_BODY;
    return MHD_YES;
}

/* The first call has the head alone. Everything that can be refused by the head is refused here, before the body is
 * received. */
static enum MHD_Result begin(struct exchange *exchange, const char *method, const char *version)
{
    struct http_server *server = exchange->server;
    struct lint_body body = {0};
    struct error error = {0};
    enum route_match match;
    char allow[96];
    exchange->started = true;
    reaper_waits(server->reaper, exchange->entry, false);
    (void)atomic_fetch_add(&server->active, 1);
    request_id_make(exchange->request.id);
    reaper_deadline(server->reaper, exchange->entry, server->options.limits.body_milliseconds);
    enum problem_id problem = check_head(exchange, method, version, &body, &error);
    request_fill(exchange, method);
    if (problem == PROBLEM_METHOD_UNKNOWN) allow_of_unknown(exchange);
    if (problem != PROBLEM_NONE) return refuse_row(exchange, &body, problem, &error);
    client_identify(exchange);
    enum status status = router_find(server->options.routes, server->options.route_count, &exchange->request, &match,
                                     &exchange->route, allow, sizeof allow, &error);
    if (status == STATUS_OK) status = router_query(&exchange->request, exchange->query, &error);
    if (status != STATUS_OK) {
        const struct problem row = problem_of_status(status);
        return refuse(exchange, &body, &row, &error);
    }
    enum MHD_Result limited;
    if (limit_rate(exchange, &body, &limited)) return limited;
    const bool probes = exchange->front->kind == FRONT_PROBES;
    if (probes && (match == ROUTE_UNKNOWN || (match == ROUTE_FOUND && !(exchange->route->flags & ROUTE_PROBE)))) {
        (void)error_set(&error, STATUS_NOT_FOUND, "this address answers /healthz, /readyz and /metrics alone");
        return refuse_row(exchange, &body, PROBLEM_ROUTE_UNKNOWN, &error);
    }
    if (match == ROUTE_UNKNOWN) return begin_unrouted(exchange, &body, &error);
    if (match == ROUTE_METHOD) return begin_other_method(exchange, &body, allow, &error);
    exchange->metric = metrics_row(server->metrics, exchange->route);
    if (exchange->route->query != NULL &&
        (status = request_query_allow(&exchange->request, exchange->route->query, &error)) != STATUS_OK) {
        const struct problem row = problem_of_status(status);
        return refuse(exchange, &body, &row, &error);
    }
    problem = check_body(exchange, &body, &error);
    if (problem != PROBLEM_NONE) return refuse_row(exchange, &body, problem, &error);
    exchange->swallow = may_swallow(exchange, &body);
    if (body.present && server->options.authorize != NULL && exchange->route->scope != SCOPE_NONE)
        return check_token(exchange);
    exchange->stage = EXCHANGE_BODY;
    return MHD_YES;
}

/* Writes to the socket past libmicrohttpd; what does not go at once does not go. */
static bool send_past(struct exchange *exchange, const char *bytes, size_t size)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    if (info != NULL && info->tls_session != NULL)
        return gnutls_record_send(info->tls_session, bytes, size) == (ssize_t)size;
    const int descriptor = connection_descriptor(exchange->connection);
    return send(descriptor, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)size;
}

/* libmicrohttpd accepts no answer in the middle of an upload, so this one is written to the socket directly. Returning
 * MHD_NO then closes the connection. */
static enum MHD_Result abort_upload(struct exchange *exchange, const struct problem *problem, const struct error *error)
{
    char head[512];
    char *text = problem_render(problem, error, NULL, exchange->request.path, exchange->request.id);
    const char *origin = cors_allowed(exchange->server->options.allowed_origins, &exchange->request);
    const size_t size = text != NULL ? strlen(text) : 0;
    const int64_t spent = clock_milliseconds() - exchange->started_ms;
    const int length =
        snprintf(head, sizeof head,
                 "HTTP/1.1 %d %s\r\nContent-Type: application/problem+json\r\nContent-Length: %zu\r\n%s%s%s%s"
                 "Connection: close\r\n\r\n",
                 problem->http, problem->title, size, problem->retry ? "Retry-After: 1\r\n" : "",
                 origin != NULL ? "Access-Control-Allow-Origin: " : "", origin != NULL ? origin : "",
                 origin != NULL ? "\r\nVary: Origin\r\n" : "");
    if (length > 0 && send_past(exchange, head, (size_t)length) && text != NULL) (void)send_past(exchange, text, size);
    free(text);
    reaper_lingers(exchange->server->reaper, exchange->entry);
    metrics_count(exchange->server->metrics, exchange->metric, problem->http, spent);
    if (exchange->server->options.access_log)
        access_log_write(exchange->request.id, exchange->method, exchange->target, problem->http, (int64_t)size, spent);
    exchange->stage = EXCHANGE_ANSWERED;
    return MHD_NO;
}

static enum MHD_Result body_add(struct exchange *exchange, const char *upload, size_t size)
{
    struct http_server *server = exchange->server;
    const size_t had = exchange->body.length;
    struct error error;
    if (exchange->refused) return MHD_YES;
    if (check_bytes(exchange, &error) != PROBLEM_NONE) {
        const struct problem problem = problem_row(PROBLEM_BAD_REQUEST);
        return abort_upload(exchange, &problem, &error);
    }
    if (size > exchange->body_limit - had) {
        const struct problem problem = problem_row(PROBLEM_BODY_TOO_LARGE);
        (void)error_set(&error, STATUS_TOO_LARGE, "the body is larger than the %zu bytes that are taken here",
                        exchange->body_limit);
        return abort_upload(exchange, &problem, &error);
    }
    const enum status status =
        body_append(&server->bodies, &exchange->body, upload, size, exchange->body_declared, &error);
    if (status != STATUS_OK) {
        const struct problem problem =
            status == STATUS_UNAVAILABLE ? problem_row(PROBLEM_BUSY) : problem_of_status(status);
        return abort_upload(exchange, &problem, &error);
    }
    /* a second more for each 256 KiB */
    reaper_extend(server->reaper, exchange->entry, (int64_t)(((had + size) >> 18) - (had >> 18)) * 1000);
    return MHD_YES;
}

static void run_inline(struct exchange *exchange)
{
    struct http_context context = {exchange->server->options.application, NULL, exchange->server};
    struct error error = {0};
    enum status status = exchange->route->handler(&context, &exchange->request, &exchange->response, &error);
    const enum response_kind kind = exchange->response.kind;
    if (status == STATUS_OK && (kind == RESPONSE_UNSET || kind == RESPONSE_WAIT || kind == RESPONSE_TO_WORK))
        status = error_set(&error, STATUS_INTERNAL, "an inline handler must answer at once");
    if (status != STATUS_OK) {
        const struct problem problem = problem_of_status(status);
        response_drop_headers(&exchange->response);
        answer_problem(exchange, &problem, &error);
    }
    answer_prepare(exchange);
}

/* Whose threads run the handler. The listener for probes shares no queue with the other fronts. */
static struct handler_pool *pool_of(const struct exchange *exchange)
{
    const unsigned flags = exchange->route->flags;
    const enum pool_kind probes = exchange->front->kind == FRONT_PROBES ? POOL_OWN_PROBES : POOL_PROBES;
    return exchange->server->pools[flags & ROUTE_PROBE ? probes : flags & ROUTE_WORK ? POOL_WORK : POOL_PLAIN];
}

/* The request is complete. */
static enum MHD_Result dispatch(struct exchange *exchange)
{
    struct error error;
    if (exchange->refused) return queue_answer(exchange);
    if (check_bytes(exchange, &error) != PROBLEM_NONE) { /* in what follows the last chunk */
        const struct problem problem = problem_row(PROBLEM_BAD_REQUEST);
        answer_problem(exchange, &problem, &error);
        answer_prepare(exchange);
        return queue_answer(exchange);
    }
    if (exchange->route->flags & ROUTE_INLINE) {
        run_inline(exchange);
        return queue_answer(exchange);
    }
    if (!hand_over(exchange, pool_of(exchange), EXCHANGE_HANDLING)) resume(exchange);
    return MHD_YES;
}

enum MHD_Result connection_access(void *front, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *upload, size_t *upload_size, void **slot)
{
    struct exchange *exchange = *slot;
    (void)front;
    (void)connection;
    (void)url;
    if (exchange == NULL) return MHD_NO; /* no memory for it */
    switch (exchange->stage) {
    case EXCHANGE_HEAD:
        return begin(exchange, method, version);
    case EXCHANGE_CHECKING:
        return after_check(exchange);
    case EXCHANGE_BODY:
        if (*upload_size == 0) return dispatch(exchange);
        enum MHD_Result result = body_add(exchange, upload, *upload_size);
        *upload_size = 0;
        return result;
    case EXCHANGE_HANDLING:
        return queue_answer(exchange);
    case EXCHANGE_ANSWERED:
        break;
    }
    return MHD_NO;
}
