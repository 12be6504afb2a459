#include "follow/sender.h"

#include "follow/delivery.h"
#include "log/log.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* The lease outlasts a delivery; after a kill the webhook waits for its end. */
enum { THREADS = 2, TICK_MILLISECONDS = 1000, LEASE_SECONDS = 2 * DELIVERY_SECONDS };

struct sender_thread {
    struct sender *sender; /* lent */
    struct connection *connection;
    pthread_t thread;
    bool started;
    bool said; /* that it failed */
};

struct sender {
    bool allow_private;
    atomic_bool stopping;
    int stop; /* eventfd */
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
        status = webhook_take(self->connection, LEASE_SECONDS, &found, &job, error);
        if (status == STATUS_OK && found) status = serve_job(self, &job, error);
        webhook_job_reset(&job);
    }
    return status;
}

/* What fails is tried again at the next tick, and the lease of a webhook ends by itself; a person is told once, unless
 * the database is just away. */
static void serve(struct sender_thread *self)
{
    struct error error;
    const enum status status = serve_all(self, &error);
    if (status == STATUS_UNAVAILABLE) return;
    if (status != STATUS_OK && !self->said)
        log_error(LOG_COMPONENT_WEBHOOKS, "webhooks cannot be served: %s", error.detail);
    self->said = status != STATUS_OK;
}

static void *send_changes(void *context)
{
    struct sender_thread *self = context;
    for (;;) {
        struct pollfd files[] = {{.fd = self->sender->stop, .events = POLLIN},
                                 {.fd = connection_socket(self->connection), .events = POLLIN}};
        (void)poll(files, 2, TICK_MILLISECONDS);
        if (files[0].revents != 0) return NULL;
        if (files[1].revents != 0) (void)connection_notified(self->connection);
        serve(self);
    }
}

static enum status start_thread(struct sender *sender, struct sender_thread *thread, const char *conninfo,
                                struct error *error)
{
    thread->sender = sender;
    enum status status = connection_new(conninfo, "deltaq send", &thread->connection, error);
    if (status == STATUS_OK) status = connection_listen(thread->connection, STORE_CHANNEL, error);
    if (status == STATUS_OK && (errno = pthread_create(&thread->thread, NULL, send_changes, thread)) != 0)
        status = error_set_errno(error, "starting a thread");
    thread->started = status == STATUS_OK;
    return status;
}

enum status sender_start(const char *conninfo, bool allow_private, struct sender **out, struct error *error)
{
    struct sender *sender = calloc(1, sizeof *sender);
    *out = NULL;
    if (sender == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for threads");
    sender->allow_private = allow_private;
    sender->stop = eventfd(0, EFD_CLOEXEC);
    enum status status = sender->stop < 0 ? error_set_errno(error, "making an event descriptor") : STATUS_OK;
    for (size_t i = 0; i < THREADS && status == STATUS_OK; i++)
        status = start_thread(sender, &sender->threads[i], conninfo, error);
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
    if (sender->stop >= 0) (void)eventfd_write(sender->stop, 1);
    for (size_t i = 0; i < THREADS; i++) {
        if (sender->threads[i].started) (void)pthread_join(sender->threads[i].thread, NULL);
        connection_free(sender->threads[i].connection);
    }
    if (sender->stop >= 0) (void)close(sender->stop);
    free(sender);
}
