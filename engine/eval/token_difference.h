/* token_difference.h: how much a mean, or a ratio of losses, differs between two measurements of the same tokens. The
 * difference equals that of the sequences (eval/difference.h), because those are weighted by their predictions. Tokens
 * add two facts: how many of them are worse, and whether tokens of a sequence vary together. */
#ifndef EVAL_TOKEN_DIFFERENCE_H
#define EVAL_TOKEN_DIFFERENCE_H

#include "eval/difference.h"

/* A number of one measurement: sum(over) / sum(under), of every prediction in the order of the sequences. Lent. */
struct token_side {
    const float *over;
    const float *under; /* NULL: ones, for a mean */
};

struct token_pair {
    struct token_side a, b;
};

struct token_difference {
    struct difference tokens; /* as if each token were drawn by itself */
    double worse_share;       /* tokens.greater over all tokens */
    /* 95 % interval of the share, by sequences that are resampled whole; within 0 to 1; never RATIO_DRAWS.
     * None where every token is worse, or none is but some are better. */
    struct ratio_interval worse_interval;
    /* Kish's design effect: the squared standard error by sequences over that by tokens. Above 1 if tokens of a
     * sequence vary together; the interval of `tokens` is then too narrow by its square root. NAN: a single sequence,
     * or tokens that do not differ. */
    double design_effect;
};

/* Measures a pair of `predictions[sequences]` tokens a sequence (one sequence or more, one prediction or more each).
 * `by_sequence`: the same number by difference_measure. STATUS_NO_MEMORY. */
MUST_CHECK enum status token_difference_measure(const struct token_pair *pair, const int64_t *predictions,
                                                int64_t sequences, const struct difference *by_sequence, uint64_t seed,
                                                struct token_difference *out, struct error *error);

/* Most bytes that token_difference_measure allocates at a time. */
int64_t token_difference_bytes(int64_t sequences, int64_t predictions);

#endif
