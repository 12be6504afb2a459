#include "resources/notifier.h"

#include "http/server.h"
#include "store/changes.h"
#include "store/idempotency.h"
#include "store/webhooks.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* A notification is only a hint that may get lost, so everything is woken once a second in any case. */
enum { TICK_MILLISECONDS = 1000, EXPIRE_TICKS = 3600 };

struct notifier {
    struct connection *connection;
    struct http_server *server;
    int64_t keep_event_days;
    int stop; /* eventfd */
    pthread_t thread;
};

/* What fails here is tried again at the next tick. The question also opens a lost session, which then listens again. */
static void number(struct notifier *notifier)
{
    struct error ignored;
    const enum status status = changes_number(notifier->connection, &ignored);
    (void)status;
}

static void expire(struct notifier *notifier)
{
    struct error ignored;
    bool more = true;
    enum status status = idempotency_expire(notifier->connection, &ignored);
    while (status == STATUS_OK && more)
        status = webhook_prune(notifier->connection, notifier->keep_event_days, &more, &ignored);
    more = true;
    while (status == STATUS_OK && more)
        status = changes_prune(notifier->connection, notifier->keep_event_days, &more, &ignored);
}

static void *notify(void *context)
{
    struct notifier *notifier = context;
    for (int ticks = 0;; ticks++) {
        struct pollfd files[] = {{.fd = notifier->stop, .events = POLLIN},
                                 {.fd = connection_socket(notifier->connection), .events = POLLIN}};
        (void)poll(files, 2, TICK_MILLISECONDS);
        if (files[0].revents != 0) return NULL;
        if (files[1].revents != 0) (void)connection_notified(notifier->connection);
        number(notifier);
        if (ticks % EXPIRE_TICKS == 0) expire(notifier);
        http_server_wake(notifier->server, NULL);
    }
}

enum status notifier_start(const struct notifier_options *options, struct notifier **out, struct error *error)
{
    struct notifier *notifier = calloc(1, sizeof *notifier);
    enum status status;
    *out = NULL;
    if (notifier == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a thread");
    notifier->server = options->server;
    notifier->keep_event_days = options->keep_event_days;
    notifier->stop = eventfd(0, EFD_CLOEXEC);
    status = notifier->stop < 0 ? error_set_errno(error, "making an event descriptor")
                                : connection_new(options->conninfo, "deltaq notify", &notifier->connection, error);
    if (status == STATUS_OK) status = connection_listen(notifier->connection, STORE_CHANNEL, error);
    if (status == STATUS_OK && (errno = pthread_create(&notifier->thread, NULL, notify, notifier)) != 0)
        status = error_set_errno(error, "starting a thread");
    if (status == STATUS_OK) {
        *out = notifier;
        return STATUS_OK;
    }
    connection_free(notifier->connection);
    if (notifier->stop >= 0) (void)close(notifier->stop);
    free(notifier);
    return status;
}

void notifier_stop(struct notifier *notifier)
{
    if (notifier == NULL) return;
    (void)eventfd_write(notifier->stop, 1);
    (void)pthread_join(notifier->thread, NULL);
    connection_free(notifier->connection);
    (void)close(notifier->stop);
    free(notifier);
}
