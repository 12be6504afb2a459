#include "resources/notifier.h"

#include "http/server.h"
#include "store/idempotency.h"
#include "store/store.h"
#include "store/tokens.h"

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
    int stop; /* eventfd */
    pthread_t thread;
};

/* A lost session opens again, and listens again, with the next question. */
static void ask(struct notifier *notifier, bool expire)
{
    struct error ignored;
    bool any;
    enum status status = token_any(notifier->connection, &any, &ignored);
    if (status == STATUS_OK && expire) status = idempotency_expire(notifier->connection, &ignored);
    (void)status; /* tried again at the next tick */
}

static void *notify(void *context)
{
    struct notifier *notifier = context;
    for (int ticks = 0;; ticks++) {
        struct pollfd files[] = {{.fd = notifier->stop, .events = POLLIN},
                                 {.fd = connection_socket(notifier->connection), .events = POLLIN}};
        const bool lost = files[1].fd < 0;
        (void)poll(files, 2, TICK_MILLISECONDS);
        if (files[0].revents != 0) return NULL;
        if (files[1].revents != 0) (void)connection_notified(notifier->connection);
        if (lost || ticks % EXPIRE_TICKS == 0) ask(notifier, ticks % EXPIRE_TICKS == 0);
        http_server_wake(notifier->server, NULL);
    }
}

enum status notifier_start(const char *conninfo, struct http_server *server, struct notifier **out, struct error *error)
{
    struct notifier *notifier = calloc(1, sizeof *notifier);
    enum status status;
    *out = NULL;
    if (notifier == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a thread");
    notifier->server = server;
    notifier->stop = eventfd(0, EFD_CLOEXEC);
    status = notifier->stop < 0 ? error_set_errno(error, "making an event descriptor")
                                : connection_new(conninfo, "deltaq notify", &notifier->connection, error);
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
