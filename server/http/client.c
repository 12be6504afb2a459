#include "http/client.h"

#include "base/clock.h"
#include "http/audit.h"
#include "http/connection.h"
#include "http/lint.h"
#include "http/peer.h"
#include "http/rate_limit.h"
#include "http/token_backoff.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

const char *client_token(const struct request *request)
{
    const char *value = request_header(request, "Authorization");
    if (value == NULL || strncasecmp(value, "Bearer ", 7) != 0) return NULL;
    value += 7;
    return value + strspn(value, " ");
}

void client_identify(struct exchange *exchange)
{
    const struct http_options *options = &exchange->server->options;
    const struct request *request = &exchange->request;
    const int descriptor = connection_descriptor(exchange->connection);
    struct sockaddr_storage peer = {.ss_family = AF_UNIX}; /* also where the other end has gone */
    socklen_t length = sizeof peer;
    bool proxied;
    (void)getpeername(descriptor, (struct sockaddr *)&peer, &length);
    exchange->from = client_address_of((const struct sockaddr *)&peer);
    exchange->from = client_address_forwarded(&exchange->from, options->trusted_proxies, request, &proxied);
    exchange->user = (uid_t)-1;
    if (options->authorize == NULL || proxied || !client_address_is_here(&exchange->from)) return;
    const uid_t user = peer_user(descriptor);
    exchange->from.user = (uint32_t)user + 1;
    if (client_token(request) != NULL || lint_other_page(request)) return;
    const bool ours = peer_is_ours(user);
    if (ours) exchange->user = user;
    exchange->local = ours || options->trust_loopback;
}

void client_name(const struct exchange *exchange, char out[PERMITS_CLIENT])
{
    const struct client_address network = client_address_network(&exchange->from);
    char address[INET6_ADDRSTRLEN];
    static_assert((int)PERMITS_CLIENT >= (int)TOKEN_ID && (int)PERMITS_CLIENT >= (int)INET6_ADDRSTRLEN, "it fits");
    client_address_text(&network, address);
    const char *token = exchange->request.principal.name;
    (void)snprintf(out, PERMITS_CLIENT, "%s", token[0] != '\0' ? token : address);
}

int client_wait(struct exchange *exchange, const char **what)
{
    struct http_server *server = exchange->server;
    const char *token = client_token(&exchange->request);
    const int64_t now = clock_milliseconds();
    unsigned char sha256[TOKEN_SHA256], key[RATE_LIMIT_KEY];
    static_assert(sizeof sha256 >= sizeof key, "a token's key is the beginning of its hash");
    static_assert(sizeof exchange->request.principal.name == TOKEN_ID, "one is copied into the other");
    if (exchange->user != (uid_t)-1) return 0; /* ours; --trust-loopback lets others in, and they may be many */
    const bool known =
        token != NULL && token_backoff_knows(server->backoff, token, now, sha256, exchange->request.principal.name);
    struct rate_limit *limit = known ? server->by_token : server->by_address;
    *what = known ? "this token" : "this address";
    if (known)
        memcpy(key, sha256, sizeof key);
    else
        client_address_key(&exchange->from, key);
    const int seconds = limit != NULL ? rate_limit_take(limit, key, now) : 0;
    if (seconds > 0) audit_rate(exchange, known, key);
    return seconds;
}
