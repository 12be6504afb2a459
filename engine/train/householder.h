/* householder.h: an orthonormal basis of the columns of a square matrix, by blocked Householder reflections. */
#ifndef TRAIN_HOUSEHOLDER_H
#define TRAIN_HOUSEHOLDER_H

#include "backend/backend.h"

/* Scratch of householder_basis for matrices of at most n rows: elements of the backend, and doubles of the host. */
int64_t householder_scratch(int64_t n);
int64_t householder_host(int64_t n);

/* q becomes orthogonal with q R = a for an upper triangle R: its first k columns span the first k columns of a; if
 * those are linearly dependent, q continues with an arbitrary direction. Both [n, n]; a is destroyed, q must not alias
 * it. NaN in gives NaN out. The panels are reduced on the host in double, the rest are products of the backend. */
void householder_basis(struct backend *backend, struct matrix a, struct matrix q, void *scratch, double *host);

#endif
