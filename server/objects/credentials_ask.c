#include "objects/credentials_ask.h"

#include "transfer/asking.h"

#include <string.h>

enum { ANSWER_MOST = 64 << 10 };

struct attempt {
    struct credentials_question *question;
    const char *url;
};

static bool take(void *owner, const struct transfer_head *head, const char *bytes, size_t length)
{
    struct buffer *answer = owner;
    (void)head;
    buffer_append(answer, bytes, length);
    return answer->status == STATUS_OK;
}

static enum status once(void *context, enum transfer_verdict *verdict, double *wait, struct error *error)
{
    const struct attempt *attempt = context;
    struct credentials_question *question = attempt->question;
    const struct transfer_request request = {.server = &question->server,
                                             .url = attempt->url,
                                             .method = question->method,
                                             .headers = question->headers,
                                             .body = question->body,
                                             .body_bytes = question->body != NULL ? strlen(question->body) : 0,
                                             .last = -1,
                                             .seconds = question->seconds,
                                             .sink = take,
                                             .owner = &question->answer};
    struct transfer *transfer = NULL;
    CURLcode code;
    credentials_ask_reset(question);
    enum status status = transfer_new(&request, &transfer, error);
    if (status == STATUS_OK) status = transfer_perform(transfer, NULL, &code, error);
    if (status == STATUS_OK) {
        *verdict = transfer_judge(transfer, code, question->what, error);
        question->head = transfer->head;
        *wait = transfer->head.wait_seconds;
        if (question->answer.status != STATUS_OK)
            status = buffer_status(&question->answer, "the answer of a service of credentials", error);
    }
    transfer_free(transfer);
    return status;
}

enum status credentials_ask(struct credentials_question *question, const char *url, struct error *error)
{
    const struct asking asking = {
        .seconds = question->seconds, .tries = question->tries, .longest_wait = question->seconds};
    struct attempt attempt = {question, url};
    question->server.stays = true;
    question->answer.limit = ANSWER_MOST;
    transfer_head_clear(&question->head);
    if (!origin_read(url, &question->server.origin))
        return error_set(error, STATUS_INVALID, "the address of %s is none", question->server.name);
    const enum status status = asking_repeat(&asking, question->server.name, once, &attempt, error);
    if (status == STATUS_OK && question->answer.bytes == NULL)
        return error_set(error, STATUS_INVALID, "%s answers with nothing", question->server.name);
    return status;
}

void credentials_ask_reset(struct credentials_question *question)
{
    struct buffer *answer = &question->answer;
    if (answer->bytes != NULL) explicit_bzero(answer->bytes, answer->length);
    buffer_reset(answer);
}
