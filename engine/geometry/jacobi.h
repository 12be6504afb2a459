/* jacobi.h: all eigenvalues and eigenvectors of a small dense symmetric matrix, by Jacobi's method: plane rotations in
 * row order until nothing is left outside the diagonal (Golub and Van Loan, Matrix Computations, 8.5). Slow for large
 * ones, and accurate to the last bits also in small eigenvalues. */
#ifndef GEOMETRY_JACOBI_H
#define GEOMETRY_JACOBI_H

#include "base/error.h"

#include <stdint.h>

/* `matrix` [n, n], both triangles, destroyed. values [n] descending;
 * vectors [n, n]: row i is the unit eigenvector of values[i]. STATUS_NOT_FINITE. */
MUST_CHECK enum status jacobi_solve(double *matrix, int64_t n, double *values, double *vectors, struct error *error);

#endif
