/* idempotency.h: the answer to a POST, kept 24 hours under (token, key), so that a repeated request gets it again.
 *
 * A request that creates something writes its answer in the same transaction (idempotency_record_within). So, whenever
 * a server is killed, either nothing was created and the key is free, or the repeated request gets the answer. */
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
 * or "". A claim without an answer is free again when the session that made it is gone (its server was killed), and
 * after 60 s. */
MUST_CHECK enum status idempotency_claim(struct connection *connection, const char *scope, const char *key,
                                         const char *request_sha256, struct idempotency_answer *answer,
                                         struct error *error);
/* Keeps the answer, unless the request's own transaction has kept one. */
MUST_CHECK enum status idempotency_store(struct connection *connection, const char *scope, const char *key,
                                         const struct idempotency_answer *answer, struct error *error);
MUST_CHECK enum status idempotency_forget(struct connection *connection, const char *scope, const char *key,
                                          struct error *error);
/* What a transaction needs to write the answer of its request. All lent. */
struct idempotency_record {
    const char *scope, *key;
    const char *prefix;                    /* of the Location: "/v1/runs/" before the id */
    int created, existed;                  /* HTTP status when it was made, and when it was there already */
    char *(*render)(const json_t *answer); /* malloc'ed text, as the answer is sent; NULL: no memory */
};

/* Writes the answer that will be sent, inside the caller's transaction; without a record (NULL) it does nothing.
 * STATUS_UNAVAILABLE: the claim is no longer this session's, because the connection broke or another server has the
 * key; the transaction must not be committed. */
MUST_CHECK enum status idempotency_record_within(struct connection *connection, const struct idempotency_record *record,
                                                 enum store_outcome outcome, const json_t *answer, struct error *error);
void idempotency_answer_reset(struct idempotency_answer *answer);
/* Removes what is older than 24 hours. */
MUST_CHECK enum status idempotency_expire(struct connection *connection, struct error *error);

#endif
