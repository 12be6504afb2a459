/* waiting.h: answers that are delayed until a run or a sweep is final: ?wait= of a GET, `Prefer: wait=` of a POST. */
#ifndef RESOURCES_WAITING_H
#define RESOURCES_WAITING_H

#include "http/router.h"
#include "postgres/connection.h"

/* The object that is waited for. */
struct waiting {
    const char *prefix; /* of its address: "/v1/runs/" */
    enum status (*get)(struct connection *connection, const char *reference, json_t **document, struct error *error);
    bool (*final)(const json_t *document);
};

extern const struct waiting waiting_for_run; /* of whatever POST makes a run */

/* Answers a GET: at once, or when the document is final, or when the seconds of ?wait= have passed. */
MUST_CHECK enum status waiting_get(struct http_context *context, const struct request *request,
                                   struct response *response, const struct waiting *what, const char *reference,
                                   struct error *error);

/* Answers a POST that made `document` (taken) or found it: as answer_made, delayed when the request prefers that. The
 * handler is then called again and must begin with waiting_resume. The transaction that made the document has stored
 * the answer of its Idempotency-Key (idempotency_record_within). */
MUST_CHECK enum status waiting_made(const struct request *request, struct response *response,
                                    const struct waiting *what, int http_status, json_t *document, struct error *error);

/* Whether the POST has already made its object. Then the request is answered or waits on, and *status is the handler's
 * result. */
bool waiting_resume(struct http_context *context, const struct request *request, struct response *response,
                    const struct waiting *what, enum status *status, struct error *error);

#endif
