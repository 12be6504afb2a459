#include "http/streams.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "http/connection.h"
#include "http/exchange.h"
#include "http/json_answer.h"
#include "http/stream_registry.h"
#include "log/log.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* BATCH: as many bytes are enough for one call of produce, and no more is produced while as many wait for the reader.
 * EVENT_MAX: a larger event is left out, because a stream that ended there would end there each time. */
enum { BATCH = 256 << 10, EVENT_MAX = 8 << 20, RETRY_MILLISECONDS = 1000, LOOK_MILLISECONDS = 1000, READ_BLOCK = 4096 };

struct stream {
    struct stream *next;
    struct streams *owner;
    struct MHD_Connection *connection; /* NULL until it has a response */
    int descriptor;                    /* its socket, for a look whether the client is still there */
    const struct stream_ops *ops;
    void *state;
    char topic[TOPIC_SIZE], client[PERMITS_CLIENT], token[HTTP_TOKEN_ID];
    struct buffer pending; /* bytes not yet read, from `offset` on */
    size_t offset;
    int64_t born_ms, written_ms, next_ms; /* next: when to produce or ping at the latest */
    bool dirty;                           /* woken since the last produce */
    bool more;                            /* produce has more for when all of `pending` was read */
    bool finished;                        /* no more will be written */
    bool suspended;                       /* the reader found nothing and sleeps */
    bool busy;                            /* the broadcaster is in produce */
    bool released;                        /* the response is gone: free it when not busy */
};

struct stream_writer {
    struct buffer buffer;
    bool more;
};

struct streams {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t thread;
    struct stream *first;
    unsigned count;
    struct permits *permits;
    int64_t ping_ms, life_ms, look_ms;
    bool in_doubt; /* nobody could say whether the owners of the streams may read on: nothing is produced */
    bool stopping;
    const struct http_options *options; /* lent */
    void *context;                      /* the broadcaster's, from thread_open */
};

/* Its id is sent alone, so that the client goes on behind it. */
static void leave_out(struct stream_writer *writer, const char *id, const char *event, size_t bytes)
{
    log_error(LOG_COMPONENT_HTTP, "an event stream leaves %s %s out: its %zu bytes are too many", event,
              id != NULL ? id : "without an id", bytes);
    buffer_printf(&writer->buffer, ": %s left out: its %zu bytes are too many\n", event, bytes);
    if (id != NULL) buffer_printf(&writer->buffer, "id: %s\n", id);
    buffer_puts(&writer->buffer, "\n");
}

enum status stream_event(struct stream_writer *writer, const char *id, const char *event, const json_t *data,
                         struct error *error)
{
    char *text = json_answer_dump(data);
    if (text == NULL) return error_set(error, STATUS_NO_MEMORY, "out of memory for an event");
    const size_t length = strlen(text);
    if (length > EVENT_MAX) {
        leave_out(writer, id, event, length);
    } else {
        if (id != NULL) buffer_printf(&writer->buffer, "id: %s\n", id);
        buffer_printf(&writer->buffer, "event: %s\ndata: ", event);
        buffer_append(&writer->buffer, text, length); /* compact JSON holds no line break */
        buffer_puts(&writer->buffer, "\n\n");
    }
    free(text);
    return buffer_status(&writer->buffer, "events", error);
}

bool stream_full(const struct stream_writer *writer)
{
    return writer->buffer.length >= BATCH;
}

enum status stream_position(struct stream_writer *writer, const char *id, struct error *error)
{
    buffer_printf(&writer->buffer, "id: %s\n\n", id);
    return buffer_status(&writer->buffer, "events", error);
}

void stream_more(struct stream_writer *writer)
{
    writer->more = true;
}

static void stream_destroy(struct stream *stream)
{
    stream->ops->free(stream->state);
    buffer_reset(&stream->pending);
    free(stream);
}

/* Unlinks; the mutex is held. */
static void stream_unlink(struct stream *stream)
{
    struct streams *streams = stream->owner;
    struct stream **link = &streams->first;
    while (*link != NULL && *link != stream) link = &(*link)->next;
    if (*link != NULL) {
        *link = stream->next;
        streams->count--;
        permits_give(streams->permits, stream->client);
    }
}

enum status streams_new(struct streams *streams, const struct stream_owner *owner, const char *topic,
                        const struct stream_ops *ops, void *state, struct stream **out, struct error *error)
{
    struct stream *stream = calloc(1, sizeof *stream);
    *out = NULL;
    if (stream == NULL) {
        ops->free(state);
        return error_set(error, STATUS_NO_MEMORY, "out of memory for a stream");
    }
    *stream = (struct stream){.owner = streams, .ops = ops, .state = state, .born_ms = clock_milliseconds()};
    stream->written_ms = stream->born_ms;
    (void)snprintf(stream->topic, sizeof stream->topic, "%s", topic);
    (void)snprintf(stream->client, sizeof stream->client, "%s", owner->client);
    (void)snprintf(stream->token, sizeof stream->token, "%s", owner->token);
    pthread_mutex_lock(&streams->mutex);
    const enum status status = streams->stopping ? error_set(error, STATUS_UNAVAILABLE, "the server is stopping")
                                                 : permits_take(streams->permits, stream->client, error);
    if (status == STATUS_OK) {
        stream->next = streams->first;
        streams->first = stream;
        streams->count++;
    }
    pthread_mutex_unlock(&streams->mutex);
    if (status == STATUS_OK)
        *out = stream;
    else
        stream_destroy(stream);
    return status;
}

void streams_discard(struct stream *stream)
{
    if (stream == NULL) return;
    pthread_mutex_lock(&stream->owner->mutex);
    stream_unlink(stream);
    pthread_mutex_unlock(&stream->owner->mutex);
    stream_destroy(stream);
}

/* libmicrohttpd asks for bytes. When there are none the connection is suspended, because returning 0 alone would
 * spin. */
static ssize_t stream_read(void *closure, uint64_t position, char *out, size_t size)
{
    struct stream *stream = closure;
    (void)position;
    ssize_t result = 0;
    pthread_mutex_lock(&stream->owner->mutex);
    const size_t waiting = stream->pending.length - stream->offset;
    if (waiting > 0) {
        const size_t length = waiting < size ? waiting : size;
        memcpy(out, stream->pending.bytes + stream->offset, length);
        stream->offset += length;
        if (stream->offset == stream->pending.length) {
            buffer_reset(&stream->pending);
            stream->offset = 0;
            if (stream->more || stream->dirty) pthread_cond_signal(&stream->owner->changed);
        }
        result = (ssize_t)length;
    } else if (stream->finished) {
        result = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        stream->suspended = true;
        MHD_suspend_connection(stream->connection);
    }
    pthread_mutex_unlock(&stream->owner->mutex);
    return result;
}

static void stream_release(void *closure)
{
    struct stream *stream = closure;
    struct streams *streams = stream->owner;
    pthread_mutex_lock(&streams->mutex);
    stream_unlink(stream);
    stream->released = true;
    const bool destroy = !stream->busy;
    pthread_mutex_unlock(&streams->mutex);
    if (destroy) stream_destroy(stream);
}

struct MHD_Response *streams_response(struct stream *stream, struct MHD_Connection *connection)
{
    struct streams *streams = stream->owner;
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, READ_BLOCK, stream_read, stream, stream_release);
    if (response == NULL) return NULL;
    pthread_mutex_lock(&streams->mutex);
    stream->descriptor = connection_descriptor(connection);
    stream->connection = connection;
    stream->dirty = true;
    buffer_puts(&stream->pending, "retry: 2000\n\n"); /* reconnect after two seconds */
    pthread_cond_signal(&streams->changed);
    pthread_mutex_unlock(&streams->mutex);
    return response;
}

/* Lets a sleeping reader read; the mutex is held. */
static void stream_resume(struct stream *stream)
{
    if (!stream->suspended) return;
    stream->suspended = false;
    MHD_resume_connection(stream->connection);
}

/* Adds what produce wrote; the mutex is held. */
static void stream_append(struct stream *stream, const char *bytes, size_t length)
{
    if (stream->offset > 0) {
        memmove(stream->pending.bytes, stream->pending.bytes + stream->offset,
                stream->pending.length - stream->offset + 1);
        stream->pending.length -= stream->offset;
        stream->offset = 0;
    }
    buffer_append(&stream->pending, bytes, length);
    if (stream->pending.status != STATUS_OK) stream->finished = true; /* the client comes again */
}

static enum status produce(struct streams *streams, struct stream *stream, struct stream_writer *writer, bool *finished,
                           struct error *error)
{
    if (streams->in_doubt) return error_set(error, STATUS_UNAVAILABLE, "whether it may be read is not known");
    return stream->ops->produce(streams->context, stream->state, writer, finished, error);
}

/* One round for one stream; called and left with the mutex held. */
static void stream_serve(struct streams *streams, struct stream *stream, int64_t now)
{
    struct stream_writer writer = {0};
    struct error error = {0};
    bool finished = false;
    stream->busy = true;
    stream->dirty = false;
    pthread_mutex_unlock(&streams->mutex);
    enum status status = produce(streams, stream, &writer, &finished, &error);
    pthread_mutex_lock(&streams->mutex);
    stream->busy = false;
    stream->more = writer.more;
    if (stream->released) {
        buffer_reset(&writer.buffer);
        stream_destroy(stream);
        return;
    }
    stream->finished =
        finished || (status != STATUS_OK && status != STATUS_UNAVAILABLE) || now - stream->born_ms > streams->life_ms;
    const bool silent = writer.buffer.length == 0;
    if (!silent || now - stream->written_ms >= streams->ping_ms) {
        if (silent)
            stream_append(stream, ": ping\n\n", 8);
        else
            stream_append(stream, writer.buffer.bytes, writer.buffer.length);
        stream->written_ms = now;
    }
    stream->next_ms = status == STATUS_UNAVAILABLE ? now + RETRY_MILLISECONDS : stream->written_ms + streams->ping_ms;
    buffer_reset(&writer.buffer);
    stream_resume(stream);
}

/* Ends the streams of clients that have left. The mutex is held; the socket of a suspended stream is still open. */
static void look_for_gone(struct streams *streams)
{
    for (struct stream *stream = streams->first; stream != NULL; stream = stream->next) {
        if (!stream->suspended || stream->busy) continue;
        if (!connection_left(stream->descriptor)) continue;
        stream->finished = true;
        stream_resume(stream);
    }
}

static struct http_reader *find_reader(struct http_reader *readers, size_t count, const char *token)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(readers[i].token, token) == 0) return &readers[i];
    return NULL;
}

/* The owners of all streams, each once; the caller frees them. NULL: no memory. The mutex is held. */
static struct http_reader *readers_of(const struct streams *streams, size_t *count)
{
    struct http_reader *readers = calloc(streams->count + 1, sizeof *readers);
    *count = 0;
    if (readers == NULL) return NULL;
    for (const struct stream *stream = streams->first; stream != NULL; stream = stream->next)
        if (find_reader(readers, *count, stream->token) == NULL)
            (void)snprintf(readers[(*count)++].token, HTTP_TOKEN_ID, "%s", stream->token);
    return readers;
}

/* Ends the stream without the events that its client has not read; the mutex is held. */
static void stream_forbid(struct stream *stream)
{
    stream->finished = true;
    buffer_reset(&stream->pending);
    stream->offset = 0;
    stream_resume(stream);
}

/* Ends the streams of those who may not read on; the client comes again and is told why. Called and left with the mutex
 * held, which it gives up while it asks. */
static void look_for_forbidden(struct streams *streams)
{
    const struct http_options *options = streams->options;
    struct error error = {0};
    size_t count;
    if (options->authorize_again == NULL || streams->first == NULL) return;
    struct http_reader *readers = readers_of(streams, &count);
    streams->in_doubt = true;
    if (readers == NULL) return;
    pthread_mutex_unlock(&streams->mutex);
    const enum status status = options->authorize_again(streams->context, readers, count, &error);
    pthread_mutex_lock(&streams->mutex);
    streams->in_doubt = status != STATUS_OK;
    for (struct stream *stream = streams->first; status == STATUS_OK && stream != NULL; stream = stream->next) {
        const struct http_reader *reader = find_reader(readers, count, stream->token);
        if (reader != NULL && !reader->allowed) stream_forbid(stream); /* NULL: it was opened just now */
    }
    free(readers);
}

static void look(struct streams *streams)
{
    const int64_t now = clock_milliseconds();
    if (now < streams->look_ms) return;
    streams->look_ms = now + LOOK_MILLISECONDS;
    look_for_gone(streams);
    look_for_forbidden(streams);
}

/* The first stream that is due, and the earliest time that another will be; the mutex is held. */
static struct stream *stream_due(struct streams *streams, int64_t now, int64_t *earliest)
{
    *earliest = streams->first != NULL ? streams->look_ms : now + 60000;
    for (struct stream *stream = streams->first; stream != NULL; stream = stream->next) {
        if (stream->connection == NULL || stream->finished || stream->busy) continue;
        const size_t waiting = stream->pending.length - stream->offset;
        if (waiting >= BATCH || (stream->more && waiting > 0)) continue;
        if (stream->more || stream->dirty || stream->next_ms <= now) return stream;
        if (stream->next_ms < *earliest) *earliest = stream->next_ms;
    }
    return NULL;
}

static void wait_until(struct streams *streams, int64_t milliseconds)
{
    struct timespec until = {.tv_sec = milliseconds / 1000, .tv_nsec = (milliseconds % 1000) * 1000000};
    (void)pthread_cond_timedwait(&streams->changed, &streams->mutex, &until);
}

static void *broadcast(void *closure)
{
    struct streams *streams = closure;
    pthread_mutex_lock(&streams->mutex);
    for (;;) {
        int64_t earliest;
        look(streams);
        if (streams->stopping) break; /* after the look, which gives the mutex up */
        const int64_t now = clock_milliseconds();
        struct stream *stream = stream_due(streams, now, &earliest);
        if (stream != NULL)
            stream_serve(streams, stream, now);
        else
            wait_until(streams, earliest);
    }
    pthread_mutex_unlock(&streams->mutex);
    return NULL;
}

enum status streams_start(const struct http_options *options, struct streams **out, struct error *error)
{
    enum status status;
    pthread_condattr_t attributes;
    struct streams *streams = calloc(1, sizeof *streams);
    *out = NULL;
    if (streams == NULL) return error_set(error, STATUS_NO_MEMORY, "out of memory for the streams");
    streams->options = options;
    streams->ping_ms = options->limits.ping_milliseconds;
    streams->life_ms = options->limits.stream_milliseconds;
    status = permits_new(options->limits.streams, "event streams", &streams->permits, error);
    if (status == STATUS_OK && options->thread_open != NULL)
        status = options->thread_open(options->application, &streams->context, error);
    if (status != STATUS_OK) {
        permits_free(streams->permits);
        free(streams);
        return status;
    }
    (void)pthread_mutex_init(&streams->mutex, NULL);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&streams->changed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    if (pthread_create(&streams->thread, NULL, broadcast, streams) != 0) {
        streams_free(streams);
        return error_set(error, STATUS_NO_MEMORY, "cannot start the thread of the event streams");
    }
    *out = streams;
    return STATUS_OK;
}

void streams_wake(struct streams *streams, const char *topic)
{
    bool any = false;
    pthread_mutex_lock(&streams->mutex);
    for (struct stream *stream = streams->first; stream != NULL; stream = stream->next)
        if (topic == NULL || strcmp(topic, stream->topic) == 0) any = stream->dirty = true;
    if (any) pthread_cond_signal(&streams->changed);
    pthread_mutex_unlock(&streams->mutex);
}

unsigned streams_count(struct streams *streams)
{
    pthread_mutex_lock(&streams->mutex);
    const unsigned count = streams->count;
    pthread_mutex_unlock(&streams->mutex);
    return count;
}

void streams_end(struct streams *streams)
{
    pthread_mutex_lock(&streams->mutex);
    streams->stopping = true;
    pthread_cond_broadcast(&streams->changed);
    pthread_mutex_unlock(&streams->mutex);
    (void)pthread_join(streams->thread, NULL);
    pthread_mutex_lock(&streams->mutex);
    for (struct stream *stream = streams->first; stream != NULL; stream = stream->next) {
        if (!stream->finished) stream_append(stream, ": the server stops\n\n", 20);
        stream->finished = true;
        stream_resume(stream);
    }
    pthread_mutex_unlock(&streams->mutex);
}

void streams_free(struct streams *streams)
{
    if (streams == NULL) return;
    if (streams->options->thread_close != NULL)
        streams->options->thread_close(streams->options->application, streams->context);
    (void)pthread_cond_destroy(&streams->changed);
    (void)pthread_mutex_destroy(&streams->mutex);
    permits_free(streams->permits);
    free(streams);
}
