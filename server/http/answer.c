#include "http/exchange.h"

#include "http/accept.h"
#include "http/byte_range.h"
#include "http/cors.h"
#include "http/encoding.h"
#include "http/stream_registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GZIP_FLOOR = 1024, GZIP_LEVEL = 5 };

/* Sent with every answer. Inline styles are allowed because Plotly sets them; inline scripts are not. */
static const struct name_value security[] = {
    {"Content-Security-Policy",
     "default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; base-uri 'none'; "
     "form-action 'self'; frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
    {"X-Frame-Options", "DENY"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
};

static const char last_resort[] = "{\"type\":\"/problems/no_memory\",\"title\":\"Out of memory\",\"status\":503,"
                                  "\"detail\":\"out of memory; try again later\",\"code\":\"no_memory\"}";

void answer_header(struct exchange *exchange, const char *name, const char *value)
{
    struct error error;
    enum status status = response_header(&exchange->response, name, value, &error);
    (void)status;
}

void answer_problem(struct exchange *exchange, const struct problem *problem, const struct error *error)
{
    struct response *response = &exchange->response;
    struct error ignored;
    char *text = problem_render(problem, error, response->errors, exchange->request.path, exchange->request.id);
    size_t length = text != NULL ? strlen(text) : sizeof last_resort - 1;
    if (text == NULL && (text = strdup(last_resort)) == NULL) length = 0;
    enum status status = response_take(response, problem->http, "application/problem+json", text, length, &ignored);
    if (status != STATUS_OK) response_empty(response, 503);
    char seconds[16];
    (void)snprintf(seconds, sizeof seconds, "%d", exchange->retry_seconds > 0 ? exchange->retry_seconds : 1);
    if (problem->retry) answer_header(exchange, "Retry-After", seconds);
    exchange->close = exchange->close || problem->close;
}

/* Sets the entity tag of the body. True when the client of a GET already has that body. */
static bool not_modified(struct exchange *exchange)
{
    struct response *response = &exchange->response;
    struct error ignored;
    if (strcmp(exchange->request.method, "GET") != 0 || response->http_status != 200) return false;
    if (response->kind == RESPONSE_BYTES && !response->etag[0]) {
        char etag[ETAG_SIZE];
        enum status status = encoding_etag(response->bytes, response->length, etag, &ignored);
        if (status == STATUS_OK) (void)snprintf(response->etag, sizeof response->etag, "%s", etag);
    }
    return response->etag[0] &&
           encoding_etag_matches(request_header(&exchange->request, "If-None-Match"), response->etag, true);
}

/* Whether If-Range, where there is one, names what would be sent: else a part would be one of another file. */
static bool same_file(const struct exchange *exchange)
{
    const char *wanted = request_header(&exchange->request, "If-Range");
    return wanted == NULL ||
           (!encoding_etag_any(wanted) && encoding_etag_matches(wanted, exchange->response.etag, false));
}

/* Leaves the part of a file that a GET asks for. A file without a tag is sent whole: it may be another one by then. */
static void take_part(struct exchange *exchange)
{
    struct response *response = &exchange->response;
    const int64_t size = response->file_size;
    struct byte_range part;
    struct error error;
    char text[80];
    if (response->kind != RESPONSE_FILE || !response->etag[0] || response->http_status != 200) return;
    answer_header(exchange, "Accept-Ranges", "bytes");
    if (exchange->request.head || !same_file(exchange)) return;
    switch (byte_range_of(request_header(&exchange->request, "Range"), size, &part)) {
    case BYTE_RANGE_WHOLE:
        return;
    case BYTE_RANGE_PART:
        (void)snprintf(text, sizeof text, "bytes %lld-%lld/%lld", (long long)part.first,
                       (long long)(part.first + part.length - 1), (long long)size);
        answer_header(exchange, "Content-Range", text);
        response->http_status = 206;
        response->file_from = part.first;
        response->file_size = part.length;
        return;
    case BYTE_RANGE_OUTSIDE:
        (void)error_set(&error, STATUS_INVALID, "Range: the file has %lld bytes, and none of these", (long long)size);
        (void)snprintf(text, sizeof text, "bytes */%lld", (long long)size);
        answer_header(exchange, "Content-Range", text);
        response->etag[0] = '\0';
        const struct problem problem = problem_row(PROBLEM_RANGE);
        answer_problem(exchange, &problem, &error);
    }
}

static void compress(struct exchange *exchange)
{
    struct response *response = &exchange->response;
    struct error ignored;
    char *packed = NULL;
    size_t packed_length = 0;
    if (response->kind != RESPONSE_BYTES || response->lent || response->gzip || response->length <= GZIP_FLOOR) return;
    if (!encoding_compressible(response->content_type)) return;
    response->vary = true;
    if (accept_coding_quality(request_header(&exchange->request, "Accept-Encoding"), "gzip") == 0) return;
    enum status status =
        encoding_gzip(response->bytes, response->length, GZIP_LEVEL, &packed, &packed_length, &ignored);
    if (status != STATUS_OK || packed == NULL) return; /* sent uncompressed */
    free(response->bytes);
    response->bytes = packed;
    response->length = packed_length;
    response->gzip = true;
}

static struct MHD_Response *make(struct exchange *exchange)
{
    struct response *response = &exchange->response;
    struct MHD_Response *made = NULL;
    exchange->answer_bytes = 0;
    switch (response->kind) {
    case RESPONSE_BYTES:
        exchange->answer_bytes = (int64_t)response->length;
        made = MHD_create_response_from_buffer(response->length, response->bytes,
                                               response->lent ? MHD_RESPMEM_PERSISTENT : MHD_RESPMEM_MUST_FREE);
        if (made != NULL) response->bytes = NULL;
        break;
    case RESPONSE_FILE:
        exchange->answer_bytes = response->file_size;
        made = MHD_create_response_from_fd_at_offset64((uint64_t)response->file_size, response->file,
                                                       (uint64_t)response->file_from);
        if (made != NULL) response->file = -1;
        break;
    case RESPONSE_STREAM:
        made = streams_response(response->stream, exchange->connection);
        if (made != NULL) response->stream = NULL;
        break;
    case RESPONSE_EMPTY:
        made = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
        break;
    case RESPONSE_UNSET:
    case RESPONSE_TO_WORK:
    case RESPONSE_WAIT:
        break;
    }
    return made;
}

static const char *cache_control(const struct response *response)
{
    if (response->kind == RESPONSE_STREAM || response->http_status >= 400) return "no-store";
    return response->immutable ? "public, max-age=31536000, immutable" : "no-cache";
}

static void add(struct exchange *exchange, const char *name, const char *value)
{
    (void)MHD_add_response_header(exchange->answer, name, value);
}

static void add_known(struct exchange *exchange, const char *name, const char *value)
{
    if (value != NULL) add(exchange, name, value);
}

static void add_cors(struct exchange *exchange)
{
    const struct response *response = &exchange->response;
    const char *allow = NULL;
    for (size_t i = 0; i < response->header_count; i++)
        if (strcmp(response->headers[i].name, "Allow") == 0) allow = response->headers[i].value;
    const struct cors_answer cors = cors_answer(exchange->server->options.allowed_origins, &exchange->request, allow);
    add_known(exchange, "Vary", cors.vary);
    add_known(exchange, "Access-Control-Allow-Origin", cors.allowed);
    add_known(exchange, "Access-Control-Expose-Headers", cors.exposed);
    add_known(exchange, "Access-Control-Allow-Headers", cors.headers);
    add_known(exchange, "Access-Control-Allow-Methods", cors.methods);
    add_known(exchange, "Access-Control-Max-Age", cors.max_age);
}

static bool has_header(const struct response *response, const char *name)
{
    size_t i = 0;
    while (i < response->header_count && strcmp(response->headers[i].name, name) != 0) i++;
    return i < response->header_count;
}

static void add_headers(struct exchange *exchange)
{
    const struct response *response = &exchange->response;
    char text[96];
    for (size_t i = 0; i < sizeof security / sizeof security[0]; i++)
        add(exchange, security[i].name, security[i].value);
    for (size_t i = 0; i < response->header_count; i++)
        add(exchange, response->headers[i].name, response->headers[i].value);
    if (response->kind != RESPONSE_EMPTY) add(exchange, "Content-Type", response->content_type);
    if (response->etag[0]) {
        (void)snprintf(text, sizeof text, "\"%.70s%s\"", response->etag, response->gzip ? "-gzip" : "");
        add(exchange, "ETag", text);
    }
    if (response->gzip) add(exchange, "Content-Encoding", "gzip");
    if (response->vary)
        add(exchange, "Vary", has_header(response, "Vary") ? "Accept-Encoding" : "Accept, Accept-Encoding");
    add_cors(exchange);
    if (response->kind == RESPONSE_STREAM) add(exchange, "X-Accel-Buffering", "no");
    add(exchange, "Cache-Control", cache_control(response));
    add(exchange, "X-Request-Id", exchange->request.id);
    if (exchange->close || atomic_load(&exchange->server->stopping)) add(exchange, "Connection", "close");
}

void answer_prepare(struct exchange *exchange)
{
    struct response *response = &exchange->response;
    if (not_modified(exchange)) {
        response->vary = response->kind == RESPONSE_BYTES && encoding_compressible(response->content_type);
        response_empty(response, 304);
    }
    take_part(exchange);
    compress(exchange);
    exchange->http_status = response->http_status;
    exchange->answer = make(exchange);
    if (exchange->answer == NULL) {
        exchange->http_status = 503;
        exchange->close = true;
        exchange->answer = MHD_create_response_from_buffer(sizeof last_resort - 1, (void *)(uintptr_t)last_resort,
                                                           MHD_RESPMEM_PERSISTENT);
        (void)snprintf(response->content_type, sizeof response->content_type, "application/problem+json");
        response->gzip = false;
        response->etag[0] = '\0';
    }
    if (exchange->answer != NULL) add_headers(exchange);
}
