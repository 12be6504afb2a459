/* eigen.h: eigenvalues of symmetric matrices, in double: of the small matrices to which Krylov methods reduce a large
 * operator, and for the first bases of the optimizer soap. */
#ifndef BASE_EIGEN_H
#define BASE_EIGEN_H

#include "base/error.h"

#include <stdint.h>

/* A tridiagonal matrix: `diagonal` [n] becomes the eigenvalues, ascending; `beside` [n] (entry i couples i and i + 1,
 * the last is not read) is destroyed. The rows of z [rows, n] are multiplied by the eigenvectors from the right: pass
 * rows of the identity to get those components of every eigenvector; column j belongs to eigenvalue j. rows 0: no
 * eigenvectors. Implicit QR steps with Wilkinson's shift (Golub and Van Loan, "Matrix Computations", 8.3).
 * STATUS_NOT_FINITE for entries that are not finite. */
MUST_CHECK enum status eigen_tridiagonal(int64_t n, double *diagonal, double *beside, int64_t rows, double *z,
                                         struct error *error);

/* A full symmetric matrix a [n, n] (both triangles): values [n] become the eigenvalues, ascending, and row i of a
 * becomes eigenvector i. Householder reduction, then eigen_tridiagonal. STATUS_NOT_FINITE, STATUS_NO_MEMORY. */
MUST_CHECK enum status eigen_symmetric(int64_t n, double *a, double *values, struct error *error);

/* eigen_symmetric in scratch memory of the caller: `scratch` holds eigen_scratch(n) doubles. STATUS_NOT_FINITE. */
int64_t eigen_scratch(int64_t n);
MUST_CHECK enum status eigen_symmetric_within(int64_t n, double *a, double *values, double *scratch,
                                              struct error *error);

#endif
