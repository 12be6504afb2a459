/* basis.h: a growing set of orthonormal vectors. Memory comes with the vectors, so that a large capacity costs nothing
 * until it is used. */
#ifndef CURVATURE_BASIS_H
#define CURVATURE_BASIS_H

#include "curvature/vector.h"

struct basis {
    const struct vector_space *space; /* lent */
    int64_t capacity, count;
    struct matrix *vectors; /* [capacity]; undefined from `count` on */
};

/* The caller owns it (basis_reset). STATUS_NO_MEMORY. */
MUST_CHECK enum status basis_init(struct basis *basis, const struct vector_space *space, int64_t capacity,
                                  struct error *error);
void basis_reset(struct basis *basis); /* {0} is fine */

/* Adds one vector of undefined content; count must be below capacity. STATUS_NO_MEMORY. */
MUST_CHECK enum status basis_append(struct basis *basis, struct error *error);

/* Subtracts from `vector` its components along the first `count` vectors, twice (Giraud et al. 2005: twice is enough),
 * and returns the norm of the rest. coefficients [count] (may be NULL) get the components. */
double basis_orthogonalise(const struct basis *basis, int64_t count, struct matrix vector, double *coefficients);

/* out = sum of weights[i] * vector i over the first `count`. */
void basis_combine(const struct basis *basis, int64_t count, const double *weights, struct matrix out);

/* Replaces the first `to` vectors by combinations of the first `from`, from >= to: vector i becomes the sum over k of
 * weights[i * from + k] * vector k. STATUS_NO_MEMORY (for a chunk of all of them at a time): the basis is then
 * unchanged. */
MUST_CHECK enum status basis_rotate(struct basis *basis, int64_t from, int64_t to, const double *weights,
                                    struct error *error);

#endif
