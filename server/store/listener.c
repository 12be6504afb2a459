#include "store/listener.h"

#include "store/store.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { TICK_MILLISECONDS = 1000 };

struct listener {
    struct listener_options options;
    struct connection *connection;
    int stop; /* eventfd */
    pthread_t thread;
};

static void *listen_and_turn(void *context)
{
    struct listener *listener = context;
    for (;;) {
        struct pollfd files[] = {{.fd = listener->stop, .events = POLLIN},
                                 {.fd = connection_socket(listener->connection), .events = POLLIN}};
        (void)poll(files, 2, TICK_MILLISECONDS);
        if (files[0].revents != 0) return NULL;
        if (files[1].revents != 0) (void)connection_notified(listener->connection);
        listener->options.turn(listener->options.context, listener->connection);
    }
}

static void release(struct listener *listener)
{
    connection_free(listener->connection);
    if (listener->stop >= 0) (void)close(listener->stop);
    free(listener);
}

enum status listener_start(const struct listener_options *options, struct listener **out, struct error *error)
{
    struct listener *listener = calloc(1, sizeof *listener);
    enum status status;
    *out = NULL;
    if (listener == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a thread");
    listener->options = *options;
    listener->stop = eventfd(0, EFD_CLOEXEC);
    status = listener->stop < 0 ? error_set_errno(error, "making an event descriptor")
                                : connection_new(options->conninfo, options->application, &listener->connection, error);
    if (status == STATUS_OK) status = connection_listen(listener->connection, STORE_CHANNEL, error);
    if (status == STATUS_OK && (errno = pthread_create(&listener->thread, NULL, listen_and_turn, listener)) != 0)
        status = error_set_errno(error, "starting a thread");
    if (status == STATUS_OK)
        *out = listener;
    else
        release(listener);
    return status;
}

void listener_stop(struct listener *listener)
{
    if (listener == NULL) return;
    (void)eventfd_write(listener->stop, 1);
    (void)pthread_join(listener->thread, NULL);
    release(listener);
}
