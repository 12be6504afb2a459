/* sharpness_random.h: what random changes of the weights cost that are as large as the error δ of a quantization: in
 * each linear r has entries of one magnitude and random signs, and the norm of δ's part; it is zero elsewhere. The mean
 * of rᵀHr is then Σ |δ_m|² tr(H_mm) / n_m over the linears m of n_m weights. Curvature along δ against that tells
 * whether the quantization's error lies in sharper directions than chance. */
#ifndef SHARPNESS_SHARPNESS_RANDOM_H
#define SHARPNESS_SHARPNESS_RANDOM_H

#include "jobs/sharpness/sharpness_tasks.h"

/* Fills the curvature of s->out->direction.random from request->random_directions products; `direction` is δ, whose
 * layers s->out->direction names. Allocates two vectors. Statuses of operator_apply. */
MUST_CHECK enum status sharpness_random_products(struct sharpness *s, struct matrix direction, struct error *error);

/* Fills its losses, of the same changes: two for each, at θ + r and θ - r, so that the gradient drops out. After
 * hvp_free. Allocates a vector beside those of sharpness_losses.h. Statuses of sharpness_losses_at. */
MUST_CHECK enum status sharpness_random_losses(struct sharpness *s, struct matrix direction, struct error *error);

#endif
