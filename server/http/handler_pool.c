#include "http/handler_pool.h"

#include "base/clock.h"
#include "http/audit.h"
#include "http/client.h"
#include "http/connection.h"
#include "http/idempotent.h"
#include "http/precondition.h"
#include "http/request_body.h"
#include "http/token_backoff.h"
#include "http/waiters.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { TURN_MILLISECONDS = 10000, LOOK_MILLISECONDS = 50, BUSY_SECONDS = 5 };

struct handler_thread {
    pthread_t thread;
    struct handler_pool *pool;
    void *context;
    pthread_cond_t called;
    bool is_called;
    struct handler_thread *below; /* on the stack of idle threads */
};

struct handler_pool {
    pthread_mutex_t mutex;
    /* The one that became idle last is called first, because its session with the database is warm. */
    struct handler_thread *idle;
    struct http_server *server;
    struct exchange *first, *last;
    unsigned depth, limit;
    bool stopping;
    int count;
    struct handler_thread threads[];
};

/* The application's word on the token, unless too many wrong ones came from there. */
static enum status ask_application(struct exchange *exchange, void *thread, struct error *error)
{
    const struct http_options *options = &exchange->server->options;
    struct token_backoff *backoff = exchange->server->backoff;
    struct request *request = &exchange->request;
    const char *token = client_token(request);
    const struct client_address *from = &exchange->from;
    if (token != NULL && (exchange->retry_seconds = token_backoff_wait(backoff, from, token, clock_milliseconds())) > 0)
        return error_set(error, STATUS_TOO_MANY, "too many wrong tokens came from this address: try again in %d s",
                         exchange->retry_seconds);
    const enum status status = options->authorize(thread, token, exchange->route->scope, &request->principal, error);
    const bool right = status == STATUS_OK || status == STATUS_FORBIDDEN;
    if (token != NULL && (right || status == STATUS_UNAUTHORIZED))
        token_backoff_note(backoff, from, token, right ? request->principal.name : NULL, clock_milliseconds());
    return status;
}

static bool needs_token(const struct exchange *exchange)
{
    return exchange->server->options.authorize != NULL && exchange->route->scope != SCOPE_NONE;
}

/* Says in the answer what kind of token is needed. */
static void challenge(struct exchange *exchange, enum status status)
{
    exchange->refused_who = status == STATUS_UNAUTHORIZED || status == STATUS_FORBIDDEN || status == STATUS_TOO_MANY;
    if (status == STATUS_UNAUTHORIZED)
        answer_header(exchange, "WWW-Authenticate",
                      client_token(&exchange->request) != NULL ? "Bearer realm=\"deltaq\", error=\"invalid_token\""
                                                               : "Bearer realm=\"deltaq\"");
    if (status == STATUS_FORBIDDEN)
        answer_header(exchange, "WWW-Authenticate", "Bearer realm=\"deltaq\", error=\"insufficient_scope\"");
}

static enum status authorize(struct exchange *exchange, void *thread, struct error *error)
{
    struct request *request = &exchange->request;
    request->principal = (struct principal){.scope = SCOPE_ADMIN};
    if (!needs_token(exchange)) return STATUS_OK;
    request->principal.local = exchange->local;
    const enum status status = ask_application(exchange, thread, error);
    challenge(exchange, status);
    return status;
}

/* Others have what it needs just now: when to look again, and for how long. No thread waits for it. */
static enum status wait_for_turn(struct exchange *exchange, const char *what, struct error *error)
{
    const int64_t now = clock_milliseconds();
    if (exchange->retry_deadline_ms == 0) exchange->retry_deadline_ms = now + TURN_MILLISECONDS;
    exchange->retry_ms = now + LOOK_MILLISECONDS;
    if (now < exchange->retry_deadline_ms && !exchange->left && !atomic_load(&exchange->server->stopping))
        return STATUS_OK;
    exchange->retry_seconds = BUSY_SECONDS;
    return error_set(error, STATUS_UNAVAILABLE, "%s: try again in %d s", what, BUSY_SECONDS);
}

/* Checks the token and parses the body, once for each request. *later: its turn has not come. */
static enum status admit(struct exchange *exchange, void *thread, bool *later, struct error *error)
{
    enum status status = STATUS_OK;
    *later = false;
    if (exchange->admitted) return STATUS_OK;
    if (!exchange->authorized) status = authorize(exchange, thread, error);
    exchange->authorized = status == STATUS_OK;
    if (status == STATUS_OK) status = request_body_parse(exchange, later, error);
    if (status == STATUS_OK && *later)
        status = wait_for_turn(exchange, "the memory for bodies of requests is in use by others", error);
    exchange->admitted = status == STATUS_OK && !*later;
    if (exchange->admitted) client_name(exchange, exchange->client);
    if (exchange->admitted) exchange->retry_ms = exchange->retry_deadline_ms = 0;
    return status;
}

static void fail(struct exchange *exchange, enum status status, const struct error *error)
{
    const struct problem problem = problem_of_status(status);
    answer_problem(exchange, &problem, error);
}

/* A token may end while its request waits, and the first one be made: then the answer is a refusal. What a POST has
 * made is told all the same, because it is made, and the log says who made it. */
static void authorize_again(struct exchange *exchange, void *thread)
{
    struct error error = {0};
    if (!exchange->waits || !needs_token(exchange) || strcmp(exchange->request.method, "GET") != 0) return;
    const enum status status = ask_application(exchange, thread, &error);
    if (status == STATUS_OK) return;
    response_reset(&exchange->response);
    challenge(exchange, status);
    fail(exchange, status, &error);
}

/* Whether the handler's wait is granted; the first time it takes a permit and sets the deadline. Of a GET without a
 * permit the error says why; what a POST has made is answered in its present state, for it is made. */
static enum status may_park(struct exchange *exchange, int64_t now, bool *may, struct error *error)
{
    *may = !exchange->request.wait_over;
    if (!*may || exchange->waits) return STATUS_OK;
    const enum status status = permits_take(exchange->server->waits, exchange->client, error);
    *may = exchange->waits = status == STATUS_OK;
    exchange->deadline_ms = now + (int64_t)(exchange->response.wait_seconds * 1000);
    return strcmp(exchange->request.method, "GET") == 0 ? status : STATUS_OK;
}

/* The handler, under its condition if it makes one. *out: whether that holds; the handler ran only if it does. */
static enum status call_conditional(struct exchange *exchange, struct http_context *context, enum precondition *out,
                                    struct error *error)
{
    enum status status = STATUS_OK;
    *out = PRECONDITION_HOLDS;
    if (precondition_given(exchange) && exchange->request.remembered[0] == '\0')
        status = precondition_begin(exchange, context->thread, out, error);
    if (status == STATUS_OK && *out == PRECONDITION_HOLDS)
        status = exchange->route->handler(context, &exchange->request, &exchange->response, error);
    precondition_end(exchange, context->thread);
    return status;
}

/* The monitor of requests: whether anybody still wants the answer, and whether it may still be worked on. The
 * connection is suspended, so nobody else looks at its socket. */
static enum status check_present(void *owner, struct error *error)
{
    struct exchange *exchange = owner;
    if (connection_left(connection_descriptor(exchange->connection)))
        return error_set(error, STATUS_CANCELLED, "the client has left");
    if (atomic_load(&exchange->server->stopping)) return error_set(error, STATUS_UNAVAILABLE, "the server is stopping");
    return STATUS_OK;
}

static enum status check_wanted(void *owner, struct error *error)
{
    struct exchange *exchange = owner;
    const int limit = exchange->server->options.limits.work_milliseconds;
    const enum status status = check_present(owner, error);
    if (status != STATUS_OK) return status;
    if (clock_milliseconds() - exchange->work_ms <= limit) return STATUS_OK;
    return error_set(error, STATUS_TOO_LARGE, "this takes more than the %d s that a request may compute: send less",
                     limit / 1000);
}

/* To the threads for what computes. False: they are busy, and the error says so. A claim on an Idempotency-Key belongs
 * to the session of the thread that made it, so it is given back here and the other thread claims the key again. */
static bool move_to_work(struct exchange *exchange, void *thread, struct error *error)
{
    idempotent_finish(exchange, thread, false);
    exchange->request.working = true;
    exchange->pool = exchange->server->pools[POOL_WORK];
    if (handler_pool_push(exchange->pool, exchange)) return true;
    (void)error_set(error, STATUS_UNAVAILABLE, "too many requests that compute are waiting; try again in a second");
    return false;
}

static void park(struct exchange *exchange)
{
    struct waiters *waiters = exchange->server->waiters;
    exchange->wakes_seen = waiters_sequence(waiters);
    waiters_park(waiters, exchange);
}

/* Sets what the handler reads of the exchange before it is called, or called again. */
static void begin_call(struct exchange *exchange, int64_t now)
{
    struct http_server *server = exchange->server;
    exchange->request.wait_over = exchange->request.wait_over || exchange->left || atomic_load(&server->stopping) ||
                                  (exchange->deadline_ms && exchange->deadline_ms <= now);
    exchange->wakes_seen = waiters_sequence(server->waiters);
    exchange->work_ms = now;
    exchange->monitor = (struct monitor){.owner = exchange, .check = check_wanted};
    exchange->presence = (struct monitor){.owner = exchange, .check = check_present};
    exchange->request.monitor = &exchange->monitor;
    exchange->request.presence = &exchange->presence;
    exchange->request.working = exchange->pool == server->pools[POOL_WORK];
    response_reset(&exchange->response);
}

enum next { NEXT_ANSWER, NEXT_CALL, NEXT_PARKED };

/* The handler waits: parks the exchange, which must not be touched any more then, or lets the handler be called a last
 * time, its wait over. */
static enum next begin_wait(struct exchange *exchange, int64_t now, enum status *status, struct error *error)
{
    bool may;
    memcpy(exchange->request.remembered, exchange->response.memo, sizeof exchange->request.remembered);
    *status = may_park(exchange, now, &may, error);
    if (may) {
        waiters_park(exchange->server->waiters, exchange);
        return NEXT_PARKED;
    }
    if (*status != STATUS_OK) return NEXT_ANSWER;
    if (exchange->request.wait_over) {
        *status = error_set(error, STATUS_INTERNAL, "the handler waits although its wait is over");
        return NEXT_ANSWER;
    }
    exchange->request.wait_over = true;
    return NEXT_CALL;
}

/* Runs the handler; false when the exchange is parked or moved and must not be touched any more. */
static bool call_handler(struct exchange *exchange, void *thread)
{
    struct http_server *server = exchange->server;
    struct http_context context = {server->options.application, thread, server};
    while (true) {
        struct error error = {0};
        const int64_t now = clock_milliseconds();
        begin_call(exchange, now);
        enum precondition condition;
        enum status status = call_conditional(exchange, &context, &condition, &error);
        if (status == STATUS_OK && condition == PRECONDITION_BUSY) {
            status = wait_for_turn(exchange, "another conditional change of this is being made", &error);
            if (status == STATUS_OK) {
                idempotent_finish(exchange, thread, false); /* as in move_to_work */
                park(exchange);
                return false;
            }
        }
        if (status == STATUS_OK && condition == PRECONDITION_FAILED) {
            const struct problem problem = problem_row(PROBLEM_PRECONDITION);
            answer_problem(exchange, &problem, &error);
            idempotent_finish(exchange, thread, false);
            return true;
        }
        if (status == STATUS_OK && exchange->response.kind == RESPONSE_UNSET)
            status = error_set(&error, STATUS_INTERNAL, "the handler gave no answer");
        if (status == STATUS_OK && exchange->response.kind == RESPONSE_WAIT) {
            const enum next next = begin_wait(exchange, now, &status, &error);
            if (next == NEXT_PARKED) return false;
            if (next == NEXT_CALL) continue;
        }
        if (status == STATUS_OK && exchange->response.kind == RESPONSE_TO_WORK) {
            if (move_to_work(exchange, thread, &error)) return false;
            status = error.status;
        }
        if (status != STATUS_OK) {
            response_drop_headers(&exchange->response);
            fail(exchange, status, &error);
        }
        idempotent_finish(exchange, thread, status == STATUS_OK);
        return true;
    }
}

/* On the network thread the connection goes on. */
static void give_answer(struct exchange *exchange)
{
    audit_answer(exchange);
    answer_prepare(exchange);
    MHD_resume_connection(exchange->connection);
}

/* Before the body is received. */
static void check(struct exchange *exchange, void *thread)
{
    struct error error = {0};
    const enum status status = authorize(exchange, thread, &error);
    exchange->authorized = status == STATUS_OK;
    if (status == STATUS_OK) {
        MHD_resume_connection(exchange->connection);
        return;
    }
    if (!exchange->swallow) exchange->close = true;
    fail(exchange, status, &error);
    give_answer(exchange);
}

static void serve(struct handler_pool *pool, struct exchange *exchange, void *thread)
{
    if (exchange->stage == EXCHANGE_CHECKING) {
        check(exchange, thread);
        return;
    }
    struct error error = {0};
    enum idempotent_step step = IDEMPOTENT_ANSWERED;
    bool later;
    enum status status = admit(exchange, thread, &later, &error);
    if (status != STATUS_OK)
        fail(exchange, status, &error);
    else if (!later)
        step = idempotent_begin(exchange, thread);
    if ((status == STATUS_OK && later) || step == IDEMPOTENT_PARK) {
        park(exchange);
        return;
    }
    if (exchange->body.file != NULL) body_reset(&pool->server->bodies, &exchange->body);
    if (step == IDEMPOTENT_RUN && !call_handler(exchange, thread)) return;
    authorize_again(exchange, thread);
    request_body_drop(exchange);
    give_answer(exchange);
}

static void wait_idle(struct handler_thread *self)
{
    struct handler_pool *pool = self->pool;
    self->is_called = false;
    self->below = pool->idle;
    pool->idle = self;
    while (!self->is_called) pthread_cond_wait(&self->called, &pool->mutex);
}

/* False: none is idle. */
static bool call_idle(struct handler_pool *pool)
{
    struct handler_thread *thread = pool->idle;
    if (thread == NULL) return false;
    pool->idle = thread->below;
    thread->is_called = true;
    pthread_cond_signal(&thread->called);
    return true;
}

static void *run(void *closure)
{
    struct handler_thread *self = closure;
    struct handler_pool *pool = self->pool;
    pthread_mutex_lock(&pool->mutex);
    while (true) {
        while (pool->first == NULL && !pool->stopping) wait_idle(self);
        if (pool->stopping) break;
        struct exchange *exchange = pool->first;
        pool->first = exchange->next;
        if (pool->first == NULL) pool->last = NULL;
        pool->depth--;
        pthread_mutex_unlock(&pool->mutex);
        exchange->next = NULL;
        serve(pool, exchange, self->context);
        pthread_mutex_lock(&pool->mutex);
    }
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

static bool push(struct handler_pool *pool, struct exchange *exchange, bool again)
{
    pthread_mutex_lock(&pool->mutex);
    const bool space = !pool->stopping && (again || pool->depth < pool->limit);
    if (space) {
        exchange->next = NULL;
        if (pool->last != NULL)
            pool->last->next = exchange;
        else
            pool->first = exchange;
        pool->last = exchange;
        pool->depth++;
        (void)call_idle(pool);
    }
    pthread_mutex_unlock(&pool->mutex);
    return space;
}

static void answer_busy(struct exchange *exchange)
{
    struct error error;
    const struct problem problem = problem_row(PROBLEM_BUSY);
    (void)error_set(&error, STATUS_UNAVAILABLE, "the server is stopping");
    exchange->close = true;
    answer_problem(exchange, &problem, &error);
    give_answer(exchange);
}

bool handler_pool_push(struct handler_pool *pool, struct exchange *exchange)
{
    return push(pool, exchange, false);
}

void handler_pool_push_again(struct exchange *exchange)
{
    if (!push(exchange->pool, exchange, true)) answer_busy(exchange);
}

unsigned handler_pool_depth(struct handler_pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    const unsigned depth = pool->depth;
    pthread_mutex_unlock(&pool->mutex);
    return depth;
}

enum status handler_pool_start(struct http_server *server, int threads, unsigned limit, struct handler_pool **out,
                               struct error *error)
{
    const struct http_options *options = &server->options;
    enum status status = STATUS_OK;
    struct handler_pool *pool = calloc(1, sizeof *pool + (size_t)threads * sizeof pool->threads[0]);
    *out = NULL;
    if (pool == NULL) return error_set(error, STATUS_NO_MEMORY, "out of memory for the handler threads");
    pool->server = server;
    pool->limit = limit;
    (void)pthread_mutex_init(&pool->mutex, NULL);
    while (pool->count < threads) {
        struct handler_thread *thread = &pool->threads[pool->count];
        thread->pool = pool;
        (void)pthread_cond_init(&thread->called, NULL);
        if (options->thread_open != NULL &&
            (status = options->thread_open(options->application, &thread->context, error)) != STATUS_OK)
            goto failed;
        if (pthread_create(&thread->thread, NULL, run, thread) != 0) {
            if (options->thread_close != NULL) options->thread_close(options->application, thread->context);
            status = error_set(error, STATUS_NO_MEMORY, "cannot start a handler thread");
            goto failed;
        }
        pool->count++;
    }
    *out = pool;
    return STATUS_OK;
failed:
    handler_pool_stop(pool);
    handler_pool_free(pool);
    return status;
}

void handler_pool_stop(struct handler_pool *pool)
{
    const struct http_options *options = &pool->server->options;
    pthread_mutex_lock(&pool->mutex);
    pool->stopping = true;
    while (call_idle(pool)) continue;
    pthread_mutex_unlock(&pool->mutex);
    for (int i = 0; i < pool->count; i++) {
        (void)pthread_join(pool->threads[i].thread, NULL);
        (void)pthread_cond_destroy(&pool->threads[i].called);
        if (options->thread_close != NULL) options->thread_close(options->application, pool->threads[i].context);
    }
    pool->count = 0;
    while (pool->first != NULL) {
        struct exchange *exchange = pool->first;
        pool->first = exchange->next;
        answer_busy(exchange);
    }
    pool->last = NULL;
    pool->depth = 0;
}

void handler_pool_free(struct handler_pool *pool)
{
    if (pool == NULL) return;
    (void)pthread_mutex_destroy(&pool->mutex);
    free(pool);
}
