/* webhooks.h: addresses that are told of changes by HTTP. Each webhook reads the change log on its own: `after` is the
 * last change that it has finished, so it gets all changes in order and none is lost. A sender leases a webhook for one
 * change; `lease` grows with each lease and is the fence. Document: id, url, events, after, tries, created_at. No
 * document contains the secret. */
#ifndef STORE_WEBHOOKS_H
#define STORE_WEBHOOKS_H

#include "store/changes.h"
#include "store/idempotency.h"

enum { WEBHOOK_URL_SIZE = 2048, WEBHOOK_SECRET_SIZE = 256, WEBHOOK_TRIES_MOST = 16, WEBHOOKS_MOST = 100 };

/* All lent. */
struct webhook_new {
    const char *url, *secret;
    const json_t *events;                    /* kinds; empty: all */
    const struct idempotency_record *record; /* NULL: the request has no key */
};

/* A leased webhook. */
struct webhook_job {
    struct store_id id;
    int64_t lease, after;
    int tries; /* tries of the next change so far */
    char url[WEBHOOK_URL_SIZE], secret[WEBHOOK_SECRET_SIZE];
    json_t *kinds; /* owned (webhook_job_reset); NULL: all */
};
void webhook_job_reset(struct webhook_job *job); /* overwrites the secret */

/* The outcome of one try. */
struct webhook_try {
    int64_t event;
    const char *kind;
    double seconds;
    int http_status;   /* 0: there was no answer */
    const char *error; /* NULL: the delivery was accepted */
};

/* It is told what happens from now on. One transaction, with the answer of the request's key. STATUS_CONFLICT: there
 * are WEBHOOKS_MOST. */
MUST_CHECK enum status webhook_insert(struct connection *connection, const struct webhook_new *new, json_t **document,
                                      struct error *error);
MUST_CHECK enum status webhook_get(struct connection *connection, const char *id, json_t **document,
                                   struct error *error);
MUST_CHECK enum status webhook_list(struct connection *connection, const struct page *page, json_t **document,
                                    struct error *error);
MUST_CHECK enum status webhook_delete(struct connection *connection, const char *id, struct error *error);
/* Tries, newest first: event, kind, try, at, seconds, http_status, outcome, error. */
MUST_CHECK enum status webhook_deliveries(struct connection *connection, const char *id, const struct page *page,
                                          json_t **document, struct error *error);

/* Which webhooks a sender takes. Those whose last try failed may use up its time, so some senders leave them alone. */
enum webhook_share {
    WEBHOOKS_ALL,
    WEBHOOKS_HEALTHY /* not those whose last try failed; those that have never been tried come last */
};

/* Leases the webhook of that share that has waited longest, of those that are due and behind the log. */
MUST_CHECK enum status webhook_take(struct connection *connection, enum webhook_share share, double lease_seconds,
                                    bool *found, struct webhook_job *out, struct error *error);
/* Nothing for it up to `until`; gives the lease back. `lost`: changes up to there were removed before it got them. */
MUST_CHECK enum status webhook_pass(struct connection *connection, const struct webhook_job *job, int64_t until,
                                    bool lost, struct error *error);
/* Stores the try and returns the lease. The change is finished when it was accepted or after WEBHOOK_TRIES_MOST tries;
 * otherwise it is tried again after a growing, jittered delay. Does nothing when the lease was lost. */
MUST_CHECK enum status webhook_tried(struct connection *connection, const struct webhook_job *job,
                                     const struct webhook_try *what, struct error *error);
/* Returns the lease without counting a try. */
MUST_CHECK enum status webhook_release(struct connection *connection, const struct webhook_job *job,
                                       struct error *error);
/* Removes tries that are older than `days`, at most 10,000 at a time; *more: there may be others. */
MUST_CHECK enum status webhook_prune(struct connection *connection, int64_t days, bool *more, struct error *error);

#endif
