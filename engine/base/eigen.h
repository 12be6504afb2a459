/* eigen.h: eigenvalues of symmetric matrices, in double: what Krylov methods reduce a large operator to, and the first
 * bases of the optimizer soap. */
#ifndef BASE_EIGEN_H
#define BASE_EIGEN_H

#include "base/error.h"

#include <stdint.h>

/* A tridiagonal matrix: `diagonal` [n] becomes the eigenvalues, ascending; `beside` [n] (entry i couples i and i + 1,
 * the last is not read) is destroyed. The rows of z [rows, n] are multiplied by the eigenvectors from the right: give
 * the identity's rows to get those components of every eigenvector, column j belonging to eigenvalue j. rows 0: none
 * are wanted. Implicit QR steps with Wilkinson's shift (Golub and Van Loan, "Matrix Computations", 8.3).
 * STATUS_NOT_FINITE for entries that are not finite. */
MUST_CHECK enum status eigen_tridiagonal(int64_t n, double *diagonal, double *beside, int64_t rows, double *z,
                                         struct error *error);

/* A full symmetric matrix a [n, n] (both triangles): values [n] ascending, and row i of a becomes eigenvector i.
 * Householder reduction, then the above. STATUS_NOT_FINITE, STATUS_NO_MEMORY. */
MUST_CHECK enum status eigen_symmetric(int64_t n, double *a, double *values, struct error *error);

/* The same in `room`, eigen_room(n) doubles, without taking memory. STATUS_NOT_FINITE. */
int64_t eigen_room(int64_t n);
MUST_CHECK enum status eigen_symmetric_within(int64_t n, double *a, double *values, double *room, struct error *error);

#endif
