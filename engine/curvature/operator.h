/* operator.h: a symmetric linear operator that is known only by its products. The algorithms of this room use it, so
 * that they can be tested on matrices with known spectrum; the Hessian of a model is one (hvp.h). */
#ifndef CURVATURE_OPERATOR_H
#define CURVATURE_OPERATOR_H

#include "curvature/vector.h"

struct symmetric_operator {
    struct vector_space space;
    void *owner;
    /* out = A v, both of the space with all elements; `out` is overwritten and is not v. May fail, also to cancel. */
    enum status (*apply)(void *owner, struct matrix v, struct matrix out, struct error *error);
};

/* out = P A v, P the projection on the space's spans: with a part of the parameters this is their diagonal block of the
 * Hessian. STATUS_NOT_FINITE when the product is not finite, statuses of apply. */
MUST_CHECK enum status operator_apply(const struct symmetric_operator *op, struct matrix v, struct matrix out,
                                      struct error *error);

#endif
