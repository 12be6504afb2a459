/* power.h: the eigenvalue of largest magnitude by power iteration like PyHessian (Yao et al. 2020, arXiv 1912.07145): a
 * normal start, Rayleigh quotients, and an end when the relative change of the quotient falls below the tolerance. It
 * needs two vectors beside the start and finds only one end. If eigenvalues of both signs are equally large it may
 * converge to a value between them: the residual shows that, the change does not. */
#ifndef CURVATURE_POWER_H
#define CURVATURE_POWER_H

#include "curvature/lanczos.h"

/* Ignores settings->most_vectors. In *out, largest or smallest is the top value, by its sign, and the other is NAN;
 * `residual` belongs to the vector of the last quotient; `vector` (data NULL: not computed) gets the unit vector after
 * it, whatever the sign. Statuses of lanczos_run. */
MUST_CHECK enum status power_run(const struct symmetric_operator *op, const struct lanczos_settings *settings,
                                 const struct saver *saver, struct matrix vector, struct spectrum_ends *out,
                                 struct error *error);

#endif
