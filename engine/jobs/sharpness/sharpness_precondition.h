/* sharpness_precondition.h: the preconditioner of a sharpness run: what may be asked, and where its second moments come
 * from. */
#ifndef SHARPNESS_SHARPNESS_PRECONDITION_H
#define SHARPNESS_SHARPNESS_PRECONDITION_H

#include "base/checksum.h"
#include "curvature/preconditioned.h"
#include "jobs/sharpness/sharpness_tasks.h"

/* Without a model: STATUS_INVALID with a pointer below "/params/preconditioner" for what is out of range. */
MUST_CHECK enum status sharpness_precondition_check(const struct sharpness_preconditioner *preconditioner,
                                                    struct error *error);

/* Whether there are as many sequences as batches, if the request asks for any: STATUS_INVALID otherwise. */
MUST_CHECK enum status sharpness_precondition_fit(const struct sharpness_request *request, struct error *error);

/* Batches whose gradients are taken; 0: none. */
int64_t sharpness_precondition_batches(const struct sharpness_request *request);

/* Notes in s->mark which training state there is, if the request asks for one. STATUS_INVALID at
 * "/params/preconditioner" without one that fits, STATUS_CORRUPT, STATUS_IO, STATUS_NO_MEMORY. */
MUST_CHECK enum status sharpness_precondition_find(struct sharpness *s, struct error *error);

/* Adds to the fingerprint of a run what decides the preconditioner, after sharpness_precondition_find. */
void sharpness_precondition_sign(const struct sharpness *s, struct checksum *sum);

/* The Hessian of the run, preconditioned. Gradients need the memory of the products, which are set up again. The caller
 * resets *out (preconditioned_reset), also after a failure. Statuses of state_moments_read, gradient_over, hvp_new and
 * preconditioned_scale; STATUS_INPUT_CHANGED for another state than was found. */
MUST_CHECK enum status sharpness_precondition_new(struct sharpness *s, struct preconditioned *out, struct error *error);

#endif
