/* hadamard.h: orthogonal transforms of vectors of n numbers, by matrices whose entries all have the same magnitude:
 *
 *   v → v diag(sign) H / sqrt(n)
 *
 * H is Sylvester's matrix for powers of two, and for m 2^k the Kronecker product of Paley's matrix of order m with it:
 *
 *   I + S,  S = [[0, 1], [-1, chi(j - i)]]
 *
 * chi the quadratic character of the integers modulo the prime q = m - 1 (q is 3 modulo 4, so m is 12, 20, 24, 44, …;
 * the least m that fits). If there is no such m, H is block diagonal with Sylvester matrices of the largest power of
 * two that divides n. H need not be symmetric, so there is an inverse. Sums in double. */
#ifndef QUANT_HADAMARD_H
#define QUANT_HADAMARD_H

#include "backend/backend.h"
#include "base/error.h"

struct hadamard {
    struct backend *backend;            /* lent */
    int64_t size, blocks, order, power; /* size = blocks * order * power */
    int8_t *paley;                      /* [order, order] owned, in memory of the backend; NULL for order 1 */
    double *scratch;                    /* owned (backend/codes.h); NULL on a device */
};

/* For vectors of `size` >= 1 numbers. The caller calls hadamard_reset, also on failure. STATUS_NO_MEMORY. */
MUST_CHECK enum status hadamard_init(struct hadamard *hadamard, struct backend *backend, int64_t size,
                                     struct error *error);
void hadamard_reset(struct hadamard *hadamard); /* {0} is fine */

/* Options of a transform. */
struct hadamard_use {
    const float *sign; /* [size] of +1 and -1, in memory of the backend; NULL: all +1 */
    bool inverse;
    bool centred; /* their mean is subtracted first; not for the inverse */
};
/* Transforms every row of x [rows, size] into `to`, which may be x. */
void hadamard_rows(const struct hadamard *hadamard, struct hadamard_use use, struct matrix x, struct matrix to);
/* Every column of x [size, columns], in place. */
void hadamard_columns(const struct hadamard *hadamard, struct hadamard_use use, struct matrix x);

#endif
