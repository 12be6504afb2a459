/* response.h: what a handler answers. It fills the response it is given and returns STATUS_OK; or it returns another
 * status with its error filled, and the framework discards what was set and sends the problem document. The framework
 * adds ETag (and 304), gzip, caching and security headers. */
#ifndef HTTP_RESPONSE_H
#define HTTP_RESPONSE_H

#include "base/error.h"

#include <jansson.h>
#include <stdint.h>

struct response; /* made and freed by the framework */
struct stream_ops;

/* Answers with `value` as JSON. Takes one reference of it (as json_object_set_new does), also on failure; a NULL value
 * (jansson out of memory, a number that is not finite) gives STATUS_NO_MEMORY. */
MUST_CHECK enum status response_json(struct response *response, int http_status, json_t *value, struct error *error);

/* Answers with a copy of `length` bytes. */
MUST_CHECK enum status response_bytes(struct response *response, int http_status, const char *content_type,
                                      const void *bytes, size_t length, struct error *error);

/* Answers with `bytes`, which it takes (free), also on failure. */
MUST_CHECK enum status response_take(struct response *response, int http_status, const char *content_type, char *bytes,
                                     size_t length, struct error *error);

/* Answers 200 with the first `size` bytes of the open file, which it takes (closed when sent), also on failure. `etag`:
 * the strong tag without quotes (the SHA-256 it is stored under), or NULL for none. Not compressed. Of a file with a
 * tag the framework sends the part that Range asks for (206). */
MUST_CHECK enum status response_file(struct response *response, const char *content_type, int file, int64_t size,
                                     const char *etag, struct error *error);

/* Answers without a body (204). */
void response_empty(struct response *response, int http_status);

/* Says that the handler's own transaction has kept this answer for the request's Idempotency-Key, if it has one: the
 * framework then keeps nothing. */
void response_recorded(struct response *response);

/* Adds a header (Location, Link, Content-Disposition); both texts are copied. Values are made of ids, and of names
 * escaped by response_escape_segment. STATUS_INTERNAL for a value with control characters; STATUS_NO_MEMORY. */
MUST_CHECK enum status response_header(struct response *response, const char *name, const char *value,
                                       struct error *error);

/* Adds an entry to the problem document's `errors`, for a body with several faults (at most 32 are kept). The handler
 * then returns a status other than STATUS_OK with an error that sums them up. Without entries, the error's own pointer
 * makes the only one. */
void response_add_error(struct response *response, const char *pointer, const char *detail);

/* Parks the request without holding a thread. The handler is called again when http_server_wake(topic) comes, or when
 * `seconds` from its first wait have passed (request->wait_over is then true). Return STATUS_OK after it. A wake that
 * came after the handler started is not lost. Topics have at most 63 bytes ("run/ID"). */
void response_wait(struct response *response, const char *topic, double seconds);

/* Keeps `memo` (at most 63 bytes) as request->remembered for the calls after a wait: a POST that made something before
 * it waited must not make it again. */
void response_remember(struct response *response, const char *memo);

/* Has the handler called again on a thread for computing (request->working is then true). Return STATUS_OK after it. */
void response_to_work(struct response *response);

/* Answers with a stream of server-sent events (see streams.h); takes `state` (ops->free), also on failure.
 * STATUS_UNAVAILABLE when 64 streams are open. */
MUST_CHECK enum status response_stream(struct response *response, const char *topic, const struct stream_ops *ops,
                                       void *state, struct error *error);

/* Percent-encodes one path segment (a name with "/" in it) into `out`. STATUS_TOO_LARGE when it does not fit. */
MUST_CHECK enum status response_escape_segment(const char *text, char *out, size_t size, struct error *error);

#endif
