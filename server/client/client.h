/* client.h: JSON over HTTP to a server, one request at a time (libcurl): for the verbs of the command line and for
 * trackers. */
#ifndef CLIENT_CLIENT_H
#define CLIENT_CLIENT_H

#include "base/buffer.h"
#include "base/error.h"

#include <jansson.h>

struct client;

struct client_request {
    const char *method;         /* "GET" */
    const char *path;           /* below the base address, with its query: "/v1/runs?limit=1" */
    const json_t *body;         /* or NULL; lent */
    const char *accept;         /* NULL: application/json */
    const char *const *headers; /* further lines, ends with NULL; or NULL */
    long seconds;               /* most of the whole request; 0: CLIENT_SECONDS */
};
enum { CLIENT_SECONDS = 120 };

struct client_reply {
    int http;           /* 200 */
    char type[80];      /* media type, in lower case and without parameters */
    int retry_seconds;  /* of Retry-After; 0: none */
    struct buffer body; /* owned */
    json_t *document;   /* owned; the body when it is JSON and whole, or NULL */
};

/* `url`: http or https, a host, perhaps a path below which all requests go; `token` may be NULL. `authorities`: a file
 * of certificates in PEM that https is checked against in place of the system's; or NULL. Nothing is connected yet.
 * The caller owns *out. STATUS_INVALID: not such an address, or a file that cannot be read. */
MUST_CHECK enum status client_new(const char *url, const char *token, const char *authorities, struct client **out,
                                  struct error *error);
void client_free(struct client *client);

/* Any answer of HTTP is STATUS_OK; *reply is the caller's (client_reply_reset, in any case). STATUS_UNAVAILABLE: there
 * was no answer, and the detail names the address; STATUS_TOO_LARGE: more than CLIENT_MOST bytes. */
MUST_CHECK enum status client_send(struct client *client, const struct client_request *request,
                                   struct client_reply *reply, struct error *error);
void client_reply_reset(struct client_reply *reply);
enum { CLIENT_MOST = 1 << 30 };

/* client_send, and an answer of 300 or more becomes its status (client_problem). */
MUST_CHECK enum status client_call(struct client *client, const struct client_request *request,
                                   struct client_reply *reply, struct error *error);

/* What a problem document (RFC 9457) says, its first pointer with it; of another body, its beginning. The status is
 * the one whose HTTP code the answer has. */
enum status client_problem(const struct client_reply *reply, struct error *error);

/* Appends `text` to an address, all but unreserved characters escaped. */
void client_escape(struct buffer *out, const char *text);

#endif
