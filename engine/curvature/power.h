/* power.h: the eigenvalue of largest magnitude by power iteration as PyHessian does it (Yao et al. 2020, arXiv
 * 1912.07145): a normal start, Rayleigh quotients, and an end when the relative change of the quotient falls below the
 * tolerance. It costs two vectors beside the start, finds no other end, and when eigenvalues of both signs are equally
 * large it may converge to a value between them: the residual shows that, the change does not. */
#ifndef CURVATURE_POWER_H
#define CURVATURE_POWER_H

#include "curvature/lanczos.h"

/* Of settings, most_vectors is not read. In *out largest or smallest is the top value, by its sign, and the other NAN;
 * `residual` is that of the vector of the last quotient; `vector` (its data NULL: not wanted) gets the unit vector
 * after it, whatever the sign. Statuses of lanczos_run. */
MUST_CHECK enum status power_run(const struct symmetric_operator *op, const struct lanczos_settings *settings,
                                 const struct keeper *keeper, struct matrix vector, struct spectrum_ends *out,
                                 struct error *error);

#endif
