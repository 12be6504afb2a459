/* preconditioned.h: a symmetric operator A in coordinates that a positive diagonal D has scaled: D^-1/2 A D^-1/2. Its
 * eigenvalues are those of D^-1 A: for the Hessian and an optimizer that divides its steps by D, the curvature that
 * this optimizer meets (Cohen et al. 2022, arXiv 2207.14484). D is that of Adam with the second moments v:
 *
 *   D = correction1 (sqrt(v / correction2) + epsilon)
 *
 * Adam after t steps has the corrections 1 - beta1^t and 1 - beta2^t. */
#ifndef CURVATURE_PRECONDITIONED_H
#define CURVATURE_PRECONDITIONED_H

#include "curvature/operator.h"

struct preconditioned {
    struct symmetric_operator
        op; /* D^-1/2 A D^-1/2, once A and D are given; it lends the struct, which must not move */
    const struct symmetric_operator *inner; /* A; lent */
    struct matrix scale;                    /* owned: v, zero at first, and after preconditioned_scale D^-1/2 */
    struct matrix scaled;                   /* owned: the caller's between products, which overwrite it */
};

/* Two vectors of the space, of which only backend and elements are read. The caller owns them (preconditioned_reset).
 * STATUS_NO_MEMORY. */
MUST_CHECK enum status preconditioned_init(struct preconditioned *p, const struct vector_space *space,
                                           struct error *error);
void preconditioned_reset(struct preconditioned *p); /* {0} is fine */

/* Makes A the inner operator, which is lent, with its space. */
void preconditioned_over(struct preconditioned *p, const struct symmetric_operator *inner);

/* Adds the squares of `scaled` to v: in double, rounded once. STATUS_NO_MEMORY. */
MUST_CHECK enum status preconditioned_add_squares(struct preconditioned *p, struct error *error);

/* v becomes D^-1/2, computed in double and rounded once. Corrections and epsilon are positive. STATUS_NOT_FINITE for a
 * v that is negative or not finite, STATUS_NO_MEMORY. */
MUST_CHECK enum status preconditioned_scale(struct preconditioned *p, double correction1, double correction2,
                                            double epsilon, struct error *error);

/* vector = D^-1/2 vector: where the operator has u'D^-1/2 A D^-1/2 u, A has it along the vector that u becomes. */
void preconditioned_unscale(const struct preconditioned *p, struct matrix vector);

#endif
