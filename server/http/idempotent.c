#include "http/idempotent.h"

#include "base/clock.h"
#include "http/encoding.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RETRY_MILLISECONDS = 100, GRACE_MILLISECONDS = 10000 };

void idempotent_answer_reset(struct idempotent_answer *answer)
{
    free(answer->content_type);
    free(answer->location);
    free(answer->body);
    *answer = (struct idempotent_answer){0};
}

static enum status read_body(const void *owner, size_t at, void *out, size_t size, struct error *error)
{
    return body_read(owner, at, out, size, error);
}

static enum status hash_request(struct exchange *exchange, struct error *error)
{
    const struct hash_part parts[] = {
        {exchange->method, strlen(exchange->method) + 1},
        {exchange->request.path, strlen(exchange->request.path) + 1},
        {exchange->query, strlen(exchange->query) + 1},
    };
    const struct hash_source body = {&exchange->body, exchange->body.length, read_body};
    return encoding_sha256(parts, sizeof parts / sizeof parts[0], &body, exchange->key_hash, error);
}

static enum status replay(struct exchange *exchange, struct idempotent_answer *answer, struct error *error)
{
    struct response *response = &exchange->response;
    enum status status = STATUS_OK;
    if (answer->body != NULL) {
        status = response_take(response, answer->http_status,
                               answer->content_type != NULL ? answer->content_type : "application/json", answer->body,
                               answer->body_length, error);
        answer->body = NULL;
    } else {
        response_empty(response, answer->http_status);
    }
    if (status == STATUS_OK && answer->location != NULL)
        status = response_header(response, "Location", answer->location, error);
    answer_header(exchange, "Idempotency-Replayed", "true");
    exchange->replayed = true;
    return status;
}

static enum idempotent_step refuse(struct exchange *exchange, enum problem_id id, const char *detail)
{
    struct error error;
    const struct problem problem = problem_row(id);
    (void)error_set(&error, STATUS_CONFLICT, "%s", detail);
    answer_problem(exchange, &problem, &error);
    return IDEMPOTENT_ANSWERED;
}

static enum idempotent_step busy(struct exchange *exchange)
{
    const int64_t now = clock_milliseconds();
    if (!exchange->retry_deadline_ms) exchange->retry_deadline_ms = now + GRACE_MILLISECONDS;
    if (exchange->retry_deadline_ms <= now || exchange->left || atomic_load(&exchange->server->stopping))
        return refuse(exchange, PROBLEM_KEY_BUSY,
                      "another request with this Idempotency-Key is still running; try again");
    exchange->retry_ms = now + RETRY_MILLISECONDS;
    return IDEMPOTENT_PARK;
}

enum idempotent_step idempotent_begin(struct exchange *exchange, void *thread)
{
    const struct idempotency_hooks *hooks = exchange->server->options.idempotency;
    const char *key = request_header(&exchange->request, "Idempotency-Key");
    struct idempotent_answer answer = {0};
    struct error error = {0};
    enum idempotency found = IDEMPOTENCY_NEW;
    exchange->retry_ms = 0;
    if (hooks == NULL || key == NULL || exchange->reserved || strcmp(exchange->method, "POST") != 0)
        return IDEMPOTENT_RUN;
    enum status status = exchange->key_hash[0] ? STATUS_OK : hash_request(exchange, &error);
    if (status == STATUS_OK)
        status =
            hooks->begin(thread, exchange->request.principal.name, key, exchange->key_hash, &found, &answer, &error);
    if (status == STATUS_OK && found == IDEMPOTENCY_REPLAY) status = replay(exchange, &answer, &error);
    idempotent_answer_reset(&answer);
    if (status != STATUS_OK) {
        const struct problem problem = problem_of_status(status);
        answer_problem(exchange, &problem, &error);
        return IDEMPOTENT_ANSWERED;
    }
    switch (found) {
    case IDEMPOTENCY_REPLAY:
        return IDEMPOTENT_ANSWERED;
    case IDEMPOTENCY_MISMATCH:
        return refuse(exchange, PROBLEM_KEY_REUSED,
                      "this Idempotency-Key came before with another request; use a new key");
    case IDEMPOTENCY_BUSY:
        return busy(exchange);
    case IDEMPOTENCY_NEW:
        break;
    }
    exchange->reserved = true;
    return IDEMPOTENT_RUN;
}

/* The response in its stored form; its strings are lent by the response. */
static struct idempotent_answer snapshot(struct response *response)
{
    struct idempotent_answer answer = {.http_status = response->http_status};
    for (size_t i = 0; i < response->header_count; i++)
        if (strcmp(response->headers[i].name, "Location") == 0) answer.location = response->headers[i].value;
    if (response->kind == RESPONSE_BYTES) {
        answer.content_type = response->content_type;
        answer.body = response->bytes;
        answer.body_length = response->length;
    }
    return answer;
}

void idempotent_finish(struct exchange *exchange, void *thread, bool success)
{
    struct response *response = &exchange->response;
    struct error error = {0};
    if (!exchange->reserved) return;
    exchange->reserved = false;
    if (success && response->recorded) return;
    const bool keep = success && response->http_status >= 200 && response->http_status < 300 &&
                      (response->kind == RESPONSE_BYTES || response->kind == RESPONSE_EMPTY);
    const struct idempotent_answer answer = snapshot(response);
    /* the hook reports its own failures; the work is done, so the answer is right even if it could not be stored */
    enum status status = exchange->server->options.idempotency->finish(
        thread, exchange->request.principal.name, request_header(&exchange->request, "Idempotency-Key"),
        keep ? &answer : NULL, &error);
    (void)status;
}
