/* rotation.h: a model in a rotated basis, in which weights and activations have no outliers and the function is the
 * same (Ashkboos et al., "QuaRot", arXiv 2404.00456; the centring of LayerNorm as in "SliceGPT", arXiv 2401.15024).
 *
 *   hidden states x                     x Q,  Q = diag(sign) H / sqrt(d)  (hadamard.h)
 *   readers of them through a norm      W diag(w) Q, w the norm's weight; the norm's bias b is added to theirs as W b
 *   writers that add to them            Qᵀ W
 *   a LayerNorm                         an RMSNorm, if everything that is added has mean zero
 *   values and the columns that read    transformed by heads, also in the weights
 *   every other linear                  W H: its inputs are transformed in the forward pass (online)
 *
 * A block's steps tell which transforms may go into the weights. If hidden states are read or written in other ways
 * (OLMo 2 adds the output of a norm), all linears transform their inputs online and the hidden states are not rotated.
 * Signs are drawn from the seed; online transforms have none. */
#ifndef QUANT_ROTATION_H
#define QUANT_ROTATION_H

#include "model/loader.h"
#include "quant/hadamard.h"

enum { ROTATION_WIDTHS = 8 };

struct rotation {
    struct backend *backend;
    bool fused;   /* hidden states are rotated */
    bool centred; /* … and are centred to mean zero */
    struct hadamard hidden, head;
    float *sign, *head_sign; /* [hidden_size], [head_dim] owned, in memory of the backend */
    int width_count;
    struct hadamard online[ROTATION_WIDTHS]; /* one for each width of input */
    struct program program;                  /* of the latest block */
    int online_of[PROGRAM_PARAMETERS];       /* of that block, by parameter: index in `online`, -1: none */
};

/* For a backend of floats. The caller calls rotation_reset, also on failure. STATUS_UNSUPPORTED (more widths than
 * ROTATION_WIDTHS), STATUS_NO_MEMORY. */
MUST_CHECK enum status rotation_init(struct rotation *rotation, const struct model *model, struct backend *backend,
                                     uint64_t seed, struct error *error);
void rotation_reset(struct rotation *rotation); /* {0} is fine */

/* Rotates a block's parameters in place, and gives it a program for which they mean the same; both valid until the next
 * block. */
void rotation_block(struct rotation *rotation, struct block *block);

/* Transforms hidden states [tokens, d] into the rotated basis or (back) out of it, in place. Centred states stay
 * centred, which a norm does not notice. */
void rotation_hidden(const struct rotation *rotation, struct matrix hidden, bool back);

#endif
