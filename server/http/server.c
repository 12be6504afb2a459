#include "http/server.h"

#include "base/clock.h"
#include "http/audit.h"
#include "http/connection.h"
#include "http/handler_pool.h"
#include "http/listen.h"
#include "http/metrics.h"
#include "http/rate_limit.h"
#include "http/reaper.h"
#include "http/stream_registry.h"
#include "http/tls.h"
#include "http/tls_current.h"
#include "http/token_backoff.h"
#include "http/waiters.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTION_MEMORY = 32 << 10, PROBE_CONNECTIONS = 32, PROBE_QUEUE = 32, WORK_THREADS = 3, WORK_QUEUE = 32 };
enum { OWN_DESCRIPTORS = 64, CONNECTIONS_LEAST = 8 };

/* Version 1.0 has levels of strictness. The strict mode of 0.9 only adds the check for a missing Host, and answers such
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

/* Bounds connections by the available descriptors. A listener whose accept fails for lack of one stays ready, and
 * libmicrohttpd retries at once when it has no connection of its own. A third of the descriptors is left for bodies and
 * artifacts. */
static unsigned connections_that_fit(const struct http_options *options)
{
    struct rlimit files;
    const unsigned wanted = options->limits.connections;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY) return wanted;
    const rlim_t others = OWN_DESCRIPTORS + (options->probes != NULL ? PROBE_CONNECTIONS : 0);
    const rlim_t left = files.rlim_cur > others ? files.rlim_cur - others : 0;
    const rlim_t fit = left * 2 / 3 / (options->socket != NULL ? 2 : 1);
    if (fit >= wanted) return wanted;
    return fit > CONNECTIONS_LEAST ? (unsigned)fit : CONNECTIONS_LEAST;
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
    fill_int(&limits->work_milliseconds, 30000);
    fill_int(&limits->stop_milliseconds, 5000);
    fill_unsigned(&limits->connections, 1024);
    limits->connections = connections_that_fit(options);
    fill_unsigned(&limits->streams, 64);
    fill_unsigned(&limits->waits, 512);
    fill_unsigned(&limits->queue, 256);
    if (limits->body_bytes == 0) limits->body_bytes = (size_t)256 << 20;
    if (limits->body_memory == 0) limits->body_memory = (size_t)48 << 20;
    if (options->spill_directory == NULL) options->spill_directory = "/tmp";
    fill_int(&options->handler_threads, 4);
    fill_int(&options->network_threads, 2);
}

static void tick(void *closure)
{
    struct http_server *server = closure;
    waiters_tick(server->waiters);
}

/* Probes and the unix socket are served without TLS: they tell nothing secret, or do not leave the machine. */
static bool has_tls(enum front_kind kind, const struct http_options *options)
{
    return kind == FRONT_MAIN && options->tls != NULL && options->tls->certificate != NULL;
}

static enum status daemon_start(struct front *front, struct listener *listener, unsigned connections,
                                struct error *error)
{
    const struct http_options *options = &front->server->options;
    const bool tls = front->tls;
    const struct MHD_OptionItem plain[] = {{MHD_OPTION_END, 0, NULL}};
    const struct MHD_OptionItem encrypted[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, tls ? options->tls->certificate : NULL},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, tls ? options->tls->key : NULL},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)TLS_PRIORITIES},
        {MHD_OPTION_END, 0, NULL},
    };
    const unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME |
                           (listener->ipv6 ? MHD_USE_IPv6 : 0) | (tls ? MHD_USE_TLS : 0);
    front->daemon =
        MHD_start_daemon(flags, 0, NULL, NULL, connection_access, front, MHD_OPTION_LISTEN_SOCKET, listener->descriptor,
                         MHD_OPTION_THREAD_POOL_SIZE, (unsigned)options->network_threads, MHD_OPTION_CONNECTION_LIMIT,
                         connections, MHD_OPTION_PER_IP_CONNECTION_LIMIT, listener->loopback ? 0U : connections / 2,
                         MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY, MHD_OPTION_CONNECTION_TIMEOUT,
                         (unsigned)options->limits.idle_seconds, STRICT_OPTION, MHD_OPTION_NOTIFY_CONNECTION,
                         connection_notify, front, MHD_OPTION_NOTIFY_COMPLETED, connection_completed, front,
                         MHD_OPTION_URI_LOG_CALLBACK, connection_request_line, front, MHD_OPTION_UNESCAPE_CALLBACK,
                         connection_unescape, front, MHD_OPTION_ARRAY, tls ? encrypted : plain, MHD_OPTION_END);
    if (front->daemon == NULL)
        return error_set(error, STATUS_IO, "the HTTP library refused to start; are there too few file descriptors?");
    listener->descriptor = -1; /* owned by the daemon now */
    return STATUS_OK;
}

/* Starts a front, which takes the listener. */
static enum status front_start(struct http_server *server, enum front_kind kind, struct listener *listener,
                               struct error *error)
{
    struct front *front = &server->fronts[kind];
    const struct http_limits *limits = &server->options.limits;
    *front = (struct front){.kind = kind,
                            .server = server,
                            .hosts = listener->hosts,
                            .tls = has_tls(kind, &server->options),
                            .wildcard = listener->wildcard};
    listener->hosts = NULL;
    return daemon_start(front, listener, kind == FRONT_PROBES ? PROBE_CONNECTIONS : limits->connections, error);
}

static enum status fronts_start(struct http_server *server, struct listener listeners[FRONT_COUNT], struct error *error)
{
    enum status status = STATUS_OK;
    for (int i = 0; status == STATUS_OK && i < FRONT_COUNT; i++)
        if (listeners[i].descriptor >= 0) status = front_start(server, (enum front_kind)i, &listeners[i], error);
    return status;
}

/* Opens all addresses before any of them is served, so that a server that cannot have one of them answers nobody. */
static enum status listeners_open(const struct http_options *options, struct listener listeners[FRONT_COUNT],
                                  struct error *error)
{
    enum status status = listen_open(options->listen, options->allowed_hosts, options->token_configured,
                                     has_tls(FRONT_MAIN, options), &listeners[FRONT_MAIN], error);
    if (status == STATUS_OK && options->probes != NULL)
        status = listen_open(options->probes, options->allowed_hosts, true, false, &listeners[FRONT_PROBES], error);
    if (status == STATUS_OK && options->socket != NULL)
        status = listen_open_socket(options->socket, &listeners[FRONT_SOCKET], error);
    return status;
}

/* Closes the listeners that no front has taken. */
static void listeners_close(const struct http_options *options, struct listener listeners[FRONT_COUNT])
{
    for (int i = 0; i < FRONT_COUNT; i++) {
        listen_hosts_free(listeners[i].hosts);
        if (listeners[i].descriptor < 0) continue;
        (void)close(listeners[i].descriptor);
        if (i == FRONT_SOCKET) (void)unlink(options->socket);
    }
}

/* Makes all limits on clients. */
static enum status limits_start(struct http_server *server, struct error *error)
{
    const struct http_options *options = &server->options;
    enum status status = token_backoff_new(&server->backoff, error);
    if (status == STATUS_OK) status = permits_new(options->limits.waits, "waiting requests", &server->waits, error);
    if (status == STATUS_OK) status = rate_limit_new(AUDIT_REFUSALS, &server->refusals, error);
    if (status == STATUS_OK) status = rate_limit_new_rare(AUDIT_RATE_SECONDS, &server->rate_lines, error);
    if (status == STATUS_OK && options->address_rate > 0)
        status = rate_limit_new(options->address_rate, &server->by_address, error);
    if (status == STATUS_OK && options->token_rate > 0)
        status = rate_limit_new(options->token_rate, &server->by_token, error);
    return status;
}

static enum status pools_start(struct http_server *server, struct error *error)
{
    const struct http_options *options = &server->options;
    const unsigned queue = options->limits.queue;
    enum status status = handler_pool_start(server, options->handler_threads, queue, &server->pools[POOL_PLAIN], error);
    if (status == STATUS_OK) status = handler_pool_start(server, 1, PROBE_QUEUE, &server->pools[POOL_PROBES], error);
    if (status == STATUS_OK && options->probes != NULL)
        status = handler_pool_start(server, 1, PROBE_QUEUE, &server->pools[POOL_OWN_PROBES], error);
    if (status == STATUS_OK)
        status = handler_pool_start(server, WORK_THREADS, WORK_QUEUE, &server->pools[POOL_WORK], error);
    return status;
}

static void server_free(struct http_server *server)
{
    for (int i = 0; i < POOL_COUNT; i++) handler_pool_free(server->pools[i]);
    streams_free(server->streams);
    reaper_free(server->reaper);
    waiters_free(server->waiters);
    permits_free(server->waits);
    metrics_free(server->metrics);
    tls_current_free(server->tls);
    token_backoff_free(server->backoff);
    rate_limit_free(server->by_address);
    rate_limit_free(server->by_token);
    rate_limit_free(server->refusals);
    rate_limit_free(server->rate_lines);
    for (int i = 0; i < FRONT_COUNT; i++) listen_hosts_free(server->fronts[i].hosts);
    if (server->fronts[FRONT_SOCKET].server != NULL) (void)unlink(server->options.socket);
    free(server);
}

enum status http_server_start(const struct http_options *options, struct http_server **out, struct error *error)
{
    enum status status;
    struct listener listeners[FRONT_COUNT];
    struct http_server *server = calloc(1, sizeof *server);
    *out = NULL;
    if (server == NULL) return error_set(error, STATUS_NO_MEMORY, "out of memory for the server");
    for (int i = 0; i < FRONT_COUNT; i++) listeners[i] = (struct listener){.descriptor = -1};
    server->options = *options;
    limits_fill(&server->options);
    server->bodies = (struct bodies){.directory = server->options.spill_directory,
                                     .received_limit = server->options.limits.body_bytes,
                                     .parsed_limit = server->options.limits.body_memory};
    atomic_init(&server->stopping, false);
    if ((status = listeners_open(options, listeners, error)) != STATUS_OK) goto done;
    (void)snprintf(server->url, sizeof server->url, "%s", listeners[FRONT_MAIN].url);
    if ((status = metrics_new(options->routes, options->route_count, &server->metrics, error)) != STATUS_OK) goto done;
    if ((status = limits_start(server, error)) != STATUS_OK) goto done;
    if (has_tls(FRONT_MAIN, options) && (status = tls_current_new(options->tls, &server->tls, error)) != STATUS_OK)
        goto done;
    if ((status = waiters_new(handler_pool_push_again, &server->waiters, error)) != STATUS_OK) goto done;
    if ((status = streams_start(&server->options, &server->streams, error)) != STATUS_OK) goto done;
    if ((status = pools_start(server, error)) != STATUS_OK) goto done;
    if ((status = reaper_start(tick, server, server->options.limits.connections / 2, &server->reaper, error)) !=
        STATUS_OK)
        goto done;
    if ((status = fronts_start(server, listeners, error)) != STATUS_OK) goto done;
    *out = server;
    server = NULL;
done:
    listeners_close(options, listeners);
    http_server_stop(server);
    return status;
}

const char *http_server_url(const struct http_server *server)
{
    return server->url;
}

enum status http_server_renew(struct http_server *server, const struct tls_identity *identity, struct error *error)
{
    return tls_current_replace(server->tls, identity, error);
}

void http_server_wake(struct http_server *server, const char *topic)
{
    waiters_wake(server->waiters, topic);
    streams_wake(server->streams, topic);
}

bool http_server_wants_tokens(struct http_server *server)
{
    return token_backoff_wants(server->backoff);
}

void http_server_tokens(struct http_server *server, struct http_token *tokens, size_t count)
{
    token_backoff_valid(server->backoff, tokens, count);
}

static unsigned pools_depth(const struct http_server *server)
{
    unsigned depth = 0;
    for (int i = 0; i < POOL_COUNT; i++)
        if (server->pools[i] != NULL) depth += handler_pool_depth(server->pools[i]);
    return depth;
}

void http_server_metrics(const struct http_server *server, struct buffer *out)
{
    metrics_render(server->metrics, pools_depth(server), waiters_count(server->waiters), streams_count(server->streams),
                   out);
}

/* Waits until no request is being answered, at most for the time that stopping may take. */
static void drain(struct http_server *server)
{
    const struct timespec nap = {.tv_nsec = 5000000};
    const int64_t end = clock_milliseconds() + server->options.limits.stop_milliseconds;
    while (atomic_load(&server->active) > 0 && clock_milliseconds() < end) (void)nanosleep(&nap, NULL);
}

/* Also stops a partly started server: a daemon must not stop while one of its connections is suspended. */
void http_server_stop(struct http_server *server)
{
    if (server == NULL) return;
    atomic_store(&server->stopping, true);
    for (int i = 0; i < FRONT_COUNT; i++) {
        if (server->fronts[i].daemon == NULL) continue;
        const MHD_socket descriptor = MHD_quiesce_daemon(server->fronts[i].daemon);
        if (descriptor != MHD_INVALID_SOCKET) (void)close(descriptor);
    }
    if (server->waiters != NULL) waiters_end(server->waiters);
    if (server->streams != NULL) streams_end(server->streams);
    drain(server);
    /* the remaining requests are answered here, so that no connection is suspended when the daemon stops */
    for (int i = 0; i < POOL_COUNT; i++)
        if (server->pools[i] != NULL) handler_pool_stop(server->pools[i]);
    reaper_stop(server->reaper);
    for (int i = 0; i < FRONT_COUNT; i++)
        if (server->fronts[i].daemon != NULL) MHD_stop_daemon(server->fronts[i].daemon);
    server_free(server);
}
