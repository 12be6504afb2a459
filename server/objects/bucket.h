/* bucket.h: one bucket of an S3 server: the addresses of its objects, signed requests (libcurl's AWS signature version
 * 4), and the meaning of its refusals. */
#ifndef OBJECTS_BUCKET_H
#define OBJECTS_BUCKET_H

#include "base/buffer.h"
#include "objects/objects.h"
#include "objects/objects_place.h"
#include "transfer/asking.h"

enum { BUCKET_URL = 8192 };

struct bucket {
    struct transfer_server server; /* must be first: its authorize finds the bucket through it */
    const struct objects *objects; /* lent */
    char base[640];                /* the address of the bucket, without a slash at its end */
};

/* Fills *out, which needs no release. STATUS_INVALID. */
MUST_CHECK enum status bucket_init(const struct objects *objects, const char *name, struct bucket *out,
                                   struct error *error);

/* As bucket_init, for the server itself instead of a bucket. */
MUST_CHECK enum status bucket_init_service(const struct objects *objects, struct bucket *out, struct error *error);

/* The address of `key` ("": the bucket itself) with `query` ("": none), whose parts are escaped and in the order of
 * their names: older versions of libcurl sign path and query as they are written. STATUS_INVALID for one that is too
 * long, STATUS_UNSUPPORTED for a key with a part "." or "..". */
MUST_CHECK enum status bucket_url(const struct bucket *bucket, const char *key, const char *query, char out[BUCKET_URL],
                                  struct error *error);

/* One request. */
struct bucket_request {
    enum transfer_method method;
    const char *key, *query;    /* as for bucket_url; NULL: "" */
    const char *const *headers; /* ends with NULL; NULL: none */
    const void *body;
    size_t body_bytes;
    int64_t first, bytes; /* a range of the object; bytes 0: all of it */
    const char *what;     /* the name in messages: "s3://lab/run" */
};

/* Sends the request, with backoff. A signed HEAD that gets a bare 400, which is how an expired session looks in an
 * answer without a body, is sent once more with new credentials, and is STATUS_FORBIDDEN after that. *head is the head
 * of the answer; `body` gets the answer's bytes up to its limit; NULL: they are dropped. Statuses by the meaning of the
 * answer: STATUS_NOT_FOUND (no such bucket, no such object), STATUS_FORBIDDEN (no rights, unknown key, wrong signature,
 * skewed clock), STATUS_INVALID (another region), STATUS_INPUT_CHANGED (If-Match), STATUS_UNAVAILABLE, STATUS_CORRUPT;
 * also those of credentials_take and of the monitor. */
MUST_CHECK enum status bucket_ask(const struct bucket *bucket, const struct asking *asking,
                                  const struct bucket_request *request, struct transfer_head *head, struct buffer *body,
                                  struct error *error);

#endif
