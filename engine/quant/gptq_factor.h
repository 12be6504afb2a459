/* gptq_factor.h: the damped inverse of a Hessian as GPTQ needs it: U upper triangular with
 *
 *   (P H Pᵀ + damp * mean(diag H) I)⁻¹ = UᵀU,    P the visiting order
 *
 * Frantar et al., "GPTQ", arXiv 2210.17323, section 3.3, step 3. */
#ifndef QUANT_GPTQ_FACTOR_H
#define QUANT_GPTQ_FACTOR_H

#include "backend/backend.h"
#include "quant/gptq_order.h"

#define GPTQ_DAMP_INCREMENT 0.01

/* `hessian` [C, C], both triangles; `diagonal` [C], on the host, replaces its diagonal and has 1 for dead columns;
 * `upper` [C, C] gets U. Starts at `damp` and, while the Cholesky factorisation fails, increases it by 0.01, staying
 * below 1; the smallest damping that works is found by bisection and put in *used. STATUS_INVALID when none works;
 * `name` is the linear, for that error. */
MUST_CHECK enum status gptq_factor(struct backend *backend, const struct gptq_order *order, struct matrix hessian,
                                   const float *diagonal, double damp, const char *name, struct matrix upper,
                                   double *used, struct error *error);

#endif
