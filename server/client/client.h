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
    long seconds;               /* time limit of the whole request; 0: CLIENT_SECONDS */
};
enum { CLIENT_SECONDS = 120 };

struct client_reply {
    int http;           /* 200 */
    char type[80];      /* media type, in lower case and without parameters */
    int retry_seconds;  /* of Retry-After; 0: none */
    struct buffer body; /* owned */
    json_t *document;   /* owned; the body when it is JSON and whole, or NULL */
};

/* Makes a client; nothing is connected yet. `url`: http or https, a host, and perhaps a path below which all requests
 * go; `token` may be NULL. `authorities`: a PEM file of certificates that https is checked against instead of the
 * system's; or NULL. The caller owns *out. STATUS_INVALID: the address is not of this form, or the file cannot be
 * read. */
MUST_CHECK enum status client_new(const char *url, const char *token, const char *authorities, struct client **out,
                                  struct error *error);
/* All requests of a client without a token are this user's, by basic authentication; both are copied. STATUS_INVALID:
 * the name has a colon. */
MUST_CHECK enum status client_user(struct client *client, const char *name, const char *password, struct error *error);
void client_free(struct client *client);

/* Sends a request. Any HTTP answer is STATUS_OK; the caller owns *reply (client_reply_reset, in any case).
 * STATUS_UNAVAILABLE: there was no answer, and the detail names the address; STATUS_TOO_LARGE: more than CLIENT_MOST
 * bytes. */
MUST_CHECK enum status client_send(struct client *client, const struct client_request *request,
                                   struct client_reply *reply, struct error *error);
void client_reply_reset(struct client_reply *reply);
enum { CLIENT_MOST = 1 << 30 };

/* As client_send, but an answer of 300 or more is returned as its status (client_problem). */
MUST_CHECK enum status client_call(struct client *client, const struct client_request *request,
                                   struct client_reply *reply, struct error *error);

/* Sets the error from a problem document (RFC 9457) with its first pointer, or from the beginning of another body.
 * Returns the status whose HTTP code the answer has; of 429 and of all from 500 on STATUS_UNAVAILABLE. */
enum status client_problem(const struct client_reply *reply, struct error *error);

/* Appends `text` to an address and escapes all but unreserved characters. */
void client_escape(struct buffer *out, const char *text);

#endif
