/* rotation.h: a model in a rotated basis, in which weights and activations have no outliers and the function is the
 * same (Ashkboos et al., "QuaRot", arXiv 2404.00456; the centring of LayerNorm as in "SliceGPT", arXiv 2401.15024).
 *
 *   hidden states x                     x Q,  Q = diag(sign) H / sqrt(d)  (hadamard.h)
 *   what reads them through a norm      W diag(w) Q, w the norm's weight; the norm's bias b goes as W b into its own
 *   what is added to them               Qᵀ W
 *   a LayerNorm                         an RMSNorm, once everything that is added has mean zero
 *   values and the columns that read    turn by heads, in the weights likewise
 *   every other linear                  W H: it reads inputs that are turned as they come (online)
 *
 * What may be turned in the weights is read off a block's steps. Where hidden states are read or written otherwise
 * (OLMo 2 adds the output of a norm), all linears have their inputs turned online and the hidden states stay. Signs are
 * drawn from the seed; the transforms that are online have none. */
#ifndef QUANT_ROTATION_H
#define QUANT_ROTATION_H

#include "model/loader.h"
#include "quant/hadamard.h"

enum { ROTATION_WIDTHS = 8 };

struct rotation {
    struct backend *backend;
    bool fused;   /* hidden states are rotated */
    bool centred; /* … and have mean zero */
    struct hadamard hidden, head;
    float *sign, *head_sign; /* [hidden_size], [head_dim] owned, in memory of the backend */
    int width_count;
    struct hadamard online[ROTATION_WIDTHS]; /* one for each width of input */
    struct program program;                  /* of the block that was turned last */
    int online_of[PROGRAM_PARAMETERS];       /* of that block, by parameter: index in `online`, -1: not turned there */
};

/* A backend of floats. STATUS_UNSUPPORTED (more widths than ROTATION_WIDTHS), STATUS_NO_MEMORY; rotation_reset is still
 * due. */
MUST_CHECK enum status rotation_init(struct rotation *rotation, const struct model *model, struct backend *backend,
                                     uint64_t seed, struct error *error);
void rotation_reset(struct rotation *rotation); /* {0} is fine */

/* Turns a block's parameters in place, and gives it a program in which they mean the same; both valid until the next
 * block. */
void rotation_block(struct rotation *rotation, struct block *block);

/* Hidden states [tokens, d] into the rotated basis and (back) out of it, in place. Centred ones come back so: a norm
 * does not see. */
void rotation_hidden(const struct rotation *rotation, struct matrix hidden, bool back);

#endif
