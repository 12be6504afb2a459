/* gradient.h: the gradient of the loss by all parameters of a model that lies in memory (parameters.h).
 *
 * It goes forward through all blocks, through the head, and back. Either every block keeps its activations for the
 * backward pass, or it keeps its input and is computed once more before its backward pass: then memory holds the hidden
 * states between blocks and one block's activations, and time is a third more. Both give bit-for-bit identical
 * gradients. */
#ifndef MODEL_GRADIENT_H
#define MODEL_GRADIENT_H

#include "base/monitor.h"
#include "model/chunks.h"
#include "model/parameters.h"

struct gradient;

enum gradient_mode { GRADIENT_KEEP, GRADIENT_RECOMPUTE };

/* Bytes of activations that gradient_new would allocate for batches of up to `tokens` tokens. */
int64_t gradient_bytes(const struct parameters_layout *layout, const struct backend *backend, enum gradient_mode mode,
                       int64_t tokens);

/* For the model in `parameters` (lent for life, their values may change between calls), batches of up to `tokens`
 * tokens, sequences of up to `longest`. Calls backend prepare. The caller owns *out (gradient_free).
 * STATUS_NO_MEMORY. */
MUST_CHECK enum status gradient_new(const struct parameters *parameters, enum gradient_mode mode, int64_t tokens,
                                    int64_t longest, struct gradient **out, struct error *error);
void gradient_free(struct gradient *gradient); /* NULL is fine */

/* Bytes of the rounded copy of all weights that gradient_round takes; 0 where products round nothing in memory. */
int64_t gradient_round_bytes(const struct parameters_layout *layout, const struct backend *backend);
/* From now on each call below rounds the weights once, into a copy, in place of once for each product. The bits stay
 * the same. STATUS_NO_MEMORY. */
MUST_CHECK enum status gradient_round(struct gradient *gradient, struct error *error);

/* losses[t] in nats of every token of the batch (0 where nothing is predicted), host memory. Allocates nothing. */
void gradient_losses(struct gradient *gradient, const struct batch *batch, double *losses);

/* gradient_losses, which also adds to `into` (of the same layout and backend) the gradient of weight * sum of losses.
 * With weight = 1 / predictions, all batches of a step add up to the gradient of the mean loss. Allocates nothing. Late
 * errors of the backend are reported by its sync. */
void gradient_add(struct gradient *gradient, const struct batch *batch, double weight, double *losses,
                  struct parameters *into);

/* Goes over all chunks in order: writes the losses of their tokens to losses[chunks->tokens] and their mean over
 * predictions to *mean, and adds the mean's gradient to `into` unless it is NULL. Syncs. STATUS_CANCELLED,
 * STATUS_LEASE_LOST, statuses of the backend's sync. */
MUST_CHECK enum status gradient_over(struct gradient *gradient, const struct chunks *chunks,
                                     const struct monitor *monitor, struct parameters *into, double *losses,
                                     double *mean, struct error *error);

#endif
