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

/* Claims the key for a request whose method, path and body hash to `request_sha256`. answer->http_status 0: the key is
 * claimed; do the work, then call idempotency_store (or idempotency_forget). Otherwise *answer is the stored answer.
 * STATUS_INVALID: the key was used for another request (422). STATUS_CONFLICT: the same request is being answered at
 * this moment. `scope`: the token's id or "". A claim without an answer becomes free when the session that made it is
 * gone (its server was killed), and after 60 s. */
MUST_CHECK enum status idempotency_claim(struct connection *connection, const char *scope, const char *key,
                                         const char *request_sha256, struct idempotency_answer *answer,
                                         struct error *error);
/* Keeps the answer, unless the request's own transaction has kept one. */
MUST_CHECK enum status idempotency_store(struct connection *connection, const char *scope, const char *key,
                                         const struct idempotency_answer *answer, struct error *error);
MUST_CHECK enum status idempotency_forget(struct connection *connection, const char *scope, const char *key,
                                          struct error *error);
/* The arguments that a transaction needs to write the answer of its request. All lent. */
struct idempotency_record {
    const char *scope, *key;
    const char *prefix;                    /* the text of Location before the id: "/v1/runs/" */
    int created, existed;                  /* HTTP status when the object was made, and when it already existed */
    char *(*render)(const json_t *answer); /* makes the answer's text as it is sent, malloc'ed; NULL: no memory */
};

/* Writes the answer inside the caller's transaction; `record` NULL: does nothing. STATUS_UNAVAILABLE: this session has
 * lost the claim, because the connection broke or another server has the key; the transaction must not be committed. */
MUST_CHECK enum status idempotency_record_within(struct connection *connection, const struct idempotency_record *record,
                                                 enum store_outcome outcome, const json_t *answer, struct error *error);
void idempotency_answer_reset(struct idempotency_answer *answer);
/* Removes answers that are older than 24 hours. */
MUST_CHECK enum status idempotency_expire(struct connection *connection, struct error *error);

#endif
