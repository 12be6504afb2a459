#include "geometry/jacobi.h"

#include <float.h>
#include <math.h>

enum { CYCLES_MAX = 60 }; /* convergence is quadratic: a dozen suffice */

/* Rotates rows and columns p and q so that a[p][q] becomes 0; accumulates the rotation in the rows of `vectors`. */
static void rotate(double *a, int64_t n, int64_t p, int64_t q, double *vectors)
{
    const double apq = a[p * n + q], tau = (a[q * n + q] - a[p * n + p]) / (2 * apq);
    const double t = (tau >= 0 ? 1 : -1) / (fabs(tau) + hypot(1, tau)), c = 1 / hypot(1, t), s = t * c;
    for (int64_t k = 0; k < n; k++) {
        const double x = a[k * n + p], y = a[k * n + q];
        a[k * n + p] = c * x - s * y;
        a[k * n + q] = s * x + c * y;
    }
    for (int64_t k = 0; k < n; k++) {
        const double x = a[p * n + k], y = a[q * n + k];
        a[p * n + k] = c * x - s * y;
        a[q * n + k] = s * x + c * y;
    }
    for (int64_t k = 0; k < n; k++) {
        const double x = vectors[p * n + k], y = vectors[q * n + k];
        vectors[p * n + k] = c * x - s * y;
        vectors[q * n + k] = s * x + c * y;
    }
    a[p * n + q] = a[q * n + p] = 0;
}

static void swap(double *a, double *b)
{
    const double kept = *a;
    *a = *b;
    *b = kept;
}

static void sort_descending(double *values, double *vectors, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t largest = i;
        for (int64_t j = i + 1; j < n; j++)
            if (values[j] > values[largest]) largest = j;
        swap(&values[i], &values[largest]);
        for (int64_t k = 0; k < n && largest != i; k++) swap(&vectors[i * n + k], &vectors[largest * n + k]);
    }
}

enum status jacobi_solve(double *matrix, int64_t n, double *values, double *vectors, struct error *error)
{
    double norm = 0;
    for (int64_t i = 0; i < n * n; i++) {
        norm += matrix[i] * matrix[i];
        vectors[i] = i / n == i % n;
    }
    if (!isfinite(norm)) return error_set(error, STATUS_NOT_FINITE, "a matrix is too large for its eigenvalues");
    const double negligible = DBL_EPSILON * DBL_EPSILON * DBL_EPSILON * norm / (double)(n * n);
    for (int cycle = 0; cycle < CYCLES_MAX; cycle++) {
        int64_t turned = 0;
        for (int64_t p = 0; p < n; p++)
            for (int64_t q = p + 1; q < n; q++) {
                if (matrix[p * n + q] * matrix[p * n + q] <= negligible) continue;
                rotate(matrix, n, p, q, vectors);
                turned++;
            }
        if (turned == 0) break;
    }
    for (int64_t i = 0; i < n; i++) values[i] = matrix[i * n + i];
    sort_descending(values, vectors, n);
    return STATUS_OK;
}
