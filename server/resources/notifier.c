#include "resources/notifier.h"

#include "base/clock.h"
#include "base/hex.h"
#include "http/server.h"
#include "store/changes.h"
#include "store/idempotency.h"
#include "store/listener.h"
#include "store/tokens.h"
#include "store/webhooks.h"

#include <stdio.h>
#include <stdlib.h>

enum { EXPIRE_SECONDS = 3600 };

/* At least between two readings of the tokens; less than between two turns, so that none is left out. */
static const double tokens_seconds = 0.5;

struct notifier {
    struct listener *listener;
    struct http_server *server;
    int64_t keep_event_days;
    double expire_at, tokens_at; /* of clock_seconds: not before */
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

/* However many wrong tokens come, the database is asked about them this often. What fails is wanted again by the next
 * token that is not known. */
static void read_tokens(struct notifier *notifier, struct connection *connection)
{
    struct error ignored;
    struct token_hash *found;
    size_t count, kept = 0;
    if (clock_seconds() < notifier->tokens_at || !http_server_wants_tokens(notifier->server)) return;
    notifier->tokens_at = clock_seconds() + tokens_seconds;
    if (token_valid(connection, &found, &count, &ignored) != STATUS_OK) return;
    struct http_token *tokens = calloc(count + 1, sizeof *tokens);
    for (size_t i = 0; tokens != NULL && i < count; i++) {
        if (!hex_read(found[i].sha256, tokens[kept].sha256, sizeof tokens[kept].sha256)) continue;
        (void)snprintf(tokens[kept].id, sizeof tokens[kept].id, "%s", found[i].id.text);
        kept++;
    }
    free(found);
    if (tokens != NULL) http_server_tokens(notifier->server, tokens, kept);
}

static void turn(void *context, struct connection *connection)
{
    struct notifier *notifier = context;
    number(connection);
    read_tokens(notifier, connection);
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
