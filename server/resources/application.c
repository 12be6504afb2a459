#include "resources/application.h"

#include "http/json_answer.h"
#include "store/conditions.h"
#include "store/tokens.h"
#include "store/workers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct connection *application_connection(struct http_context *context)
{
    return context->thread;
}

const struct application *application_of(const struct http_context *context)
{
    return context->application;
}

struct dry_run_place application_reading_place(struct http_context *context, const struct monitor *monitor)
{
    const struct application *application = application_of(context);
    return (struct dry_run_place){.connection = application_connection(context),
                                  .roots = application->roots,
                                  .data_directory = application->data_directory,
                                  .device = "cpu",
                                  .memory_bytes = application->memory_bytes,
                                  .device_memory_bytes = application->device_memory_bytes,
                                  .threads = application->threads,
                                  .monitor = monitor,
                                  .hub = application->hub,
                                  .artifact_place = &application->artifact_place};
}

enum status application_dry_run_place(struct http_context *context, const struct monitor *monitor,
                                      struct dry_run_place *out, struct error *error)
{
    const char *device = application_of(context)->device;
    *out = application_reading_place(context, monitor);
    if (device == NULL) return worker_usual_device(out->connection, out->device, error);
    (void)snprintf(out->device, sizeof out->device, "%s", device);
    return STATUS_OK;
}

enum status application_thread_open(void *application, void **thread, struct error *error)
{
    struct connection *connection = NULL;
    const enum status status =
        connection_new(((const struct application *)application)->conninfo, "deltaq serve", &connection, error);
    *thread = connection;
    return status;
}

void application_thread_close(void *application, void *thread)
{
    (void)application;
    connection_free(thread);
}

/* Without any token in the database the server listens only on a loopback address, where our own user and root may do
 * everything. */
static enum status authorize_nobody(struct connection *connection, struct principal *principal, struct error *error)
{
    bool any = true;
    const enum status status = token_any(connection, &any, error);
    if (status != STATUS_OK) return status;
    if (any)
        return error_set(error, STATUS_UNAUTHORIZED,
                         "a token is needed: send Authorization: Bearer TOKEN (deltaq token create)");
    if (!principal->local)
        return error_set(
            error, STATUS_UNAUTHORIZED,
            "a token is needed: you are not the user who runs this server, or that cannot be told from here"
            " (a page of another origin always needs one);"
            " ask that user for one (deltaq token create), or for --trust-loopback");
    *principal = (struct principal){.name = "", .scope = SCOPE_ADMIN, .local = true};
    return STATUS_OK;
}

enum status application_authorize(void *thread, const char *token, enum scope scope, struct principal *principal,
                                  struct error *error)
{
    static const enum scope scopes[] = {
        [TOKEN_READ] = SCOPE_READ, [TOKEN_WRITE] = SCOPE_WRITE, [TOKEN_ADMIN] = SCOPE_ADMIN};
    static const char *const names[] = {"none", "read", "write", "admin"};
    struct token_known found;
    if (token == NULL) return authorize_nobody(thread, principal, error);
    const enum status status = token_check(thread, token, &found, error);
    if (status != STATUS_OK) return status;
    principal->scope = scopes[found.scope];
    (void)snprintf(principal->name, sizeof principal->name, "%s", found.id.text);
    (void)snprintf(principal->label, sizeof principal->label, "%s", found.name);
    if (principal->scope >= scope) return STATUS_OK;
    return error_set(error, STATUS_FORBIDDEN, "the token's scope is \"%s\", this needs \"%s\"", names[principal->scope],
                     names[scope]);
}

enum status application_authorize_again(void *thread, struct http_reader *readers, size_t count, struct error *error)
{
    json_t *ids = json_array(), *valid = NULL, *id;
    size_t i, at;
    enum status status = STATUS_OK;
    for (i = 0; i < count && status == STATUS_OK; i++)
        if (json_array_append_new(ids, json_string(readers[i].token)) != 0)
            status = error_set(error, STATUS_NO_MEMORY, "no memory for the owners of event streams");
    if (status == STATUS_OK) status = token_still(thread, ids, &valid, error);
    for (i = 0; i < count; i++) {
        readers[i].allowed = false;
        json_array_foreach(valid, at, id) if (strcmp(json_string_value(id), readers[i].token) == 0) readers[i].allowed =
            true;
    }
    json_decref(ids);
    json_decref(valid);
    return status;
}

static enum status hold(void *thread, const char *tag, bool *held, struct error *error)
{
    return condition_hold(thread, tag, held, error);
}

/* If that fails the session is lost, and the lock with it. */
static void let_go(void *thread, const char *tag)
{
    struct error error;
    const enum status status = condition_let_go(thread, tag, &error);
    (void)status;
}

const struct condition_hooks application_conditions = {hold, let_go};

static enum status idempotency_begin(void *thread, const char *principal, const char *key, const char *sha256,
                                     enum idempotency *out, struct idempotent_answer *answer, struct error *error)
{
    struct idempotency_answer stored = {0};
    const enum status status = idempotency_claim(thread, principal, key, sha256, &stored, error);
    *answer = (struct idempotent_answer){0};
    *out = status == STATUS_INVALID    ? IDEMPOTENCY_MISMATCH
           : status == STATUS_CONFLICT ? IDEMPOTENCY_BUSY
                                       : IDEMPOTENCY_NEW;
    if (status == STATUS_INVALID || status == STATUS_CONFLICT) return STATUS_OK;
    if (status != STATUS_OK || stored.http_status == 0) return status;
    *out = IDEMPOTENCY_REPLAY;
    answer->http_status = stored.http_status;
    answer->body = stored.body;
    answer->body_length = stored.body != NULL ? strlen(stored.body) : 0;
    answer->location = stored.location;
    if (stored.body != NULL) answer->content_type = strdup("application/json");
    return STATUS_OK;
}

static enum status idempotency_finish(void *thread, const char *principal, const char *key,
                                      const struct idempotent_answer *answer, struct error *error)
{
    if (answer == NULL) return idempotency_forget(thread, principal, key, error);
    const struct idempotency_answer kept = {
        .http_status = answer->http_status, .body = answer->body, .location = answer->location};
    return idempotency_store(thread, principal, key, &kept, error);
}

const struct idempotency_record *application_record(const struct request *request, const char *prefix, int created,
                                                    int existed, struct idempotency_record *out)
{
    const char *key = request_header(request, "Idempotency-Key");
    if (key == NULL) return NULL;
    *out = (struct idempotency_record){.scope = request->principal.name,
                                       .key = key,
                                       .prefix = prefix,
                                       .created = created,
                                       .existed = existed,
                                       .render = json_answer_dump};
    return out;
}

const struct idempotency_hooks application_idempotency = {.begin = idempotency_begin, .finish = idempotency_finish};
