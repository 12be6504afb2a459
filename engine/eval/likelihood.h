/* likelihood.h: how likely a model finds the ends of texts. Beginnings that texts share are computed once
 * (model/forest.h), logits only where something is scored. Blocks are streamed as in evaluate.h. What a text gets does
 * not depend on which others are there, beyond the rounding of sums that are cut otherwise. */
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

/* What texts share, made once for any number of models of one configuration. */
struct likelihood {
    const struct likelihood_texts *texts; /* lent */
    struct forest forest;
    struct head_question *questions; /* every scored token, by row; owned */
    int64_t *owners;                 /* the text of a question's number; owned */
    int64_t question_count;
};

/* The caller owns it (likelihood_reset). `apart`: nothing is shared, for models in which what a token gets depends on
 * the whole of its text. STATUS_NO_MEMORY. */
MUST_CHECK enum status likelihood_init(struct likelihood *likelihood, const struct likelihood_texts *texts, bool apart,
                                       const struct model_config *config, struct backend *backend, struct error *error);
/* What asking a model takes of memory, and what it computes, onto a plan: of this memory nothing is left. `treated`:
 * bytes of the backend's memory for what stands in for products. What the model's files hold is for the caller to
 * count. */
void likelihood_plan(const struct likelihood *likelihood, const struct model *model, struct backend *backend,
                     int64_t treated, struct run_plan *plan);
void likelihood_reset(struct likelihood *likelihood); /* {0} is fine */

/* What stands in for the products of a block's linears (walk->product), asked for as each block comes; chunks have up
 * to `tokens` tokens. */
struct likelihood_products {
    void *owner;
    enum status (*block)(void *owner, const struct block *block, int64_t tokens, const struct linear_product **out,
                         struct error *error);
};

/* out[s] = sum over the text's targets of log p(token | all before it), nats. STATUS_NOT_FINITE (weights),
 * STATUS_CANCELLED, STATUS_LEASE_LOST, STATUS_IO, STATUS_INPUT_CHANGED, STATUS_NO_MEMORY. `products` may be NULL. */
MUST_CHECK enum status likelihood_run(struct likelihood *likelihood, const struct model *model, struct backend *backend,
                                      const struct likelihood_products *products, const struct monitor *monitor,
                                      double *out, struct error *error);

#endif
