/* transfer.h: one HTTP request to the hub, or to an address that the hub redirects to. It follows no redirect, which
 * the caller decides about, and sends the token to the endpoint's own origin alone. https (http on loopback) with
 * verified certificates, no compression, deadlines for connecting and for a transfer that stands still. Addresses other
 * than the endpoint's must be of the internet at large, whatever their names stood for before (net/guard.h): a hostile
 * hub could otherwise have us ask this machine's network. */
#ifndef HUB_TRANSFER_H
#define HUB_TRANSFER_H

#include "hub/hub.h"
#include "net/guard.h"

#include <curl/curl.h>

/* The head of the answer; a text is "" and a number -1 where it says nothing. */
struct transfer_head {
    int status;
    char location[8192]; /* absolute */
    char commit[64], linked_etag[96], code[64], message[200], next[4096];
    int64_t linked_bytes, range_first, range_total, length;
    double wait_seconds; /* Retry-After, or the reset of RateLimit */
    bool encoded;        /* a content coding that was not asked for */
};

/* Takes bytes of the body of an answer; false ends the transfer. */
typedef bool transfer_sink(void *owner, const struct transfer_head *head, const char *bytes, size_t length);

struct transfer {
    CURL *easy;
    struct curl_slist *headers;
    struct transfer_head head;
    transfer_sink *sink;
    void *owner;
    char problem[CURL_ERROR_SIZE];
    struct guard guard;
    bool to_endpoint; /* its origin is the endpoint's, which the operator named */
    const struct hub *hub;
    bool authorized; /* the token went along */
    bool refused;    /* by the sink */
};

struct transfer_request {
    const char *url;
    int64_t first, last; /* bytes asked for; last < 0: all */
    int seconds;         /* for the whole; 0: as long as it moves */
    transfer_sink *sink;
    void *owner;
};

/* Ready to be performed (alone or in a multi handle). The caller owns *out (transfer_free). STATUS_FORBIDDEN for an
 * address that is not allowed (origin_allowed), STATUS_NO_MEMORY. `hub` outlives the transfer. */
MUST_CHECK enum status transfer_new(const struct hub *hub, const struct transfer_request *request,
                                    struct transfer **out, struct error *error);
void transfer_free(struct transfer *transfer); /* NULL is fine */

enum transfer_verdict {
    TRANSFER_GOOD,  /* 200 or 206, all of it */
    TRANSFER_MOVED, /* 3xx with an address in head.location */
    TRANSFER_AGAIN, /* worth another try, after head.wait_seconds if the server named a time; error tells why */
    TRANSFER_FAILED /* error tells why */
};
/* Judges a transfer that has ended with `code`. `what` names it in messages ("config.json"). */
enum transfer_verdict transfer_judge(struct transfer *transfer, CURLcode code, const char *what, struct error *error);

#endif
