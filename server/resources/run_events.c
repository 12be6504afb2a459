#include "http/streams.h"
#include "resources/application.h"
#include "resources/handlers.h"
#include "store/runs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One client's stream of a run's events. */
struct run_stream {
    struct store_id run;
    int64_t after;    /* id of the last event sent */
    json_t *progress; /* last sent; owned */
};

static void stream_free(void *state)
{
    struct run_stream *stream = state;
    json_decref(stream->progress);
    free(stream);
}

/* State changes and log lines have ids, so that a client can resume after the last one it saw. */
static enum status send_events(struct run_stream *stream, const json_t *events, struct stream_writer *writer,
                               struct error *error)
{
    size_t index;
    json_t *event;
    enum status status = STATUS_OK;
    json_array_foreach(events, index, event)
    {
        char id[24];
        if (stream_full(writer)) break;
        json_t *data = json_object_get(event, "data");
        if (json_is_object(data)) (void)json_object_set(data, "at", json_object_get(event, "at"));
        (void)snprintf(id, sizeof id, "%lld", (long long)json_integer_value(json_object_get(event, "id")));
        status = stream_event(writer, id, json_string_value(json_object_get(event, "type")), data, error);
        if (status != STATUS_OK) return status;
        stream->after = json_integer_value(json_object_get(event, "id"));
    }
    return status;
}

static int64_t last_id(const json_t *events)
{
    return json_integer_value(json_object_get(json_array_get(events, json_array_size(events) - 1), "id"));
}

static enum status send_progress(struct run_stream *stream, json_t *progress, struct stream_writer *writer,
                                 struct error *error)
{
    if (json_equal(progress, stream->progress)) return STATUS_OK;
    json_decref(stream->progress);
    stream->progress = json_incref(progress);
    return stream_event(writer, NULL, "progress", progress, error);
}

static enum status stream_produce(void *thread, void *state, struct stream_writer *writer, bool *finished,
                                  struct error *error)
{
    struct run_stream *stream = state;
    json_t *document = NULL;
    enum status status = run_watch(thread, stream->run.text, stream->after, &document, error);
    if (status != STATUS_OK) return status;
    const json_t *events = json_object_get(document, "events");
    const char *word = json_string_value(json_object_get(document, "state"));
    const bool final = word != NULL && strcmp(word, "queued") != 0 && strcmp(word, "running") != 0;
    status = send_progress(stream, json_object_get(document, "progress"), writer, error);
    if (status == STATUS_OK) status = send_events(stream, events, writer, error);
    /* No event follows the end: when the next question finds none, these were all. */
    *finished = final && json_array_size(events) == 0;
    if (stream->after < last_id(events) || json_array_size(events) >= RUN_WATCH_MOST || (final && !*finished))
        stream_more(writer);
    json_decref(document);
    return status;
}

enum status run_events_get(struct http_context *context, const struct request *request, struct response *response,
                           struct error *error)
{
    static const struct stream_ops ops = {.produce = stream_produce, .free = stream_free};
    char topic[64];
    json_t *document = NULL;
    enum status status = run_get(application_connection(context), request_parameter(request, "run"), &document, error);
    if (status != STATUS_OK) return status;
    struct run_stream *stream = calloc(1, sizeof *stream);
    if (stream == NULL) {
        json_decref(document);
        return error_set(error, STATUS_NO_MEMORY, "no memory for a stream");
    }
    (void)snprintf(stream->run.text, sizeof stream->run.text, "%s", json_string_value(json_object_get(document, "id")));
    if (request->last_event_id != NULL) stream->after = strtoll(request->last_event_id, NULL, 10);
    (void)snprintf(topic, sizeof topic, "run/%s", stream->run.text);
    json_decref(document);
    return response_stream(response, topic, &ops, stream, error);
}
