#include "http/connection.h"

#include "base/clock.h"
#include "http/library_reads.h"
#include "http/listen.h"
#include "http/metrics.h"
#include "http/reaper.h"
#include "http/request_body.h"
#include "http/tls_current.h"

#include <gnutls/gnutls.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* The state of a connection, from its beginning to its end. */
struct kept {
    struct reaper_entry *entry;          /* NULL: no memory for it */
    struct tls_credentials *credentials; /* NULL: without TLS */
    struct library_reads reads;
    int descriptor;
    unsigned requests; /* number of request lines that were read */
};

int connection_descriptor(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info != NULL ? info->connect_fd : -1;
}

bool connection_left(int descriptor)
{
    struct pollfd socket = {.fd = descriptor, .events = POLLRDHUP};
    return poll(&socket, 1, 0) > 0 && (socket.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

/* The connection's TLS session, whose handshake has not started when the connection opens. */
static gnutls_session_t tls_session(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    return info != NULL ? info->tls_session : NULL;
}

void connection_notify(void *closure, struct MHD_Connection *connection, void **socket_context,
                       enum MHD_ConnectionNotificationCode code)
{
    const struct front *front = closure;
    struct http_server *server = front->server;
    struct kept *kept = *socket_context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const int descriptor = connection_descriptor(connection);
        metrics_connections(server->metrics, 1);
        if ((*socket_context = kept = calloc(1, sizeof *kept)) != NULL) {
            kept->descriptor = descriptor;
            kept->reads.session = tls_session(connection);
        }
        if (kept == NULL || !library_reads_watch(descriptor, &kept->reads)) {
            (void)shutdown(descriptor, SHUT_RDWR); /* nothing would check the bytes that the library reads */
            return;
        }
        kept->entry = reaper_add(server->reaper, descriptor, server->options.limits.header_milliseconds);
        if (front->tls) kept->credentials = tls_current_lend(server->tls, kept->reads.session);
        return;
    }
    metrics_connections(server->metrics, -1);
    *socket_context = NULL;
    if (kept == NULL) return;
    library_reads_forget(kept->descriptor);
    reaper_remove(server->reaper, kept->entry);
    tls_current_return(server->tls, kept->credentials);
    free(kept);
}

void *connection_request_line(void *closure, const char *target, struct MHD_Connection *connection)
{
    const struct front *front = closure;
    struct http_server *server = front->server;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct kept *kept = info != NULL ? info->socket_context : NULL;
    struct exchange *exchange = kept != NULL ? calloc(1, sizeof *exchange) : NULL;
    if (kept != NULL) kept->requests++;
    if (exchange == NULL) return NULL;
    exchange->server = server;
    exchange->front = front;
    exchange->connection = connection;
    exchange->entry = kept->entry;
    exchange->guard = &kept->reads.guard;
    exchange->number = kept->requests;
    exchange->started_ms = clock_milliseconds();
    exchange->metric = metrics_row(server->metrics, NULL);
    exchange->method = "";
    response_init(&exchange->response, server->streams);
    exchange->response.client = exchange->client;
    exchange->response.token = exchange->request.principal.name;
    reaper_deadline(server->reaper, exchange->entry, server->options.limits.header_milliseconds);
    if ((exchange->target = strdup(target)) == NULL) {
        exchange_free(exchange);
        return NULL;
    }
    head_guard_restore(exchange->target);
    return exchange;
}

size_t connection_unescape(void *closure, struct MHD_Connection *connection, char *text)
{
    (void)closure;
    (void)connection;
    return strlen(text);
}

void exchange_free(struct exchange *exchange)
{
    if (exchange == NULL) return;
    request_body_drop(exchange);
    body_reset(&exchange->server->bodies, &exchange->body);
    if (exchange->waits) permits_give(exchange->server->waits, exchange->client);
    if (exchange->started) (void)atomic_fetch_sub(&exchange->server->active, 1);
    if (exchange->answer != NULL) MHD_destroy_response(exchange->answer);
    response_reset(&exchange->response);
    request_reset(&exchange->request);
    free(exchange->target);
    free(exchange);
}

void connection_completed(void *closure, struct MHD_Connection *connection, void **slot,
                          enum MHD_RequestTerminationCode code)
{
    struct http_server *server = ((const struct front *)closure)->server;
    struct exchange *exchange = *slot;
    (void)connection;
    (void)code;
    *slot = NULL;
    if (exchange == NULL) return;
    /* the connection is idle from here on; the time for the next head starts with its request line */
    reaper_waits(server->reaper, exchange->entry, true);
    reaper_deadline(server->reaper, exchange->entry,
                    (int64_t)server->options.limits.idle_seconds * 1000 + server->options.limits.header_milliseconds);
    exchange_free(exchange);
}
