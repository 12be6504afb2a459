/* sharpness_direction.h: the loss to second order along the error of a quantization. For sharpness.c. */
#ifndef SHARPNESS_SHARPNESS_DIRECTION_H
#define SHARPNESS_SHARPNESS_DIRECTION_H

#include "curvature/hvp.h"
#include "jobs/sharpness/sharpness.h"

/* `gradient` is the gradient at the parameters. One product, besides a whole quantization. Fills all of *out but
 * predicted_delta, errors and units; the caller owns its arrays (sharpness_result_reset) and *direction, the error of
 * the quantization as a vector (matrix_release), also after a failure. Statuses of quantize_run and operator_apply. */
MUST_CHECK enum status sharpness_direction_run(const struct sharpness_request *request,
                                               const struct parameters *parameters, const struct symmetric_operator *op,
                                               struct matrix gradient, struct matrix *direction,
                                               struct sharpness_direction *out, struct error *error);

/* The tensor of a layer that a quantization names; -1: there is none. */
int64_t sharpness_direction_tensor(const struct parameters_layout *layout, const char *layer);

/* How the terms along that direction vary between sequences: fills errors and units of *out. `scratch` is a vector that
 * is overwritten. In units of hvp.h it costs a gradient with recomputation and a product in `mode`. Statuses of
 * sampling_along. */
MUST_CHECK enum status sharpness_direction_sample(const struct sharpness_request *request,
                                                  const struct parameters *parameters, int64_t chunk_tokens,
                                                  enum hvp_mode mode, struct matrix direction, struct matrix scratch,
                                                  struct sharpness_direction *out, struct error *error);

#endif
