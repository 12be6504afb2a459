/* worst_tokens.h: which predictions of a run lost most, with the text around them. Nothing is computed anew: the losses
 * are those that the run left, and the tokens are read as the run read them and held to its protocol_id. */
#ifndef KINDS_WORST_TOKENS_H
#define KINDS_WORST_TOKENS_H

#include "base/result.h"
#include "inputs/run_context.h"

/* How ids become text. */
enum worst_tokens_decode {
    WORST_TOKENS_TOKENIZER, /* by the checkpoint's tokenizer */
    WORST_TOKENS_BYTES,     /* they are the values of bytes */
    WORST_TOKENS_IDS        /* not at all: there are ids alone */
};
extern const char *const worst_tokens_decodes[]; /* ends with NULL */

enum { WORST_TOKENS_MOST = 200, WORST_TOKENS_CONTEXT_MOST = 64 };

struct worst_tokens_request {
    const char *run;     /* id, lent */
    const char *against; /* another run over the same sequences, lent; NULL: none */
    int64_t limit;       /* 1 to WORST_TOKENS_MOST */
    int64_t context;     /* tokens before and after; 0 to WORST_TOKENS_CONTEXT_MOST */
    enum worst_tokens_decode decode;
};

struct worst_tokens;
extern const struct result_shape worst_tokens_shape; /* of a struct worst_tokens */

/* The caller owns *out (worst_tokens_free). `context` is one for planning: nothing is fetched or hashed. STATUS_INVALID
 * at "/run" or "/against": a run of a kind that leaves no losses, one without those of its tokens, one that left more
 * than is read for an answer, two that cannot be compared, a checkpoint or dataset that is not there any more; at
 * "/decode": no tokenizer, or ids that it (or a byte) does not have. STATUS_NOT_FOUND: no such run. STATUS_CONFLICT: it
 * has not succeeded. STATUS_INPUT_CHANGED: its files are others now, or give other tokens. STATUS_CORRUPT, STATUS_IO,
 * STATUS_NO_MEMORY, statuses of the context's monitor. */
MUST_CHECK enum status worst_tokens_find(const struct run_context *context, const struct worst_tokens_request *request,
                                         struct worst_tokens **out, struct error *error);
void worst_tokens_free(struct worst_tokens *found); /* NULL is fine */

#endif
