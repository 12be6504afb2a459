#include "base/eigen.h"

#include "base/memory.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

/* Row r, column c of z lies at z[r * down + c * across]: all eigenvectors are kept with their columns in a stretch, as
 * rotations and swaps go down them. */
struct tridiagonal {
    int64_t n, rows;
    double *d, *e, *z;
    int64_t down, across;
};

static void stretches_rotate(int64_t count, double *restrict left, double *restrict right, double c, double s)
{
    for (int64_t i = 0; i < count; i++) {
        const double l = left[i], r = right[i];
        left[i] = c * l + s * r;
        right[i] = c * r - s * l;
    }
}

/* Multiplies columns k and k + 1 of z by the rotation. */
static void columns_rotate(const struct tridiagonal *t, int64_t k, double c, double s)
{
    double *at = t->z + k * t->across;
    if (t->down == 1) {
        stretches_rotate(t->rows, at, at + t->across, c, s);
        return;
    }
    for (int64_t row = 0; row < t->rows; row++)
        stretches_rotate(1, at + row * t->down, at + row * t->down + t->across, c, s);
}

/* One implicit QR step on the unreduced block [low, high]: a bulge is made by the shifted first column and chased
 * down. */
static void qr_step(const struct tridiagonal *t, int64_t low, int64_t high)
{
    double *d = t->d, *e = t->e;
    const double half = (d[high - 1] - d[high]) / 2, last = e[high - 1];
    const double shift = d[high] - last * last / (half + copysign(hypot(half, last), half));
    double x = d[low] - shift, bulge = e[low];
    for (int64_t k = low; k < high; k++) {
        const double r = hypot(x, bulge), c = r == 0 ? 1 : x / r, s = r == 0 ? 0 : bulge / r;
        const double first = d[k], second = d[k + 1], beside = e[k];
        if (k > low) e[k - 1] = r;
        d[k] = c * c * first + 2 * c * s * beside + s * s * second;
        d[k + 1] = s * s * first - 2 * c * s * beside + c * c * second;
        e[k] = c * s * (second - first) + (c * c - s * s) * beside;
        columns_rotate(t, k, c, s);
        if (k + 1 == high) break;
        x = e[k];
        bulge = s * e[k + 1];
        e[k + 1] *= c;
    }
}

/* Insertion sort by value: columns of z follow. Lists are short and nearly in order. */
static void sort(const struct tridiagonal *t)
{
    for (int64_t i = 1; i < t->n; i++)
        for (int64_t k = i; k > 0 && t->d[k - 1] > t->d[k]; k--) {
            const double value = t->d[k];
            t->d[k] = t->d[k - 1];
            t->d[k - 1] = value;
            for (int64_t row = 0; row < t->rows; row++) {
                double *left = t->z + row * t->down + (k - 1) * t->across, *right = left + t->across;
                const double kept = *left;
                *left = *right;
                *right = kept;
            }
        }
}

static enum status solve(const struct tridiagonal *t, struct error *error)
{
    const int64_t n = t->n;
    double *diagonal = t->d, *beside = t->e, scale = 0;
    int64_t budget = 64 * n + 64; /* two or three steps an eigenvalue are usual */
    for (int64_t i = 0; i < n; i++) {
        const double size = fabs(diagonal[i]) + (i + 1 < n ? fabs(beside[i]) : 0);
        if (!isfinite(size)) return error_set(error, STATUS_NOT_FINITE, "a projected matrix is not finite");
        scale = fmax(scale, size);
    }
    for (int64_t high = n - 1; high > 0;) {
        int64_t low = high;
        while (low > 0 && fabs(beside[low - 1]) > DBL_EPSILON * (fabs(diagonal[low - 1]) + fabs(diagonal[low])) &&
               fabs(beside[low - 1]) > DBL_EPSILON * DBL_EPSILON * scale)
            low--;
        if (low > 0) beside[low - 1] = 0;
        if (low == high) {
            high--;
            continue;
        }
        if (budget-- == 0)
            return error_set(error, STATUS_INTERNAL, "the eigenvalues of a projected matrix do not converge");
        qr_step(t, low, high);
    }
    sort(t);
    return STATUS_OK;
}

enum status eigen_tridiagonal(int64_t n, double *diagonal, double *beside, int64_t rows, double *z, struct error *error)
{
    const struct tridiagonal t = {n, rows, diagonal, beside, z, n, 1};
    return solve(&t, error);
}

/* Reflects rows and columns below k so that column k keeps one entry under the diagonal. The reflector, v with beta = 2
 * / vᵀv, is left in `v` [n] (zero up to k) and applied to the columns of Q, which are the rows of q. p is scratch
 * [n]. */
static void reflect(int64_t n, int64_t k, double *a, double *q, double *v, double *p)
{
    double norm = 0, size = 0, along = 0;
    for (int64_t i = k + 1; i < n; i++) norm = hypot(norm, a[i * n + k]);
    if (norm == 0) return;
    memset(v, 0, (size_t)n * sizeof *v);
    for (int64_t i = k + 1; i < n; i++) v[i] = a[i * n + k];
    v[k + 1] += copysign(norm, v[k + 1]);
    for (int64_t i = k + 1; i < n; i++) size += v[i] * v[i];
    const double beta = 2 / size;
    for (int64_t i = k; i < n; i++) {
        double sum = 0;
        for (int64_t j = k + 1; j < n; j++) sum += a[i * n + j] * v[j];
        p[i] = beta * sum;
        along += p[i] * v[i];
    }
    for (int64_t i = k; i < n; i++) p[i] -= beta / 2 * along * v[i];
    for (int64_t i = k; i < n; i++)
        for (int64_t j = k; j < n; j++) a[i * n + j] -= v[i] * p[j] + p[i] * v[j];
    memset(p, 0, (size_t)n * sizeof *p);
    for (int64_t j = k + 1; j < n; j++)
        for (int64_t i = 0; i < n; i++) p[i] += q[j * n + i] * v[j];
    for (int64_t j = k + 1; j < n; j++)
        for (int64_t i = 0; i < n; i++) q[j * n + i] -= beta * p[i] * v[j];
}

int64_t eigen_scratch(int64_t n)
{
    return n * n + 2 * n;
}

enum status eigen_symmetric_within(int64_t n, double *a, double *values, double *scratch, struct error *error)
{
    double *const q = scratch, *const beside = scratch + n * n;
    const struct tridiagonal t = {n, n, values, beside, q, 1, n};
    enum status status;
    for (int64_t i = 0; i < n * n; i++) {
        if (!isfinite(a[i])) return error_set(error, STATUS_NOT_FINITE, "a projected matrix is not finite");
        q[i] = i / n == i % n;
    }
    for (int64_t k = 0; k + 2 < n; k++) reflect(n, k, a, q, beside, beside + n);
    for (int64_t i = 0; i < n; i++) {
        values[i] = a[i * n + i];
        beside[i] = i + 1 < n ? a[(i + 1) * n + i] : 0;
    }
    if ((status = solve(&t, error)) != STATUS_OK) return status;
    memcpy(a, q, (size_t)(n * n) * sizeof *a);
    return STATUS_OK;
}

enum status eigen_symmetric(int64_t n, double *a, double *values, struct error *error)
{
    double *scratch = NULL;
    enum status status = memory_new(eigen_scratch(n), sizeof *scratch, "eigenvectors", &scratch, error);
    if (status == STATUS_OK) status = eigen_symmetric_within(n, a, values, scratch, error);
    memory_free(scratch);
    return status;
}
