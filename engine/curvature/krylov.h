/* krylov.h: an orthonormal basis of a Krylov space, one product at a time, with full reorthogonalisation, and the
 * operator projected on it. Its numbers and vectors are its whole state (saver.h). */
#ifndef CURVATURE_KRYLOV_H
#define CURVATURE_KRYLOV_H

#include "curvature/operator.h"
#include "curvature/saver.h"

struct krylov {
    const struct symmetric_operator *op; /* lent */
    struct basis basis;                  /* the expanded vectors and, behind them, the next one */
    struct matrix work;
    double *numbers;            /* owned: the fields below, then the caller's own `extra`, then the projected matrix */
    int64_t number_count, size; /* size: most vectors that can be expanded; basis.capacity is one more */
};

/* Indices into krylov->numbers. The caller's own numbers start at KRYLOV_OWN. */
enum { KRYLOV_PRODUCTS, KRYLOV_EXPANDED, KRYLOV_LOCKED, KRYLOV_BESIDE, KRYLOV_OWN };

/* For at most `size` vectors. The caller owns it (krylov_reset). STATUS_NO_MEMORY. */
MUST_CHECK enum status krylov_init(struct krylov *krylov, const struct symmetric_operator *op, int64_t size,
                                   int64_t extra, struct error *error);
void krylov_reset(struct krylov *krylov); /* {0} is fine */

/* Begins a new space with `start` in krylov->work, of any norm but 0. STATUS_NO_MEMORY. */
MUST_CHECK enum status krylov_begin(struct krylov *krylov, struct error *error);

/* The projected matrix [size, size], of which KRYLOV_EXPANDED rows and columns are in use. */
double *krylov_projected(const struct krylov *krylov);

/* Expands the space by one vector: one product. Afterwards A Q = Q T + beside * next eᵀ, e the last unit vector, beside
 * in numbers[KRYLOV_BESIDE]: 0 when the space is exhausted (an invariant subspace, to the element's precision), and
 * nothing more can be expanded. Statuses of operator_apply, STATUS_NO_MEMORY. */
MUST_CHECK enum status krylov_expand(struct krylov *krylov, struct error *error);

/* Eigenvalues of the projected matrix, ascending, and of each eigenvector the components along the first and the last
 * vector (either may be NULL). STATUS_NO_MEMORY. */
MUST_CHECK enum status krylov_ritz(const struct krylov *krylov, double *values, double *first, double *last,
                                   struct error *error);

struct saver_state krylov_state(struct krylov *krylov); /* lends */

#endif
