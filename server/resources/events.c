#include "store/changes.h"

#include "http/streams.h"
#include "log/log.h"
#include "resources/application.h"
#include "resources/handlers.h"
#include "store/trajectories.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* BATCH: the most events in one call. SILENT: how many changes a filter may skip before the client gets the present
 * position. */
enum { BATCH = 200, SILENT = 100, FILTERS_MAX = 32 };

/* One client's stream of the change log. */
struct event_stream {
    int64_t after;                /* everything up to there was sent or passed over */
    int64_t told;                 /* the last id that was sent to the client */
    bool follow;                  /* stay open after everything was sent */
    json_t *kinds, *trajectories; /* owned; NULL: all */
};

static void stream_free(void *state)
{
    struct event_stream *stream = state;
    json_decref(stream->kinds);
    json_decref(stream->trajectories);
    free(stream);
}

static enum status tell_position(struct event_stream *stream, struct stream_writer *writer, struct error *error)
{
    char id[24];
    (void)snprintf(id, sizeof id, "%lld", (long long)stream->after);
    stream->told = stream->after;
    return stream_position(writer, id, error);
}

/* *until becomes the last event sent when they are too large for one call. */
static enum status send_events(struct event_stream *stream, const json_t *items, struct stream_writer *writer,
                               int64_t *until, struct error *error)
{
    size_t index;
    json_t *item;
    enum status status = STATUS_OK;
    json_array_foreach(items, index, item)
    {
        char id[24];
        if (stream_full(writer)) {
            *until = stream->told;
            break;
        }
        stream->told = json_integer_value(json_object_get(item, "id"));
        (void)snprintf(id, sizeof id, "%lld", (long long)stream->told);
        status = stream_event(writer, id, json_string_value(json_object_get(item, "kind")),
                              json_object_get(item, "data"), error);
        if (status != STATUS_OK) return status;
    }
    return status;
}

static enum status stream_produce(void *thread, void *state, struct stream_writer *writer, bool *finished,
                                  struct error *error)
{
    struct event_stream *stream = state;
    const struct change_query query = {
        .after = stream->after, .kinds = stream->kinds, .trajectories = stream->trajectories, .limit = BATCH};
    struct change_span span;
    json_t *items = NULL;
    int64_t until = stream->after;
    enum status status = changes_read(thread, &query, &span, &until, &items, error);
    if (status == STATUS_OK) status = changes_check(&span, stream->after, error); /* the client reconnects: 410 */
    if (status == STATUS_OK && span.unreadable != 0)
        log_error(LOG_COMPONENT_DATABASE, "change %lld cannot be read: event streams leave it out",
                  (long long)span.unreadable);
    if (status == STATUS_OK) status = send_events(stream, items, writer, &until, error);
    json_decref(items);
    if (status != STATUS_OK) return status;
    stream->after = until;
    *finished = !stream->follow && until >= span.last;
    if (until < span.last) stream_more(writer);
    const bool behind = until > stream->told && (*finished || until - stream->told >= SILENT);
    return stream->told < 0 || behind ? tell_position(stream, writer, error) : STATUS_OK;
}

static enum status check_kind(const char *kind, struct error *error)
{
    for (const char *const *known = change_kinds; *known != NULL; known++)
        if (strcmp(*known, kind) == 0) return STATUS_OK;
    return request_query_fault(error, "kind",
                               "must be one of run, checkpoint, measurement, verdict, alert, found"
                               " \"%.60s\"",
                               kind);
}

/* The values of a repeated query field; NULL when there are none. */
static enum status read_filter(const struct request *request, const char *field, struct connection *connection,
                               json_t **out, struct error *error)
{
    const char *value;
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && (value = request_query_at(request, field, i)) != NULL; i++) {
        struct store_id id;
        if (i == FILTERS_MAX) return request_query_fault(error, field, "at most %d at once", FILTERS_MAX);
        if (connection != NULL)
            status = trajectory_resolve(connection, value, &id, error);
        else
            status = check_kind(value, error);
        if (*out == NULL) *out = json_array();
        if (status == STATUS_OK && json_array_append_new(*out, json_string(connection != NULL ? id.text : value)) != 0)
            status = error_set(error, STATUS_NO_MEMORY, "no memory for a stream");
    }
    return status;
}

/* The position at which the client continues: after the last event that it saw, else after ?after=, else at the present
 * end. */
static enum status read_position(struct connection *connection, const struct request *request, int64_t *out,
                                 struct error *error)
{
    struct change_span span;
    const char *last = request->last_event_id, *after = request_query(request, "after");
    enum status status = changes_number(connection, error);
    *out = -1;
    if (status == STATUS_OK && last != NULL && last[0] != '\0')
        status = changes_cursor(last, "Last-Event-ID", out, error);
    else if (status == STATUS_OK && after != NULL)
        status = changes_cursor(after, "after", out, error);
    if (status == STATUS_OK) status = changes_span(connection, *out, &span, error);
    if (status != STATUS_OK) return status;
    if (*out >= 0) return changes_check(&span, *out, error);
    *out = span.last;
    return STATUS_OK;
}

static enum status read_follow(const struct request *request, bool *out, struct error *error)
{
    const char *follow = request_query(request, "follow");
    *out = follow == NULL || strcmp(follow, "true") == 0;
    if (*out || strcmp(follow, "false") == 0) return STATUS_OK;
    return request_query_fault(error, "follow", "must be true or false, found \"%.60s\"", follow);
}

enum status events_get(struct http_context *context, const struct request *request, struct response *response,
                       struct error *error)
{
    static const struct stream_ops ops = {.produce = stream_produce, .free = stream_free};
    struct connection *connection = application_connection(context);
    struct event_stream *stream = calloc(1, sizeof *stream);
    if (stream == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a stream");
    stream->told = -1;
    enum status status = read_filter(request, "kind", NULL, &stream->kinds, error);
    if (status == STATUS_OK) status = read_filter(request, "trajectory", connection, &stream->trajectories, error);
    if (status == STATUS_OK) status = read_follow(request, &stream->follow, error);
    if (status == STATUS_OK) status = read_position(connection, request, &stream->after, error);
    if (status == STATUS_OK) return response_stream(response, "changes", &ops, stream, error);
    stream_free(stream);
    return status;
}
