/* head.h: from the last hidden states to losses: final norm and projection to the embeddings' width (where the model
 * has them), logits and cross-entropy. It works in slices of tokens, so that [tokens x vocabulary] numbers are never in
 * memory. */
#ifndef MODEL_HEAD_H
#define MODEL_HEAD_H

#include "base/monitor.h"
#include "model/chunks.h"
#include "model/model.h"

/* A matrix is absent if the model lacks it or the caller does not need it. Also used for their gradients or
 * directions. */
struct head_weights {
    struct matrix norm_weight, norm_bias; /* [1, d] */
    struct matrix projection;             /* [e, d] */
    struct matrix output;                 /* [V, e] */
};

struct head {
    struct backend *backend;
    enum norm_kind norm;
    double norm_epsilon;
    struct head_weights weights; /* owned unless lent at head_init */
    bool owns_weights, owns_output;
    int64_t slice; /* tokens at a time */
    /* scratch of one slice; `other`: a second model's logits, or the tangent of the first's */
    struct matrix normed, dnormed, normed_t, dnormed_t, projected, dprojected, projected_t, dprojected_t, logits, other;
    double *log_sum, *other_log_sum;
};

enum head_use { HEAD_LOSS, HEAD_ANSWER, HEAD_COMPARE, HEAD_GRADIENT, HEAD_TANGENT };

/* Loads its weights. `embedding` (with data) is lent as the output matrix of a tied model. The caller owns
 * it (head_reset). */
MUST_CHECK enum status head_load(struct head *head, const struct model *model, struct backend *backend,
                                 struct matrix embedding, enum head_use use, struct error *error);
/* head_load for matrices that are in memory already (training). */
MUST_CHECK enum status head_init(struct head *head, const struct model_config *config, struct backend *backend,
                                 const struct head_weights *weights, enum head_use use, struct error *error);
void head_reset(struct head *head); /* {0} is fine */

/* Bytes of the backend's memory that a head takes: scratch, and the weights that it loads (head_init: none; head_load
 * with a tied embedding: all but the output matrix). */
enum head_loads { HEAD_LOADS_NONE, HEAD_LOADS_BUT_OUTPUT, HEAD_LOADS_ALL };
int64_t head_bytes(const struct model_config *config, const struct backend *backend, enum head_use use,
                   enum head_loads loads);

/* losses[t] in nats for every token of the batch (0 if the token predicts nothing). `hidden` [tokens, d] is not
 * changed. */
void head_losses(struct head *head, struct matrix hidden, const struct batch *batch, double *losses);

/* A question: log p(token | row) of a row of hidden states; `number` belongs to the asker. */
struct head_question {
    int64_t row, number;
    uint32_t token;
    double log_probability; /* the answer */
};
/* Answers questions in ascending order of their rows; computes each of these rows once, and no others. The head is one
 * for HEAD_ANSWER.
 * STATUS_CANCELLED, STATUS_LEASE_LOST, STATUS_NO_MEMORY. */
MUST_CHECK enum status head_answer(struct head *head, struct matrix hidden, struct head_question *questions,
                                   int64_t count, const struct monitor *monitor, struct error *error);

/* Another model q on the same tokens as p: its losses, and by token KL(p || q) and whether the likeliest next token
 * agrees. */
struct head_other {
    struct matrix hidden;
    struct matrix output; /* its output matrix; absent: that of p. It shares the rest of the head with p */
    double *losses, *kl;
    uint8_t *agree;
};
/* Computes the losses of p, and those of `count` other models with their comparison to p. Needs HEAD_COMPARE. */
void head_compare(struct head *head, struct matrix hidden, const struct head_other *others, int64_t count,
                  const struct batch *batch, double *losses);

/* Losses, and into dhidden (overwritten) the gradient of weight * sum of losses; adds to the given gradients of the
 * weights. Needs HEAD_GRADIENT. */
void head_backward(struct head *head, struct matrix hidden, const struct batch *batch, double weight, double *losses,
                   struct matrix dhidden, const struct head_weights *gradients);

/* head_backward and its derivative along a direction: hidden_t and `directions` (absent: zero) are the tangents of the
 * hidden states and of the parameters; dhidden and dhidden_t are overwritten; the tangents of the parameters' gradients
 * are added to gradient_tangents. Gradients of parameters themselves are not computed. Needs HEAD_TANGENT. */
void head_backward_tangent(struct head *head, struct matrix hidden, struct matrix hidden_t, const struct batch *batch,
                           double weight, const struct head_weights *directions, double *losses, struct matrix dhidden,
                           struct matrix dhidden_t, const struct head_weights *gradient_tangents);

#endif
