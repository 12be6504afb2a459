/* compared.h: the numbers of two measurements of the same sequences, side by side. The readers of measurements (GET
 * /v1/compare, runs of the kind compare) leave the arithmetic and the result table to this file. */
#ifndef KINDS_COMPARED_H
#define KINDS_COMPARED_H

#include "base/result.h"
#include "eval/token_difference.h"
#include "kinds/losses.h"

enum { COMPARED_LOSS, COMPARED_LOSS_FP, COMPARED_LOSS_Q, COMPARED_DELTA, COMPARED_KL, COMPARED_NUMBERS };

/* The name of each number in results: "loss", "loss_fp", … */
extern const char *const compared_names[COMPARED_NUMBERS];

/* One measurement. Lent. */
struct compared_losses {
    const struct losses_kind *left; /* the kind of the run that left it */
    int64_t sequences;
    const int64_t *predictions; /* [sequences] */
    /* both in the order of left->columns; a token column is NULL when the run kept no tokens */
    const double *columns[LOSSES_TABLE_COLUMNS];
    const float *tokens[LOSSES_TABLE_COLUMNS];
};
int64_t compared_predictions(const struct compared_losses *losses);
bool compared_has_tokens(const struct compared_losses *losses);

/* The first and the last number (of the enum above) that measurements of a kind have. */
struct compared_span {
    int first, last;
};
struct compared_span compared_span(const struct losses_kind *left);

/* The columns that a number is computed from. */
struct compared_columns {
    int over, under; /* indexes into losses_kind.columns; under < 0: the number is a mean */
};
struct compared_columns compared_columns(int number);

struct compared_number {
    struct difference found;
    const char *method; /* NULL: no interval */
    double worse_share;
    bool told;
};

struct compared_numbers {
    const char *kind, *protocol; /* lent */
    int64_t sequences, tokens;
    struct compared_number numbers[COMPARED_NUMBERS];
};
extern const struct result_shape compared_numbers_shape;

/* Fills all of *out but kind and protocol from two measurements of one kind and of the same sequences.
 * STATUS_NO_MEMORY; STATUS_CORRUPT when their sequences are not the same. */
MUST_CHECK enum status compared_measure(const struct compared_losses *a, const struct compared_losses *b, uint64_t seed,
                                        struct compared_numbers *out, struct error *error);

/* The same numbers by token. */
struct compared_token_number {
    struct token_difference found;
    const char *method, *worse_method; /* NULL: no interval */
    bool told;
    bool counted; /* `worse` and `better` are meaningful: they are not for a ratio of two losses of one token */
};

struct compared_tokens {
    int64_t predictions;
    struct compared_token_number numbers[COMPARED_NUMBERS];
};
extern const struct result_shape compared_tokens_shape;

/* For measurements that both have tokens; `by_sequence` is the result of compared_measure. STATUS_NO_MEMORY. */
MUST_CHECK enum status compared_measure_tokens(const struct compared_losses *a, const struct compared_losses *b,
                                               const struct compared_numbers *by_sequence, uint64_t seed,
                                               struct compared_tokens *out, struct error *error);

#endif
