/* activation.h: the inputs of linears as the quantized model computes with them: rounded to few bits, token by token.
 *
 * A token's numbers x are symmetric codes with a step for each token (dynamic; backend.h, round_rows):
 *
 *   step = max |x| / (2^(bits-1) - 1),  and the product uses rint(x / step) step
 *
 * With smoothing s (the column scales of SmoothQuant and AWQ) x / s is rounded and multiplied by s again, because the
 * weights here are divided by s again. Spared columns (kept outliers) are not rounded and do not count for the maximum.
 *
 * LLM.int8() (Dettmers et al., arXiv 2208.07339), with a threshold: columns of a sequence with any |x| at or above it
 * leave the int8 product. As in the library, the maximum of a row ignores the entries at or above the threshold, and
 * such columns multiply the dequantized weights; with `exact`, as in the paper, columns leave before the maximum is
 * taken and multiply the original weights. */
#ifndef QUANT_ACTIVATION_H
#define QUANT_ACTIVATION_H

#include "model/program.h"
#include "quant/hadamard.h"
#include "quant/quantized_layer.h"

/* In host memory. */
struct activation {
    int bits;               /* 0: inputs as they are */
    double threshold;       /* 0: none */
    bool exact;             /* with a threshold: outliers multiply the original weights */
    const float *smoothing; /* [columns] or NULL */
    const bool *spared;     /* [columns] or NULL */
};

/* Treats the inputs of a block's linears in the passes over it (walk->product). */
struct activations {
    struct backend *backend;
    struct linear_product product; /* for walk->product */
    int64_t tokens, widest;
    /* Owned, in memory of the backend, like all below. */
    void *turned, *rounded, *outliers; /* [tokens, widest]; `outliers` only after an exact treatment was set */
    void *left;                        /* [widest] bytes */
    struct activation_entry {
        const struct hadamard *online; /* transform of the inputs before rounding; NULL: none */
        bool active;
        struct round_rows_args treatment; /* without x, to and outliers */
        void *owned;                      /* smoothing and spared */
        struct matrix original;           /* [rows, columns]; absent if outliers multiply the dequantized weights */
    } entries[PROGRAM_PARAMETERS];
};

/* For chunks of up to `tokens` tokens and linears of up to `widest` columns. STATUS_NO_MEMORY. */
MUST_CHECK enum status activations_init(struct activations *activations, struct backend *backend, int64_t tokens,
                                        int64_t widest, struct error *error);
void activations_reset(struct activations *activations); /* {0} is fine */

/* Forgets all linears: another block begins. */
void activations_clear(struct activations *activations);

/* Transforms the inputs of linear `parameter` in each pass; `online` is lent until activations_clear. */
void activations_turn(struct activations *activations, int parameter, const struct hadamard *online);

/* The inputs x of that linear before any rounding: x itself, or transformed (valid until the next call or product). */
struct matrix activations_input(const struct activations *activations, int parameter, struct matrix x);

/* Sets the treatment (copied) of the inputs of linear `parameter`. `original`: the original weights for an exact
 * treatment (in memory of the backend; taken, also on failure; absent: none). STATUS_NO_MEMORY. */
MUST_CHECK enum status activations_set(struct activations *activations, int parameter,
                                       const struct activation *treatment, int64_t columns, struct matrix original,
                                       struct error *error);

#endif
