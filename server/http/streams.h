/* streams.h: server-sent events. A handler opens a stream on a topic with response_stream and is done. One broadcaster
 * thread calls `produce` soon after the opening, on every http_server_wake of the topic, and at the ping interval (a
 * comment `: ping` goes out when there was nothing). At most 64 streams, half of them of one client; each lives at most
 * 10 minutes (the client reconnects with Last-Event-ID). */
#ifndef HTTP_STREAMS_H
#define HTTP_STREAMS_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>

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
 * `data` any JSON (lent). One of more than 8 MiB is left out: the log and a comment say so, and its id is sent.
 * STATUS_NO_MEMORY (return it: the stream ends). */
MUST_CHECK enum status stream_event(struct stream_writer *writer, const char *id, const char *event, const json_t *data,
                                    struct error *error);

/* Appends an id without an event: a client that comes again sends it as Last-Event-ID. For what a filter passed over,
 * and for a client that has seen nothing yet. Statuses of stream_event. */
MUST_CHECK enum status stream_position(struct stream_writer *writer, const char *id, struct error *error);

/* Whether one call has appended enough (256 KiB): then produce calls stream_more and returns, however many events there
 * are still. What it has appended is sent, so it must know how far it came. */
bool stream_full(const struct stream_writer *writer);

/* There is more already: produce is called again as soon as the client has read all that was written, not before. So
 * a long replay goes at the client's own pace and no more than one call's events wait for it. */
void stream_more(struct stream_writer *writer);

#endif
