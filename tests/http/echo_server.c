/* A small server over server/http for the tests beside it: no database, no engine. It prints its address and runs until
 * SIGTERM.
 *     echo_server [--token] [--listen ADDRESS] [--short] [--threads N] [--queue N] [--static DIRECTORY] [--log]
 *                 [--tls CERTIFICATE KEY] [--patient] [--connections N] [--places N] [--hold]
 *                 [--allow-origin ORIGIN]
 * --token: the tokens "reader", "writer", "admin" are asked for. --short: deadlines of a second or less. --patient: ten
 * minutes for a body and for the reading of an answer. --places: event streams and waits. --hold: once "hold" was
 * woken, nobody says whether the streams may be read on until after SIGTERM; "looks" counts those looks. */
#include "base/buffer.h"
#include "http/server.h"
#include "http/static_files.h"
#include "http/tls.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TOPICS = 16, KEYS = 64 };

struct stored_key {
    char key[201], hash[65];
    bool done;
    int http_status;
    char *body;
};

struct application {
    pthread_mutex_t mutex;
    int64_t counters[TOPICS]; /* by the digit that ends a topic's name */
    int calls;                /* of POST /v1/echo */
    struct stored_key keys[KEYS];
    int key_count;
    atomic_bool stopped;
};

static int topic_index(const char *topic)
{
    return topic[0] ? topic[strlen(topic) - 1] % TOPICS : 0;
}

static int64_t counter_get(struct application *application, const char *topic)
{
    pthread_mutex_lock(&application->mutex);
    const int64_t value = application->counters[topic_index(topic)];
    pthread_mutex_unlock(&application->mutex);
    return value;
}

static enum status get_healthz(struct http_context *context, const struct request *request, struct response *response,
                               struct error *error)
{
    (void)context;
    (void)request;
    return response_bytes(response, 200, "text/plain; charset=utf-8", "ok\n", 3, error);
}

static enum status get_metrics(struct http_context *context, const struct request *request, struct response *response,
                               struct error *error)
{
    struct buffer buffer;
    size_t length = 0;
    (void)request;
    buffer_init(&buffer, 1 << 20);
    http_server_metrics(context->server, &buffer);
    enum status status = buffer_status(&buffer, "metrics", error);
    if (status != STATUS_OK) return status;
    char *text = buffer_take(&buffer, &length);
    return response_take(response, 200, "text/plain; version=0.0.4; charset=utf-8", text, length, error);
}

static enum status get_echo(struct http_context *context, const struct request *request, struct response *response,
                            struct error *error)
{
    (void)context;
    if (strcmp(request_parameter(request, "name"), "away") == 0)
        return error_set(error, STATUS_UNAVAILABLE, "the database is away");
    if (strcmp(request_parameter(request, "name"), "gone") == 0) return error_set(error, STATUS_NOT_FOUND, "no echo");
    json_t *query = json_array();
    for (size_t i = 0; i < request->query_count; i++)
        (void)json_array_append_new(query, json_pack("[s, s]", request->query[i].name, request->query[i].value));
    return response_json(response, 200,
                         json_pack("{s:s, s:s, s:o, s:s}", "name", request_parameter(request, "name"), "path",
                                   request->path, "query", query, "principal", request->principal.name),
                         error);
}

/* NULL: the key is free again. */
static void key_keep(struct application *application, const char *key, const struct idempotent_answer *answer)
{
    pthread_mutex_lock(&application->mutex);
    for (int i = 0; i < application->key_count; i++) {
        struct stored_key *stored = &application->keys[i];
        if (strcmp(stored->key, key) != 0) continue;
        if (answer == NULL) {
            stored->key[0] = '\0';
        } else {
            free(stored->body);
            stored->done = true;
            stored->http_status = answer->http_status;
            stored->body = strndup(answer->body, answer->body_length);
        }
    }
    pthread_mutex_unlock(&application->mutex);
}

static enum status post_echo(struct http_context *context, const struct request *request, struct response *response,
                             struct error *error)
{
    struct application *application = context->application;
    pthread_mutex_lock(&application->mutex);
    const int calls = ++application->calls;
    pthread_mutex_unlock(&application->mutex);
    const struct timespec nap = {.tv_nsec =
                                     json_integer_value(json_object_get(request->body, "pause")) % 1000 * 1000000};
    (void)nanosleep(&nap, NULL);
    if (json_object_get(request->body, "fail") != NULL) {
        response_add_error(response, "/a", "first fault");
        response_add_error(response, "/b/0", "second fault");
        return error_set(error, STATUS_INVALID, "two faults");
    }
    if (json_object_get(request->body, "pointer") != NULL)
        return error_set_at(error, STATUS_INVALID, "/pointer", "one fault");
    if (json_object_get(request->body, "record") != NULL) {
        char body[] = "{\"recorded\": true}";
        const struct idempotent_answer answer = {.http_status = 201, .body = body, .body_length = strlen(body)};
        key_keep(application, request_header(request, "Idempotency-Key"), &answer);
        response_recorded(response);
    }
    enum status status =
        response_json(response, 201, json_pack("{s:i, s:O}", "calls", calls, "body", request->body), error);
    if (status == STATUS_OK) status = response_header(response, "Location", "/v1/echo/1", error);
    return status;
}

static enum status post_large(struct http_context *context, const struct request *request, struct response *response,
                              struct error *error)
{
    struct json_reader reader;
    json_int_t items = 0;
    (void)context;
    json_reader_init(&reader, "items", request->large.bytes, request->large.size, NULL, error);
    (void)json_reader_array(&reader);
    while (json_reader_next_item(&reader)) items++;
    const enum status status = json_reader_finish(&reader);
    return status == STATUS_OK ? response_json(response, 200, json_pack("{s:I}", "items", items), error) : status;
}

static enum status post_act(struct http_context *context, const struct request *request, struct response *response,
                            struct error *error)
{
    (void)context;
    (void)error;
    response_empty(response, request->body != NULL ? 200 : 204);
    return STATUS_OK;
}

static enum status get_big(struct http_context *context, const struct request *request, struct response *response,
                           struct error *error)
{
    (void)context;
    int64_t items = 0;
    enum status status = request_query_integer(request, "items", 1000, 0, 5000000, &items, error);
    if (status != STATUS_OK) return status;
    json_t *array = json_array();
    for (int64_t i = 0; i < items; i++) (void)json_array_append_new(array, json_integer(i));
    return response_json(response, 200, json_pack("{s:o}", "items", array), error);
}

static enum status get_slow(struct http_context *context, const struct request *request, struct response *response,
                            struct error *error)
{
    (void)context;
    int64_t milliseconds = 0;
    enum status status = request_query_integer(request, "ms", 100, 0, 60000, &milliseconds, error);
    if (status != STATUS_OK) return status;
    const struct timespec nap = {.tv_sec = milliseconds / 1000, .tv_nsec = milliseconds % 1000 * 1000000};
    (void)nanosleep(&nap, NULL);
    return response_json(response, 200, json_pack("{s:b}", "slow", 1), error);
}

static enum status get_wait(struct http_context *context, const struct request *request, struct response *response,
                            struct error *error)
{
    const char *topic = request_parameter(request, "topic");
    int64_t seconds = 0, above = 0, pause = 0;
    enum status status = request_query_integer(request, "wait", 0, 0, 60, &seconds, error);
    if (status == STATUS_OK) status = request_query_integer(request, "above", 0, 0, INT64_MAX, &above, error);
    if (status == STATUS_OK) status = request_query_integer(request, "pause", 0, 0, 999, &pause, error);
    if (status != STATUS_OK) return status;
    const int64_t value = counter_get(context->application, topic);
    const struct timespec nap = {.tv_nsec = pause * 1000000};
    (void)nanosleep(&nap, NULL); /* between the look and the wait: what comes now must not be lost */
    if (value <= above && seconds > 0 && !request->wait_over) {
        response_wait(response, topic, (double)seconds);
        return STATUS_OK;
    }
    return response_json(response, 200, json_pack("{s:I}", "value", (json_int_t)value), error);
}

static enum status post_wake(struct http_context *context, const struct request *request, struct response *response,
                             struct error *error)
{
    struct application *application = context->application;
    const char *topic = request_parameter(request, "topic");
    pthread_mutex_lock(&application->mutex);
    const int64_t value = ++application->counters[topic_index(topic)];
    pthread_mutex_unlock(&application->mutex);
    http_server_wake(context->server, topic);
    return response_json(response, 200, json_pack("{s:I}", "value", (json_int_t)value), error);
}

struct follower {
    struct application *application;
    char topic[64];
    int64_t seen;
};

static enum status follow(void *thread, void *state, struct stream_writer *writer, bool *finished, struct error *error)
{
    struct follower *follower = state;
    const int64_t value = counter_get(follower->application, follower->topic);
    (void)thread;
    while (follower->seen < value) {
        char id[24];
        (void)snprintf(id, sizeof id, "%lld", (long long)++follower->seen);
        json_t *data = json_pack("{s:I}", "value", (json_int_t)follower->seen);
        enum status status = stream_event(writer, id, "count", data, error);
        json_decref(data);
        if (status != STATUS_OK) return status;
    }
    *finished = value >= 1000;
    return STATUS_OK;
}

static const struct stream_ops follow_ops = {follow, free};

static enum status get_events(struct http_context *context, const struct request *request, struct response *response,
                              struct error *error)
{
    struct follower *follower = calloc(1, sizeof *follower);
    if (follower == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory");
    follower->application = context->application;
    (void)snprintf(follower->topic, sizeof follower->topic, "%s", request_parameter(request, "topic"));
    if (request->last_event_id != NULL) follower->seen = strtoll(request->last_event_id, NULL, 10);
    return response_stream(response, follower->topic, &follow_ops, follower, error);
}

static enum status authorize(void *thread, const char *token, enum scope scope, struct principal *principal,
                             struct error *error)
{
    static const struct {
        const char *token;
        enum scope scope;
    } rows[] = {{"reader", SCOPE_READ}, {"writer", SCOPE_WRITE}, {"admin", SCOPE_ADMIN}};
    (void)thread;
    for (size_t i = 0; token != NULL && i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(rows[i].token, token) != 0) continue;
        if (rows[i].scope < scope) return error_set(error, STATUS_FORBIDDEN, "the token's scope is too small");
        (void)snprintf(principal->name, sizeof principal->name, "%s", token);
        principal->scope = rows[i].scope;
        return STATUS_OK;
    }
    return error_set(error, STATUS_UNAUTHORIZED, "a token is needed");
}

static enum status authorize_again(void *thread, struct http_reader *readers, size_t count, struct error *error)
{
    static const struct timespec nap = {.tv_nsec = 10000000}, until_the_server_stops = {.tv_nsec = 500000000};
    struct application *application = thread;
    (void)error;
    for (size_t i = 0; i < count; i++) readers[i].allowed = true;
    if (counter_get(application, "hold") == 0) return STATUS_OK;
    pthread_mutex_lock(&application->mutex);
    application->counters[topic_index("looks")]++;
    pthread_mutex_unlock(&application->mutex);
    while (!atomic_load(&application->stopped)) (void)nanosleep(&nap, NULL);
    (void)nanosleep(&until_the_server_stops, NULL);
    return STATUS_OK;
}

/* The hooks get the thread's context, which here is the application. */
static enum status key_begin(void *thread, const char *principal, const char *key, const char *sha256,
                             enum idempotency *out, struct idempotent_answer *answer, struct error *error)
{
    struct application *application = thread;
    enum status status = STATUS_OK;
    (void)principal;
    pthread_mutex_lock(&application->mutex);
    int i = 0;
    while (i < application->key_count && strcmp(application->keys[i].key, key) != 0) i++;
    struct stored_key *stored = &application->keys[i % KEYS];
    if (i == application->key_count) {
        if (i == KEYS) status = error_set(error, STATUS_UNAVAILABLE, "no room for keys");
        if (i < KEYS) {
            application->key_count++;
            (void)snprintf(stored->key, sizeof stored->key, "%s", key);
            (void)snprintf(stored->hash, sizeof stored->hash, "%s", sha256);
        }
        *out = IDEMPOTENCY_NEW;
    } else if (strcmp(stored->hash, sha256) != 0) {
        *out = IDEMPOTENCY_MISMATCH;
    } else if (!stored->done) {
        *out = IDEMPOTENCY_BUSY;
    } else {
        *out = IDEMPOTENCY_REPLAY;
        *answer = (struct idempotent_answer){.http_status = stored->http_status, .body = strdup(stored->body)};
        answer->body_length = strlen(stored->body);
        answer->location = strdup("/v1/echo/1");
    }
    pthread_mutex_unlock(&application->mutex);
    return status;
}

static enum status key_finish(void *thread, const char *principal, const char *key,
                              const struct idempotent_answer *answer, struct error *error)
{
    (void)principal;
    (void)error;
    key_keep(thread, key, answer);
    return STATUS_OK;
}

static const struct idempotency_hooks idempotency = {key_begin, key_finish};

static enum status thread_open(void *application, void **thread, struct error *error)
{
    (void)error;
    *thread = application;
    return STATUS_OK;
}

static const struct route routes[] = {
    {"GET", "/healthz", get_healthz, SCOPE_NONE, ROUTE_BODY_NONE, NULL, ROUTE_INLINE | ROUTE_PROBE, NULL},
    {"GET", "/metrics", get_metrics, SCOPE_NONE, ROUTE_BODY_NONE, NULL, ROUTE_INLINE | ROUTE_PROBE, NULL},
    {"POST", "/v1/echo", post_echo, SCOPE_WRITE, ROUTE_BODY_REQUIRED, NULL, 0, NULL},
    {"GET", "/v1/echo/{name}", get_echo, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, NULL},
    {"DELETE", "/v1/echo/{name}", post_act, SCOPE_ADMIN, ROUTE_BODY_NONE, NULL, 0, NULL},
    {"POST", "/v1/large", post_large, SCOPE_WRITE, ROUTE_BODY_REQUIRED, "items", 0, NULL},
    {"POST", "/v1/act", post_act, SCOPE_WRITE, ROUTE_BODY_OPTIONAL, NULL, 0, NULL},
    {"GET", "/v1/big", get_big, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, NULL},
    {"GET", "/v1/slow", get_slow, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, NULL},
    {"GET", "/v1/wait/{topic}", get_wait, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, NULL},
    {"POST", "/v1/wait/{topic}", get_wait, SCOPE_READ, ROUTE_BODY_OPTIONAL, NULL, 0, NULL},
    {"POST", "/v1/wake/{topic}", post_wake, SCOPE_WRITE, ROUTE_BODY_OPTIONAL, NULL, 0, NULL},
    {"GET", "/v1/events/{topic}", get_events, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, NULL},
};

static bool read_arguments(int argc, char **argv, struct http_options *options, const char **directory,
                           const char *tls[2])
{
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--token") == 0) {
            options->token_configured = true;
            options->authorize = authorize;
        } else if (strcmp(argv[i], "--hold") == 0) {
            options->authorize_again = authorize_again;
        } else if (strcmp(argv[i], "--log") == 0) {
            options->access_log = true;
        } else if (strcmp(argv[i], "--short") == 0) {
            options->limits = (struct http_limits){.header_milliseconds = 800,
                                                   .body_milliseconds = 1000,
                                                   .idle_seconds = 2,
                                                   .write_milliseconds = 1500,
                                                   .ping_milliseconds = 300,
                                                   .stream_milliseconds = 2000};
        } else if (strcmp(argv[i], "--patient") == 0) {
            options->limits.body_milliseconds = options->limits.write_milliseconds = 600000;
            options->limits.idle_seconds = 600;
        } else if (strcmp(argv[i], "--connections") == 0) {
            options->limits.connections = (unsigned)strtoul(value, NULL, 10);
            i++;
        } else if (strcmp(argv[i], "--places") == 0) {
            options->limits.streams = options->limits.waits = (unsigned)strtoul(value, NULL, 10);
            i++;
        } else if (strcmp(argv[i], "--listen") == 0) {
            options->listen = value;
            i++;
        } else if (strcmp(argv[i], "--threads") == 0) {
            options->handler_threads = (int)strtol(value, NULL, 10);
            i++;
        } else if (strcmp(argv[i], "--queue") == 0) {
            options->limits.queue = (unsigned)strtoul(value, NULL, 10);
            i++;
        } else if (strcmp(argv[i], "--static") == 0) {
            *directory = value;
            i++;
        } else if (strcmp(argv[i], "--tls") == 0 && i + 2 < argc) {
            tls[0] = argv[++i];
            tls[1] = argv[++i];
        } else if (strcmp(argv[i], "--allow-origin") == 0) {
            options->allowed_origins = (const char *const *)&argv[++i]; /* it is the last: argv ends with NULL */
        } else {
            return false;
        }
    }
    return true;
}

int main(int argc, char **argv)
{
    static const char *const hosts[] = {"deltaq.test", NULL};
    struct application application = {.calls = 0};
    struct http_options options = {.listen = "127.0.0.1:0",
                                   .allowed_hosts = hosts,
                                   .routes = routes,
                                   .route_count = sizeof routes / sizeof routes[0],
                                   .application = &application,
                                   .thread_open = thread_open,
                                   .idempotency = &idempotency};
    struct http_server *server = NULL;
    struct static_files *files = NULL;
    struct error error;
    const char *directory = NULL, *tls[2] = {NULL, NULL};
    struct tls_identity identity = {0};
    sigset_t signals;
    int received = 0;
    (void)pthread_mutex_init(&application.mutex, NULL);
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGINT);
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL);
    if (!read_arguments(argc, argv, &options, &directory, tls)) return 2;
    enum status status = directory != NULL ? static_files_load(directory, &files, &error) : STATUS_OK;
    if (status == STATUS_OK && files != NULL) status = static_files_seal(files, &error);
    if (status == STATUS_OK) status = tls_identity_read(tls[0], tls[1], &identity, &error);
    options.files = files;
    options.tls = &identity;
    if (status == STATUS_OK) status = http_server_start(&options, &server, &error);
    if (status != STATUS_OK) {
        (void)fprintf(stderr, "%s: %s\n", status_info(status)->name, error.detail);
        static_files_free(files);
        tls_identity_reset(&identity);
        return 1;
    }
    (void)printf("%s\n", http_server_url(server));
    (void)fflush(stdout);
    (void)sigwait(&signals, &received);
    atomic_store(&application.stopped, true);
    http_server_stop(server);
    tls_identity_reset(&identity);
    static_files_free(files);
    for (int i = 0; i < application.key_count; i++) free(application.keys[i].body);
    (void)pthread_mutex_destroy(&application.mutex);
    return 0;
}
