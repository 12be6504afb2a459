/* losses.h: the losses of every sequence, and when asked for of every token, as artifacts of a run. */
#ifndef KINDS_LOSSES_H
#define KINDS_LOSSES_H

#include "base/param.h"
#include "eval/losses_table.h"
#include "kinds/artifacts.h"

#define LOSSES_ARTIFACT "losses.csv"

/* Leaves LOSSES_ARTIFACT (eval/losses_table.h). `evaluate` has the column `loss`; `quantize` has `loss_fp`, `loss_q`
 * and `kl`. Statuses of artifact_open, artifact_write and artifact_publish; STATUS_NO_MEMORY. */
MUST_CHECK enum status losses_publish(struct artifacts *artifacts, const int64_t *predictions, int64_t sequences,
                                      const struct losses_column *columns, size_t column_count, struct error *error);

/* The parameter that asks for the values of every token too; a bool at `at`. */
#define LOSSES_PER_TOKEN_PARAM(at)                                                                               \
    {                                                                                                            \
        .name = "per_token", .type = PARAM_BOOLEAN, .offset = (at), .fallback = "false",                         \
        .help = "Also leaves the values of every predicted token as artifacts: float32 arrays in NumPy's format" \
    }

/* An array in the order of the sequences, those of a sequence in its order, as NumPy's .npy (format 1.0, "<f4"). */
struct losses_tokens {
    const char *artifact; /* its name: "token_losses.npy" */
    const float *values;  /* lent */
};
/* Statuses as above. */
MUST_CHECK enum status losses_publish_tokens(struct artifacts *artifacts, const struct losses_tokens *arrays,
                                             size_t array_count, int64_t predictions, struct error *error);

#endif
