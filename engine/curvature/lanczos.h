/* lanczos.h: the two ends of an operator's spectrum by Lanczos' method with full reorthogonalisation. When the memory
 * for vectors is used up, the approximate eigenvectors nearest to both ends are kept and the space grows again from
 * there (thick restart: Wu and Simon 2000, "Thick-restart Lanczos method for large symmetric eigenvalue problems"). */
#ifndef CURVATURE_LANCZOS_H
#define CURVATURE_LANCZOS_H

#include "curvature/operator.h"
#include "curvature/saver.h"

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
    /* |A U - top u| / |top| of the unit vector u found for it, from one more product; 0 for an operator of zeros */
    double residual;
    /* An eigenvalue lies no farther than this from `largest` and from `smallest` (Weinstein's bound): the residuals of
     * the unit vectors found, from the recurrence, except that of the top one */
    double largest_bound, smallest_bound;
    int64_t products; /* iterations, without the product for the residual */
    /* both ends have residuals (bounds on their distance to an eigenvalue) of at most tolerance * |top| */
    bool converged;
};

/* `vector` of the operator's space gets the unit vector found for `largest`; with data NULL it does not. The saver may
 * be NULL. If it does not converge, the best result so far is no error. STATUS_NO_MEMORY, statuses of operator_apply
 * and of the saver. */
MUST_CHECK enum status lanczos_run(const struct symmetric_operator *op, const struct lanczos_settings *settings,
                                   const struct saver *saver, struct matrix vector, struct spectrum_ends *out,
                                   struct error *error);

#endif
