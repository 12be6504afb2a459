#include "resources/notifier.h"

#include "base/clock.h"
#include "http/server.h"
#include "store/changes.h"
#include "store/idempotency.h"
#include "store/listener.h"
#include "store/webhooks.h"

#include <stdlib.h>

enum { EXPIRE_SECONDS = 3600 };

struct notifier {
    struct listener *listener;
    struct http_server *server;
    int64_t keep_event_days;
    double expire_at; /* of clock_seconds */
};

static void number(struct connection *connection)
{
    struct error ignored;
    const enum status status = changes_number(connection, &ignored);
    (void)status;
}

static void expire(const struct notifier *notifier, struct connection *connection)
{
    struct error ignored;
    bool more = true;
    enum status status = idempotency_expire(connection, &ignored);
    while (status == STATUS_OK && more) status = webhook_prune(connection, notifier->keep_event_days, &more, &ignored);
    more = true;
    while (status == STATUS_OK && more) status = changes_prune(connection, notifier->keep_event_days, &more, &ignored);
}

static void turn(void *context, struct connection *connection)
{
    struct notifier *notifier = context;
    number(connection);
    if (clock_seconds() >= notifier->expire_at) {
        expire(notifier, connection);
        notifier->expire_at = clock_seconds() + EXPIRE_SECONDS;
    }
    http_server_wake(notifier->server, NULL);
}

enum status notifier_start(const struct notifier_options *options, struct notifier **out, struct error *error)
{
    struct notifier *notifier = calloc(1, sizeof *notifier);
    *out = NULL;
    if (notifier == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a thread");
    notifier->server = options->server;
    notifier->keep_event_days = options->keep_event_days;
    const struct listener_options listening = {
        .conninfo = options->conninfo, .application = "deltaq notify", .turn = turn, .context = notifier};
    const enum status status = listener_start(&listening, &notifier->listener, error);
    if (status == STATUS_OK)
        *out = notifier;
    else
        free(notifier);
    return status;
}

void notifier_stop(struct notifier *notifier)
{
    if (notifier == NULL) return;
    listener_stop(notifier->listener);
    free(notifier);
}
