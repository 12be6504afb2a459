/* likelihood.h: the likelihood of the ends of texts under a model. Common beginnings of texts are computed once
 * (model/forest.h), logits only for scored tokens. Blocks are streamed as in evaluate.h. The score of a text does not
 * depend on the other texts, except for the rounding of sums that are split differently. */
#ifndef EVAL_LIKELIHOOD_H
#define EVAL_LIKELIHOOD_H

#include "base/monitor.h"
#include "model/forest.h"
#include "model/loader.h"

/* Text s is tokens[starts[s]] to tokens[starts[s + 1] - 1], two or more; its last targets[s] tokens (fewer than it has)
 * are scored. Lent. */
struct likelihood_texts {
    int64_t count;
    const int64_t *starts, *targets;
    const uint32_t *tokens;
};

/* The shared structure of the texts, made once for any number of models of one configuration. */
struct likelihood {
    const struct likelihood_texts *texts; /* lent */
    struct forest forest;
    struct head_question *questions; /* every scored token, by row; owned */
    int64_t *owners;                 /* text of each question, by number; owned */
    int64_t question_count;
};

/* The caller owns it (likelihood_reset). `apart`: no beginnings are shared, for models in which a token's values depend
 * on its whole text. STATUS_NO_MEMORY. */
MUST_CHECK enum status likelihood_init(struct likelihood *likelihood, const struct likelihood_texts *texts, bool apart,
                                       const struct model_config *config, struct backend *backend, struct error *error);
/* Adds to a plan the temporary memory and work of one query. `treated`: bytes of the backend's memory for replacements
 * of products (struct likelihood_products). The caller counts the bytes of the model's files. */
void likelihood_plan(const struct likelihood *likelihood, const struct model *model, struct backend *backend,
                     int64_t treated, struct run_plan *plan);
void likelihood_reset(struct likelihood *likelihood); /* {0} is fine */

/* Replaces the products of a block's linears (walk->product); called for each block. Chunks have up to `tokens`
 * tokens. */
struct likelihood_products {
    void *owner;
    enum status (*block)(void *owner, const struct block *block, int64_t tokens, const struct linear_product **out,
                         struct error *error);
};

/* out[s] = sum over the text's targets of log p(token | all tokens before it), nats. `products` may be NULL.
 * STATUS_NOT_FINITE (weights), STATUS_CANCELLED, STATUS_LEASE_LOST, STATUS_IO, STATUS_INPUT_CHANGED,
 * STATUS_NO_MEMORY. */
MUST_CHECK enum status likelihood_run(struct likelihood *likelihood, const struct model *model, struct backend *backend,
                                      const struct likelihood_products *products, const struct monitor *monitor,
                                      double *out, struct error *error);

#endif
