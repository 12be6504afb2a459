#include "http/server.h"

#include "http/clock.h"
#include "http/connection.h"
#include "http/handler_pool.h"
#include "http/listen.h"
#include "http/metrics.h"
#include "http/reaper.h"
#include "http/stream_registry.h"
#include "http/waiters.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTION_MEMORY = 32 << 10 };

/* Version 1.0 has levels of discipline. The strict mode of 0.9 adds only the check for a missing Host, and answers such
 * a request with two response heads, so the lint makes that check instead. */
#if MHD_VERSION >= 0x00097701
#define STRICT_OPTION MHD_OPTION_CLIENT_DISCIPLINE_LVL, 1
#else
#define STRICT_OPTION MHD_OPTION_STRICT_FOR_CLIENT, 0
#endif

static void fill_int(int *value, int fallback)
{
    if (*value <= 0) *value = fallback;
}

static void fill_unsigned(unsigned *value, unsigned fallback)
{
    if (*value == 0) *value = fallback;
}

static void limits_fill(struct http_options *options)
{
    struct http_limits *limits = &options->limits;
    fill_int(&limits->header_milliseconds, 5000);
    fill_int(&limits->body_milliseconds, 10000);
    fill_int(&limits->idle_seconds, 15);
    fill_int(&limits->write_milliseconds, 30000);
    fill_int(&limits->ping_milliseconds, 15000);
    fill_int(&limits->stream_milliseconds, 600000);
    fill_int(&limits->stop_milliseconds, 5000);
    fill_unsigned(&limits->connections, 1024);
    fill_unsigned(&limits->streams, 64);
    fill_unsigned(&limits->queue, 256);
    if (limits->body_bytes == 0) limits->body_bytes = (size_t)64 << 20;
    fill_int(&options->handler_threads, 4);
    fill_int(&options->network_threads, 2);
}

/* A wait is over, or its topic was woken. */
static void release(void *closure, struct exchange *exchange)
{
    struct http_server *server = closure;
    handler_pool_push_again(server->pool, exchange);
}

static void tick(void *closure)
{
    struct http_server *server = closure;
    waiters_tick(server->waiters);
}

static enum status daemon_start(struct http_server *server, struct listener *listener, struct error *error)
{
    const struct http_options *options = &server->options;
    const unsigned flags =
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | (listener->ipv6 ? MHD_USE_IPv6 : 0);
    server->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, connection_access, server, MHD_OPTION_LISTEN_SOCKET, listener->descriptor,
        MHD_OPTION_THREAD_POOL_SIZE, (unsigned)options->network_threads, MHD_OPTION_CONNECTION_LIMIT,
        options->limits.connections, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)options->limits.idle_seconds, STRICT_OPTION,
        MHD_OPTION_NOTIFY_CONNECTION, connection_notify, server, MHD_OPTION_NOTIFY_COMPLETED, connection_completed,
        server, MHD_OPTION_URI_LOG_CALLBACK, connection_request_line, server, MHD_OPTION_UNESCAPE_CALLBACK,
        connection_unescape, server, MHD_OPTION_END);
    if (server->daemon == NULL)
        return error_set(error, STATUS_IO, "the HTTP library refused to start; are there too few file descriptors?");
    listener->descriptor = -1; /* the daemon's now */
    return STATUS_OK;
}

static void server_free(struct http_server *server)
{
    handler_pool_free(server->pool);
    streams_free(server->streams);
    reaper_free(server->reaper);
    waiters_free(server->waiters);
    metrics_free(server->metrics);
    listen_hosts_free(server->hosts);
    free(server);
}

enum status http_server_start(const struct http_options *options, struct http_server **out, struct error *error)
{
    enum status status;
    struct listener listener = {.descriptor = -1};
    struct http_server *server = calloc(1, sizeof *server);
    *out = NULL;
    if (server == NULL) return error_set(error, STATUS_NO_MEMORY, "out of memory for the server");
    server->options = *options;
    limits_fill(&server->options);
    atomic_init(&server->stopping, false);
    if ((status = listen_open(options->listen, options->allowed_hosts, options->token_configured, &listener, error)) !=
        STATUS_OK)
        goto done;
    server->hosts = listener.hosts;
    server->wildcard = listener.wildcard;
    (void)snprintf(server->url, sizeof server->url, "%s", listener.url);
    if ((status = metrics_new(options->routes, options->route_count, &server->metrics, error)) != STATUS_OK) goto done;
    if ((status = waiters_new(release, server, &server->waiters, error)) != STATUS_OK) goto done;
    if ((status = streams_start(&server->options, &server->streams, error)) != STATUS_OK) goto done;
    if ((status = handler_pool_start(server, &server->pool, error)) != STATUS_OK) goto done;
    if ((status = reaper_start(tick, server, &server->reaper, error)) != STATUS_OK) goto done;
    if ((status = daemon_start(server, &listener, error)) != STATUS_OK) goto done;
    *out = server;
    server = NULL;
done:
    if (listener.descriptor >= 0) (void)close(listener.descriptor);
    if (server != NULL) {
        reaper_stop(server->reaper);
        if (server->pool != NULL) handler_pool_stop(server->pool);
        if (server->streams != NULL) streams_end(server->streams);
        server_free(server);
    }
    return status;
}

const char *http_server_url(const struct http_server *server)
{
    return server->url;
}

void http_server_wake(struct http_server *server, const char *topic)
{
    waiters_wake(server->waiters, topic);
    streams_wake(server->streams, topic);
}

void http_server_metrics(const struct http_server *server, struct buffer *out)
{
    metrics_render(server->metrics, handler_pool_depth(server->pool), waiters_count(server->waiters),
                   streams_count(server->streams), out);
}

/* Waits until no request is being answered, but no longer than stopping may take. */
static void drain(struct http_server *server)
{
    const struct timespec nap = {.tv_nsec = 5000000};
    const int64_t end = clock_milliseconds() + server->options.limits.stop_milliseconds;
    while (atomic_load(&server->active) > 0 && clock_milliseconds() < end) (void)nanosleep(&nap, NULL);
}

void http_server_stop(struct http_server *server)
{
    if (server == NULL) return;
    atomic_store(&server->stopping, true);
    const MHD_socket descriptor = MHD_quiesce_daemon(server->daemon);
    if (descriptor != MHD_INVALID_SOCKET) (void)close(descriptor);
    waiters_end(server->waiters);
    streams_end(server->streams);
    drain(server);
    /* whatever is left is answered here, so that no connection is suspended when the daemon stops */
    handler_pool_stop(server->pool);
    reaper_stop(server->reaper);
    MHD_stop_daemon(server->daemon);
    server_free(server);
}
