#include "follow/sender.h"

#include "follow/delivery.h"
#include "log/log.h"
#include "store/listener.h"

#include <stdlib.h>

/* A row a thread. The first one never waits for a webhook that failed, so those that answer are told at once however
 * many there are that do not. */
static const enum webhook_share shares[] = {WEBHOOKS_HEALTHY, WEBHOOKS_ALL};

/* The lease outlasts a delivery; after a kill the webhook waits for its end. */
enum { THREADS = sizeof shares / sizeof shares[0], LEASE_SECONDS = 2 * DELIVERY_SECONDS };

struct sender_thread {
    struct sender *sender;         /* lent */
    struct listener *listener;     /* owned */
    struct connection *connection; /* the listener's */
    enum webhook_share share;
    bool said; /* that it failed */
};

struct sender {
    bool allow_private;
    atomic_bool stopping;
    struct sender_thread threads[THREADS];
};

static enum status deliver(struct sender_thread *self, const struct webhook_job *job, const json_t *event,
                           struct error *error)
{
    struct delivery_result result;
    const enum status status =
        delivery_post(job, event, self->sender->allow_private, &self->sender->stopping, &result, error);
    if (status != STATUS_OK) return status;
    if (result.stopped) return webhook_release(self->connection, job, error);
    const struct webhook_try what = {.event = json_integer_value(json_object_get(event, "id")),
                                     .kind = json_string_value(json_object_get(event, "kind")),
                                     .seconds = result.seconds,
                                     .http_status = result.http_status,
                                     .error = result.error[0] != '\0' ? result.error : NULL};
    return webhook_tried(self->connection, job, &what, error);
}

/* The next change that the webhook wants, or, where the log goes on without one, a step ahead in it. */
static enum status serve_job(struct sender_thread *self, const struct webhook_job *job, struct error *error)
{
    const struct change_query query = {.after = job->after, .kinds = job->kinds, .limit = 1};
    struct change_span span;
    json_t *items = NULL;
    int64_t until;
    enum status status = changes_read(self->connection, &query, &span, &until, &items, error);
    if (status != STATUS_OK) return status;
    if (span.unreadable != 0)
        log_error(LOG_COMPONENT_WEBHOOKS, "change %lld cannot be read: webhooks leave it out",
                  (long long)span.unreadable);
    if (job->after < span.pruned)
        status = webhook_pass(self->connection, job, span.pruned, true, error);
    else if (json_array_size(items) == 0)
        status = webhook_pass(self->connection, job, until, false, error);
    else
        status = deliver(self, job, json_array_get(items, 0), error);
    json_decref(items);
    return status;
}

static enum status serve_all(struct sender_thread *self, struct error *error)
{
    bool found = true;
    enum status status = changes_number(self->connection, error);
    while (status == STATUS_OK && found && !atomic_load(&self->sender->stopping)) {
        struct webhook_job job;
        status = webhook_take(self->connection, self->share, LEASE_SECONDS, &found, &job, error);
        if (status == STATUS_OK && found) status = serve_job(self, &job, error);
        webhook_job_reset(&job);
    }
    return status;
}

/* What fails is tried again at the next tick, and the lease of a webhook ends by itself; a person is told once, unless
 * the database is just away. */
static void serve(void *context, struct connection *connection)
{
    struct sender_thread *self = context;
    struct error error;
    self->connection = connection;
    const enum status status = serve_all(self, &error);
    if (status == STATUS_UNAVAILABLE) return;
    if (status != STATUS_OK && !self->said)
        log_error(LOG_COMPONENT_WEBHOOKS, "webhooks cannot be served: %s", error.detail);
    self->said = status != STATUS_OK;
}

enum status sender_start(const char *conninfo, bool allow_private, struct sender **out, struct error *error)
{
    struct sender *sender = calloc(1, sizeof *sender);
    enum status status = STATUS_OK;
    *out = NULL;
    if (sender == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for threads");
    sender->allow_private = allow_private;
    for (size_t i = 0; i < THREADS && status == STATUS_OK; i++) {
        const struct listener_options options = {
            .conninfo = conninfo, .application = "deltaq send", .turn = serve, .context = &sender->threads[i]};
        sender->threads[i].sender = sender;
        sender->threads[i].share = shares[i];
        status = listener_start(&options, &sender->threads[i].listener, error);
    }
    if (status == STATUS_OK)
        *out = sender;
    else
        sender_stop(sender);
    return status;
}

void sender_stop(struct sender *sender)
{
    if (sender == NULL) return;
    atomic_store(&sender->stopping, true);
    for (size_t i = 0; i < THREADS; i++) listener_stop(sender->threads[i].listener);
    free(sender);
}
