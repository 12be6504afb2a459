/* worst_tokens.h: the predictions of a run with the largest losses, and the text around them. Nothing is recomputed:
 * the losses are those that the run left, and the tokens are read as the run read them and must have its
 * protocol_id. */
#ifndef KINDS_WORST_TOKENS_H
#define KINDS_WORST_TOKENS_H

#include "base/result.h"
#include "inputs/run_context.h"

/* How ids become text. */
enum worst_tokens_decode {
    WORST_TOKENS_TOKENIZER, /* with the checkpoint's tokenizer */
    WORST_TOKENS_BYTES,     /* each id is the value of a byte */
    WORST_TOKENS_IDS        /* not at all: the answer has only ids */
};
extern const char *const worst_tokens_decodes[]; /* ends with NULL */

enum { WORST_TOKENS_MOST = 200, WORST_TOKENS_CONTEXT_MOST = 64 };

struct worst_tokens_request {
    const char *run;     /* id, lent */
    const char *against; /* another run over the same sequences to compare with, lent; NULL: none */
    int64_t limit;       /* 1 to WORST_TOKENS_MOST */
    int64_t context;     /* tokens before and after; 0 to WORST_TOKENS_CONTEXT_MOST */
    enum worst_tokens_decode decode;
};

struct worst_tokens;
extern const struct result_shape worst_tokens_shape; /* The table of a struct worst_tokens. */

/* The caller owns *out (worst_tokens_free). `context` is one for planning: nothing is fetched or hashed. STATUS_INVALID
 * at "/run" or "/against": the kind leaves no losses, the run left none of its tokens, it left more than an answer may
 * read, the two runs cannot be compared, or the checkpoint or dataset is gone. STATUS_INVALID at "/decode": there is no
 * tokenizer, or it (or a byte) lacks some ids. STATUS_NOT_FOUND: no such run. STATUS_CONFLICT: it has not succeeded.
 * STATUS_INPUT_CHANGED: its files have changed, or give other tokens. STATUS_CORRUPT, STATUS_IO, STATUS_NO_MEMORY,
 * statuses of the context's monitor. */
MUST_CHECK enum status worst_tokens_find(const struct run_context *context, const struct worst_tokens_request *request,
                                         struct worst_tokens **out, struct error *error);
void worst_tokens_free(struct worst_tokens *found); /* NULL is fine */

#endif
