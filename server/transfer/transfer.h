/* transfer.h: one HTTP request to another server (the hub, object storage), or to an address that it redirects to. It
 * follows no redirect, because the caller decides about that, and sends credentials only to the server's own origin. It
 * uses https (http on loopback, or when the server itself uses http) with verified certificates, no compression, and
 * deadlines for connecting and for a transfer that stands still. Addresses other than the server's own must be public,
 * whatever their names resolved to before (net/guard.h): otherwise a hostile server could make us send requests into
 * this machine's network. */
#ifndef TRANSFER_TRANSFER_H
#define TRANSFER_TRANSFER_H

#include "base/monitor.h"
#include "net/guard.h"
#include "transfer/origin.h"
#include "transfer/transfer_head.h"

#include <curl/curl.h>

enum transfer_verdict {
    TRANSFER_GOOD,  /* 200, 204 or 206, all of it */
    TRANSFER_MOVED, /* 3xx with an address in head.location */
    TRANSFER_AGAIN, /* worth a retry, after head.wait_seconds if the server named a time; error tells why */
    TRANSFER_FAILED /* error tells why */
};

/* The meaning of an answer without the requested content; the first row that fits counts. */
struct transfer_meaning {
    int low, high;    /* HTTP status */
    const char *code; /* head.code; NULL: any */
    enum transfer_verdict verdict;
    enum status status;
    const char *text;
};

struct transfer;
struct transfer_request;

/* A kind of server, and the one that is used. */
struct transfer_server {
    const char *name; /* in messages: "the hub" */
    struct origin origin;
    const struct transfer_meaning *meanings; /* the last row fits everything */
    bool allow_private;                      /* redirects may lead to private addresses */
    bool stays;                              /* a redirect counts as a refusal */
    bool signs;                              /* libcurl signs the path: no part of it may be "." or ".." */
    /* Adds the credentials, by transfer_header or by options of transfer->easy. NULL: none are needed. */
    enum status (*authorize)(const struct transfer_server *server, const struct transfer_request *request,
                             struct transfer *transfer, struct error *error);
    /* Reads code, message and region from the body of a refusal. NULL: they are in headers. */
    void (*read_refusal)(const struct transfer_server *server, const char *body, size_t length,
                         struct transfer_head *head);
};

/* Takes bytes of the body of an answer; false ends the transfer. */
typedef bool transfer_sink(void *owner, const struct transfer_head *head, const char *bytes, size_t length);

enum { TRANSFER_REFUSAL = 4096 };

struct transfer {
    const struct transfer_server *server; /* lent */
    CURL *easy;
    struct curl_slist *headers;
    struct transfer_head head;
    transfer_sink *sink;
    void *owner;
    char problem[CURL_ERROR_SIZE];
    char refusal[TRANSFER_REFUSAL]; /* the beginning of its body */
    size_t refusal_bytes;
    struct guard guard;
    bool to_endpoint; /* the request goes to the server's own origin, which the operator named */
    bool refused;     /* the sink returned false */
    bool is_signed;   /* set by an authorize whose server tells signed requests from others */
};

enum transfer_method { TRANSFER_GET, TRANSFER_HEAD, TRANSFER_PUT, TRANSFER_POST, TRANSFER_DELETE };

/* Everything is lent until transfer_free. */
struct transfer_request {
    const struct transfer_server *server;
    const char *url;
    enum transfer_method method;
    const char *const *headers; /* "Name: value", ends with NULL; NULL: none */
    const void *body;           /* of PUT and POST */
    size_t body_bytes;
    int64_t first, last; /* bytes asked for; last < 0: all */
    int seconds;         /* limit of the whole transfer; 0: none while bytes arrive */
    transfer_sink *sink; /* NULL: the body of the answer is dropped */
    void *owner;         /* its first argument, and CURLINFO_PRIVATE of the handle */
};

/* Makes a transfer that is ready to be performed (alone or in a multi handle). The caller owns *out (transfer_free).
 * STATUS_FORBIDDEN for an address that is not allowed, STATUS_NO_MEMORY, statuses of `authorize`. */
MUST_CHECK enum status transfer_new(const struct transfer_request *request, struct transfer **out, struct error *error);
void transfer_free(struct transfer *transfer); /* NULL is fine */

/* Adds a header. False without memory. */
bool transfer_header(struct transfer *transfer, const char *line);
/* Adds "NAME: SECRET" and leaves no other copy of the secret. */
bool transfer_secret_header(struct transfer *transfer, const char *name, const char *secret);

/* Performs one transfer and checks the monitor (may be NULL) meanwhile. *code is curl's result; a status other than
 * STATUS_OK is the monitor's or our own. */
MUST_CHECK enum status transfer_perform(struct transfer *transfer, const struct monitor *monitor, CURLcode *code,
                                        struct error *error);

/* Judges a transfer that has ended with `code`. `what` names it in messages ("config.json"). */
enum transfer_verdict transfer_judge(struct transfer *transfer, CURLcode code, const char *what, struct error *error);

#endif
