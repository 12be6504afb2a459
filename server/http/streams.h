/* streams.h: server-sent events. A handler opens a stream on a topic with response_stream and is done. One broadcaster
 * thread calls `produce` soon after the opening, on every http_server_wake of the topic, and at the ping interval (a
 * comment `: ping` goes out when there was nothing). At most 64 streams, half of them of one client; each lives at most
 * 10 minutes (the client reconnects with Last-Event-ID). */
#ifndef HTTP_STREAMS_H
#define HTTP_STREAMS_H

#include "base/error.h"

#include <jansson.h>

struct stream_writer;

struct stream_ops {
    /* Appends what is new since the last call with stream_event. Sets *finished after the last event. It runs on the
     * broadcaster's thread, with that thread's own `thread` context. The streams of all clients wait for it, so it may
     * make one short query at most. A failure ends the stream, and the client reconnects; after STATUS_UNAVAILABLE it
     * is called again later. */
    enum status (*produce)(void *thread, void *state, struct stream_writer *writer, bool *finished,
                           struct error *error);
    void (*free)(void *state); /* called once, from any thread */
};

/* Appends one event: `id` (NULL: none; the client sends it back as Last-Event-ID), `event` its name ("progress"),
 * `data` any JSON (lent). STATUS_NO_MEMORY, STATUS_TOO_LARGE when 1 MiB is waiting already for a slow reader (return
 * it: the stream ends). */
MUST_CHECK enum status stream_event(struct stream_writer *writer, const char *id, const char *event, const json_t *data,
                                    struct error *error);

/* Appends an id without an event: a client that comes again sends it as Last-Event-ID. For what a filter passed over,
 * and for a client that has seen nothing yet. Statuses of stream_event. */
MUST_CHECK enum status stream_position(struct stream_writer *writer, const char *id, struct error *error);

/* There is more already: produce is called again as soon as the client has read all that was written, not before. So
 * a long replay goes at the client's own pace and no more than one call's events wait for it. */
void stream_more(struct stream_writer *writer);

#endif
