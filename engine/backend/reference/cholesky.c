/* cholesky.c: the upper factor U of the inverse, h⁻¹ = UᵀU, for GPTQ (Frantar et al., arXiv 2210.17323, step "Cholesky
 * reformulation").
 *
 * Factor from the last column back: h = R Rᵀ with R upper triangular. Then h⁻¹ = R⁻ᵀ R⁻¹, so U = R⁻¹ is the factor, and
 * the inverse of h itself is never formed.
 *   R[j][j] = sqrt(h[j][j] - sum_{k>j} R[j][k]^2)
 *   R[i][j] = (h[j][i] - sum_{k>j} R[i][k] R[j][k]) / R[j][j]            i < j
 *   U[j][j] = 1 / R[j][j],  U[i][j] = -U[j][j] sum_{i<=k<j} U[i][k] R[k][j]
 * h comes in the lower triangle and R goes to the upper one, so nothing is overwritten before it is read. */
#include "backend/reference/real.h"

#include <math.h>

static bool factor_from_last(struct matrix h)
{
    for (int64_t j = h.rows - 1; j >= 0; j--) {
        const real *below = row_of(h, j);
        for (int64_t i = j; i >= 0; i--) {
            real sum = below[i];
            for (int64_t k = j + 1; k < h.rows; k++) sum -= row_of(h, i)[k] * below[k];
            if (i == j) {
                if (!(sum > 0) || !isfinite(sum)) return false;
                row_of(h, j)[j] = (real)sqrt((double)sum);
            } else {
                row_of(h, i)[j] = sum / row_of(h, j)[j];
            }
        }
    }
    return true;
}

static void invert_upper(struct matrix r)
{
    for (int64_t j = 0; j < r.rows; j++) {
        const real diagonal = 1 / row_of(r, j)[j];
        row_of(r, j)[j] = diagonal;
        for (int64_t i = 0; i < j; i++) {
            real sum = 0;
            for (int64_t k = i; k < j; k++) sum += row_of(r, i)[k] * row_of(r, k)[j];
            row_of(r, i)[j] = -diagonal * sum;
        }
    }
}

bool REFERENCE(inverse_cholesky)(struct backend *backend, struct matrix h)
{
    (void)backend;
    if (!factor_from_last(h)) return false;
    invert_upper(h);
    for (int64_t i = 1; i < h.rows; i++)
        for (int64_t j = 0; j < i; j++) row_of(h, i)[j] = 0;
    return true;
}
