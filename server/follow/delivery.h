/* delivery.h: one POST of an event to a webhook. http and https with verified certificates, no proxy, no redirect, ten
 * seconds. The address is judged when its socket is made: whatever a name stood for before, the one that is connected
 * to is public, unless private ones are allowed. */
#ifndef FOLLOW_DELIVERY_H
#define FOLLOW_DELIVERY_H

#include "store/webhooks.h"

#include <stdatomic.h>

enum { DELIVERY_SECONDS = 10, DELIVERY_SIGNATURE = 128, DELIVERY_ERROR = 256 };

struct delivery_result {
    int http_status; /* 0: no answer */
    double seconds;
    bool stopped;               /* *stop was set meanwhile; nothing is known */
    char error[DELIVERY_ERROR]; /* "": it was taken (2xx) */
};

/* The checks of an address in a request. STATUS_INVALID at /url. */
MUST_CHECK enum status delivery_check_url(const char *url, bool allow_private, struct error *error);

/* "t=SECONDS,v1=HEX": HMAC-SHA-256 under `secret` of "SECONDS.BODY". */
MUST_CHECK enum status delivery_sign(const char *secret, int64_t seconds, const char *body,
                                     char out[DELIVERY_SIGNATURE], struct error *error);

/* `event` is an item of changes_read. A failure of the network is no error: it stands in *out. */
MUST_CHECK enum status delivery_post(const struct webhook_job *job, const json_t *event, bool allow_private,
                                     atomic_bool *stop, struct delivery_result *out, struct error *error);

#endif
