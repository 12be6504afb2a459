/* sharpness_direction.h: the loss to second order along the error of a quantization. For sharpness.c. */
#ifndef SHARPNESS_SHARPNESS_DIRECTION_H
#define SHARPNESS_SHARPNESS_DIRECTION_H

#include "curvature/hvp.h"
#include "jobs/sharpness/sharpness.h"

/* `gradient` is the gradient at the parameters. One product, besides a whole quantization. Fills all of *out, whose
 * arrays the caller owns (sharpness_result_reset). Statuses of quantize_run and operator_apply. */
MUST_CHECK enum status sharpness_direction_run(const struct sharpness_request *request,
                                               const struct parameters *parameters, const struct symmetric_operator *op,
                                               struct matrix gradient, struct sharpness_direction *out,
                                               struct error *error);

#endif
