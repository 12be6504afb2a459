/* embed.h: from tokens to the hidden states before the first block, and back:
 *   x[t] = E[id(t)] W_inᵀ + P[offset + position(t)]
 * where W_in (for embeddings of another width) and P (learned positions) may be absent. It has the four passes of an
 * op, over weights that lie outside the blocks. E's gradient through the inputs is zero for the padding token
 * (architecture.h, padding_row). */
#ifndef MODEL_EMBED_H
#define MODEL_EMBED_H

#include "model/chunks.h"
#include "model/model.h"

/* [V, e], [P, d], [d, e]; data NULL: absent. Also their gradients or directions. */
struct embed_weights {
    struct matrix embedding, positions, projection;
};

struct embed {
    struct backend *backend;
    const struct model_config *config; /* lent */
    struct embed_weights weights;      /* lent, or owned after embed_load */
    bool owned;
    /* Scratch if there is a projection, [tokens, e]: embeddings, or their gradients; and tangents of either. */
    struct matrix rows, rows_t;
};

/* Reads the weights of a checkpoint, for embed_forward on batches of up to `tokens` tokens. Needs embed_reset. Statuses
 * of model_read. */
MUST_CHECK enum status embed_load(struct embed *embed, const struct model *model, struct backend *backend,
                                  int64_t tokens, struct error *error);
/* embed_load for weights that are in memory already, with all four passes. Needs embed_reset. STATUS_NO_MEMORY. */
MUST_CHECK enum status embed_init(struct embed *embed, const struct model_config *config, struct backend *backend,
                                  const struct embed_weights *weights, int64_t tokens, struct error *error);
void embed_reset(struct embed *embed); /* {0} is fine */

/* Bytes of the backend's memory that embed_load (`loads`) or embed_init takes. */
int64_t embed_bytes(const struct model_config *config, const struct backend *backend, int64_t tokens, bool loads);

/* hidden [tokens, d] is overwritten. */
void embed_forward(struct embed *embed, const struct batch *batch, struct matrix hidden);

/* Adds to `gradients` (absent ones are not computed). dhidden may be changed. */
void embed_backward(struct embed *embed, const struct batch *batch, struct matrix dhidden,
                    const struct embed_weights *gradients);

/* hidden_t (overwritten): the derivative of hidden along `directions`. */
void embed_tangent(struct embed *embed, const struct batch *batch, const struct embed_weights *directions,
                   struct matrix hidden_t);

/* Adds the derivatives of the gradients along `directions` to `gradient_tangents`; gradients themselves are not
 * computed. Both matrices may be changed. */
void embed_backward_tangent(struct embed *embed, const struct batch *batch, const struct embed_weights *directions,
                            struct matrix dhidden, struct matrix dhidden_t,
                            const struct embed_weights *gradient_tangents);

#endif
