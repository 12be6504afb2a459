/* hidden.h: the hidden states of all tokens of a stream on their way through a model. */
#ifndef MODEL_HIDDEN_H
#define MODEL_HIDDEN_H

#include "model/embed.h"

/* [chunks->tokens, d] in the backend's memory, filled with what the first block reads. The caller releases out->data. */
MUST_CHECK enum status hidden_embed(struct embed *embed, const struct chunks *chunks, struct matrix *out, struct error *error);

/* The rows of one chunk. */
struct matrix hidden_rows(struct matrix hidden, const struct chunk *chunk);

#endif
