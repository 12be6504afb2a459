#include "http/audit.h"

#include "base/clock.h"
#include "http/access_log.h"
#include "http/metrics.h"
#include "http/rate_limit.h"
#include "log/log.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { SHOWN = 200 };

struct actor {
    const char *kind; /* "token", "local", "nobody" */
    char text[2 * SHOWN];
};

/* The object of the request: the last part of Location, else the first parameter of the route; "": none. */
static void put_object(const struct exchange *exchange, char out[SHOWN])
{
    const struct request *request = &exchange->request;
    const char *text = request->parameter_count > 0 ? request->parameters[0].value : "";
    for (size_t i = 0; i < exchange->response.header_count; i++) {
        const struct response_header *header = &exchange->response.headers[i];
        if (strcmp(header->name, "Location") == 0 && strrchr(header->value, '/') != NULL)
            text = strrchr(header->value, '/') + 1;
    }
    access_log_shown(text, out, SHOWN);
}

static struct actor actor_of(const struct exchange *exchange)
{
    const struct principal *principal = &exchange->request.principal;
    struct actor actor = {.kind = "nobody", .text = "nobody"};
    char label[SHOWN];
    if (principal->name[0] != '\0') {
        actor.kind = "token";
        access_log_shown(principal->label, label, sizeof label);
        (void)snprintf(actor.text, sizeof actor.text, "token %s%s%s%s", principal->name, label[0] ? " (" : "", label,
                       label[0] ? ")" : "");
    } else if (exchange->local) {
        actor.kind = "local";
        if (exchange->user != (uid_t)-1)
            (void)snprintf(actor.text, sizeof actor.text, "local user %u", (unsigned)exchange->user);
        else
            (void)snprintf(actor.text, sizeof actor.text, "a local user");
    }
    return actor;
}

static void write_line(const struct exchange *exchange, bool refused, int http_status, unsigned left_out)
{
    const struct principal *principal = &exchange->request.principal;
    const char *method = exchange->route != NULL ? exchange->route->method : "other";
    char object[SHOWN], path[SHOWN], label[SHOWN], from[INET6_ADDRSTRLEN], more[40] = "";
    const struct actor actor = actor_of(exchange);
    put_object(exchange, object);
    access_log_shown(exchange->request.path, path, sizeof path);
    access_log_shown(principal->label, label, sizeof label);
    client_address_text(&exchange->from, from);
    json_t *fields = json_pack(
        "{ss ss ss ss ss ss si}", "event", refused ? "refused" : "change", "actor", actor.kind, "from", from, "method",
        method, "route", exchange->route != NULL ? exchange->route->pattern : "", "path", path, "status", http_status);
    if (object[0] != '\0') (void)json_object_set_new(fields, "object", json_string(object));
    if (principal->name[0] != '\0') {
        (void)json_object_set_new(fields, "token", json_string(principal->name));
        (void)json_object_set_new(fields, "token_name", json_string(label));
    }
    if (exchange->user != (uid_t)-1) (void)json_object_set_new(fields, "uid", json_integer(exchange->user));
    if (left_out > 0) (void)json_object_set_new(fields, "left_out", json_integer(left_out));
    if (left_out > 0) (void)snprintf(more, sizeof more, ", %u more not shown", left_out);
    const struct log_about about = {.level = refused ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO,
                                    .component = LOG_COMPONENT_AUDIT,
                                    .request = exchange->request.id,
                                    .more = fields,
                                    .may_drop = refused};
    log_line(&about, "%s %s from %s: %s %s %d%s%s%s", exchange->request.id, actor.text, from, method, path, http_status,
             object[0] != '\0' ? " " : "", object, more);
}

void audit_answer(struct exchange *exchange)
{
    struct http_server *server = exchange->server;
    const struct route *route = exchange->route;
    const bool refused = exchange->refused_who;
    unsigned char key[RATE_LIMIT_KEY];
    if (server->options.authorize == NULL) return; /* clients are not distinguished */
    if (exchange->replayed) return;
    if (refused) metrics_refused(server->metrics, METRICS_REFUSED_WHO);
    if (!refused && !(exchange->authorized && route->scope >= SCOPE_WRITE && strcmp(route->method, "GET") != 0)) return;
    client_address_key(&exchange->from, key);
    if (refused && rate_limit_take(server->refusals, key, clock_milliseconds()) > 0)
        (void)atomic_fetch_add(&server->refusals_left_out, 1);
    else
        write_line(exchange, refused, exchange->response.http_status,
                   refused ? atomic_exchange(&server->refusals_left_out, 0) : 0);
}

void audit_rate(struct exchange *exchange, bool token, const unsigned char key[AUDIT_KEY])
{
    struct http_server *server = exchange->server;
    static_assert((int)AUDIT_KEY == (int)RATE_LIMIT_KEY, "it is that key");
    metrics_refused(server->metrics, token ? METRICS_REFUSED_TOKEN_RATE : METRICS_REFUSED_ADDRESS_RATE);
    if (rate_limit_take(server->rate_lines, key, clock_milliseconds()) > 0)
        (void)atomic_fetch_add(&server->rate_left_out, 1);
    else
        write_line(exchange, true, 429, atomic_exchange(&server->rate_left_out, 0));
}
