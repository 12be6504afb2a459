/* stream_registry.h: the open event streams and their broadcaster. Private to server/http; handlers use streams.h.
 *
 * Two hold a stream: the MHD_Response, which reads it on network threads, and the broadcaster, which writes it. One
 * mutex guards all streams. `produce` runs without the mutex; when the response goes away meanwhile, the broadcaster
 * frees the stream afterwards.
 *
 * A token may be revoked or expire, and the first one made, while a stream is open. So the broadcaster asks once a
 * second about the owners of all streams (http_options.authorize_again), ends those that may not read any more, and
 * produces nothing while there is no answer. */
#ifndef HTTP_STREAM_REGISTRY_H
#define HTTP_STREAM_REGISTRY_H

#include "http/server.h"

#include <microhttpd.h>

struct streams;
struct stream;

/* Starts the broadcaster with a context of its own from options->thread_open. The caller owns *out (streams_end,
 * streams_free). */
MUST_CHECK enum status streams_start(const struct http_options *options, struct streams **out, struct error *error);

struct stream_owner {   /* copied */
    const char *client; /* whom it counts for (client_name) */
    const char *token;  /* principal.name; "": no token was needed */
};

/* Makes a stream, which is not produced before streams_response. Takes `state`. STATUS_TOO_MANY and STATUS_UNAVAILABLE
 * (permits.h), STATUS_NO_MEMORY. */
MUST_CHECK enum status streams_new(struct streams *streams, const struct stream_owner *owner, const char *topic,
                                   const struct stream_ops *ops, void *state, struct stream **out, struct error *error);
void streams_discard(struct stream *stream); /* one that has no response; NULL is fine */

/* The response that reads the stream; it owns the stream from here on. NULL: no memory, and the caller keeps the
 * stream. */
struct MHD_Response *streams_response(struct stream *stream, struct MHD_Connection *connection);

void streams_wake(struct streams *streams, const char *topic);
unsigned streams_count(struct streams *streams);

/* Ends every stream with a last comment and joins the broadcaster. New streams are refused. */
void streams_end(struct streams *streams);
void streams_free(struct streams *streams); /* after the daemon has stopped */

#endif
