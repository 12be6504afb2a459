/* losses.h: artifacts with the losses of every sequence, and on request of every token. */
#ifndef KINDS_LOSSES_H
#define KINDS_LOSSES_H

#include "base/param.h"
#include "eval/losses_table.h"
#include "kinds/artifacts.h"

#define LOSSES_ARTIFACT   "losses.csv"
#define LOSSES_MEDIA_TYPE "text/csv; charset=utf-8" /* of every table that runs leave */

/* What runs of a kind leave: the columns of LOSSES_ARTIFACT and the arrays of tokens. */
struct losses_kind {
    const char *kind;                                                         /* "quantize" */
    const char *columns[LOSSES_TABLE_COLUMNS], *tokens[LOSSES_TABLE_COLUMNS]; /* [count] */
    size_t count;
};
extern const struct losses_kind losses_evaluate, losses_quantize;
/* The row of a kind; NULL: its runs leave no losses. */
const struct losses_kind *losses_of_kind(const char *kind);

/* Publishes LOSSES_ARTIFACT (eval/losses_table.h) with the columns of `left`; values[left->count], lent. Statuses of
 * artifact_open, artifact_write and artifact_publish; STATUS_NO_MEMORY. */
MUST_CHECK enum status losses_publish(struct artifacts *artifacts, const int64_t *predictions, int64_t sequences,
                                      const struct losses_kind *left, const double *const *values, struct error *error);

/* The parameter that asks for the values of every token as well; a bool at `at`. */
#define LOSSES_PER_TOKEN_PARAM(at)                                                                               \
    {                                                                                                            \
        .name = "per_token", .type = PARAM_BOOLEAN, .offset = (at), .fallback = "false",                         \
        .help = "Also leaves the values of every predicted token as artifacts: float32 arrays in NumPy's format" \
    }

/* Publishes the arrays of `left`, values[left->count] (lent), as files of eval/losses_tokens.h. Statuses as above. */
MUST_CHECK enum status losses_publish_tokens(struct artifacts *artifacts, const struct losses_kind *left,
                                             const float *const *values, int64_t predictions, struct error *error);

/* Publishes a text as an artifact. Statuses as above. */
MUST_CHECK enum status losses_publish_text(struct artifacts *artifacts, const char *name, const struct buffer *text,
                                           struct error *error);

#endif
