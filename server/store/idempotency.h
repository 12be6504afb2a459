/* idempotency.h: the answer to a POST, kept 24 hours under (token, key), so that a repeated request gets it again. */
#ifndef STORE_IDEMPOTENCY_H
#define STORE_IDEMPOTENCY_H

#include "store/store.h"

struct idempotency_answer {
    int http_status; /* 0: there is no answer yet */
    char *body;      /* malloc'ed, the caller's; or NULL */
    char *location;  /* likewise */
};

/* Claims the key for a request whose method, path and body hash to `request_sha256`. answer->http_status 0: it is ours,
 * do the work and call idempotency_store (or idempotency_forget). Else the stored answer. STATUS_INVALID: the key was
 * used for another request (422). STATUS_CONFLICT: the same request is being answered just now. `scope`: the token's id
 * or "". A claim without an answer (its server was killed) is given away after 60 s. */
MUST_CHECK enum status idempotency_claim(struct connection *connection, const char *scope, const char *key,
                                         const char *request_sha256, struct idempotency_answer *answer,
                                         struct error *error);
MUST_CHECK enum status idempotency_store(struct connection *connection, const char *scope, const char *key,
                                         int http_status, const char *body, const char *location, struct error *error);
MUST_CHECK enum status idempotency_forget(struct connection *connection, const char *scope, const char *key,
                                          struct error *error);
void idempotency_answer_reset(struct idempotency_answer *answer);
/* Removes what is older than 24 hours. */
MUST_CHECK enum status idempotency_expire(struct connection *connection, struct error *error);

#endif
