/* lanczos.h: the two ends of an operator's spectrum by Lanczos' method with full reorthogonalisation. When as many
 * vectors as there is room for have not sufficed, the approximate eigenvectors nearest to both ends are kept and the
 * space grows again from there (thick restart: Wu and Simon 2000, "Thick-restart Lanczos method for large symmetric
 * eigenvalue problems"). */
#ifndef CURVATURE_LANCZOS_H
#define CURVATURE_LANCZOS_H

#include "curvature/keeper.h"
#include "curvature/operator.h"

enum { LANCZOS_LEAST_VECTORS = 6 };

struct lanczos_settings {
    int64_t most_products; /* at least 1 */
    int64_t most_vectors;  /* in memory at once, at least LANCZOS_LEAST_VECTORS; 0: as many as products */
    double tolerance;      /* > 0 */
    uint64_t seed, stream; /* of the start */
};

struct spectrum_ends {
    double top;               /* the eigenvalue of largest magnitude, with its sign */
    double largest, smallest; /* algebraic */
    /* |A u - top u| / |top| of the unit vector u found for it, computed anew; 0 for an operator of zeros */
    double residual;
    /* An eigenvalue lies no farther than this from `largest` and from `smallest` (Weinstein's bound): the residuals of
     * the unit vectors found, by the recurrence but for the top one's */
    double largest_bound, smallest_bound;
    int64_t products; /* iterations, that of the residual not counted */
    /* both ends have residuals (bounds on their distance to an eigenvalue) of at most tolerance * |top| */
    bool converged;
};

/* `vector` of the operator's space gets the unit vector found for `largest`; its data NULL: not wanted. The keeper may
 * be NULL. STATUS_NO_MEMORY, statuses of operator_apply and of the keeper. Without convergence the best so far is no
 * error. */
MUST_CHECK enum status lanczos_run(const struct symmetric_operator *op, const struct lanczos_settings *settings,
                                   const struct keeper *keeper, struct matrix vector, struct spectrum_ends *out,
                                   struct error *error);

#endif
