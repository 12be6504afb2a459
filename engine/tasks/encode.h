/* encode.h: encodes a context and its continuation by lm-evaluation-harness's rules (PROTOCOL of 0.4.13): blanks at the
 * end of the context move to the continuation; both are encoded as one text, the context also alone, and the tokens of
 * the text beyond the context's count are the continuation's; the last `longest` + 1 tokens of all are kept, and the
 * very last is not fed. */
#ifndef TASKS_ENCODE_H
#define TASKS_ENCODE_H

#include "tasks/phrase.h"
#include "tokenizer/tokenizer.h"

struct encode {
    const struct tokenizer *tokenizer;
    bool special_tokens; /* added as by the tokenizer's own template, unless a text begins with its BOS; false: none */
    int64_t longest;     /* positions of the model */
    int64_t vocabulary_size;         /* ids must be below */
    struct phrase bos;               /* its text; owned */
    struct phrase whole;             /* scratch; owned */
    struct token_list alone, joined; /* scratch; owned */
};

/* The caller owns it (encode_reset), also after a failure. STATUS_NO_MEMORY. */
MUST_CHECK enum status encode_init(struct encode *encode, const struct tokenizer *tokenizer, bool special_tokens,
                                   int64_t longest, int64_t vocabulary_size, struct error *error);
void encode_reset(struct encode *encode); /* {0} is fine */

struct encoded {
    int64_t tokens;  /* appended tokens: those that are fed, and the last */
    int64_t targets; /* number of them, at the end, that are scored */
    bool cut;        /* tokens were cut off at the front */
};

/* Appends to `tokens`. `context` and `continuation` are not changed. STATUS_INVALID (a continuation without tokens or
 * longer than the model's positions, an id outside the vocabulary, no context and neither BOS nor EOS, a context of
 * blanks alone, which leaves no token before the continuation), statuses of tokenizer_encode. */
MUST_CHECK enum status encode_pair(struct encode *encode, const struct phrase *context,
                                   const struct phrase *continuation, struct token_list *tokens, struct encoded *out,
                                   struct error *error);

#endif
