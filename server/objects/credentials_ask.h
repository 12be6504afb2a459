/* credentials_ask.h: one question to a service that hands out credentials. Its answer is a secret. */
#ifndef OBJECTS_CREDENTIALS_ASK_H
#define OBJECTS_CREDENTIALS_ASK_H

#include "base/buffer.h"
#include "transfer/transfer.h"

/* Everything is lent, except the answer. The first group is for the caller to fill. */
struct credentials_question {
    struct transfer_server server; /* must be first: its authorize finds the question through it; without the origin */
    const char *what;              /* the name in messages: "credentials" */
    enum transfer_method method;
    const char *const *headers; /* ends with NULL; NULL: none */
    const char *body;           /* of a POST; NULL: none */
    int seconds, tries;         /* time limit of one request; how often it is tried */

    struct transfer_head head; /* of the last answer */
    struct buffer answer;      /* owned (credentials_ask_reset) */
};

/* Sends the question to `url`, again while failures are temporary, and follows no redirect. STATUS_INVALID (no address,
 * an answer without a body), STATUS_UNAVAILABLE, STATUS_TOO_LARGE, STATUS_NO_MEMORY, statuses of the server's meanings
 * and of its authorize. */
MUST_CHECK enum status credentials_ask(struct credentials_question *question, const char *url, struct error *error);

/* Overwrites and frees the answer; the question may be asked again. */
void credentials_ask_reset(struct credentials_question *question);

#endif
