/* cholesky.c: the factor of reference/cholesky.c by halves, so that nearly all work is matrix products shared by the
 * team.
 *
 *   h = [[A, B], [Bᵀ, C]] = R Rᵀ, R upper:  C = R₂ R₂ᵀ,  R₁₂ = B R₂⁻ᵀ,  A - R₁₂ R₁₂ᵀ = R₁ R₁ᵀ
 *   [[R₁, R₁₂], [0, R₂]]⁻¹ = [[R₁⁻¹, -R₁⁻¹ R₁₂ R₂⁻¹], [0, R₂⁻¹]]
 *
 * All work is in the upper triangle: the lower one, the input, is copied there first and cleared at the end. */
#include "backend/cpu/cpu.h"
#include "backend/reference/table.h"

#include <math.h>

enum { LEAF = 64, SLICE = 128 }; /* columns at which recursion ends; rows or columns of a task */

struct factor {
    struct backend *backend;
    const struct cpu *cpu;
};

static struct matrix part(struct matrix m, int64_t row, int64_t column, int64_t rows, int64_t columns)
{
    return matrix_columns(matrix_rows(m, row, rows), column, columns);
}

/* b ← b op(t) or op(t) b, scaled, for a triangular t: solved (t⁻¹) or multiplied, in slices of b. */
struct slices {
    const struct factor *factor;
    struct matrix triangle, b;
    bool left, solve;
    float alpha;
};

static void slice_task(void *context, int64_t i, int thread)
{
    (void)thread;
    const struct slices *slices = context;
    const struct openblas *blas = &slices->factor->cpu->blas;
    const int64_t first = i * SLICE;
    const struct matrix b = slices->left ? matrix_columns(slices->b, first, smaller(SLICE, slices->b.columns - first))
                                         : matrix_rows(slices->b, first, smaller(SLICE, slices->b.rows - first));
    (slices->solve ? blas->strsm : blas->strmm)(BLAS_ROW_MAJOR, slices->left ? BLAS_LEFT : BLAS_RIGHT, BLAS_UPPER,
                                                slices->solve ? BLAS_TRANSPOSED : BLAS_PLAIN, BLAS_NON_UNIT,
                                                (int)b.rows, (int)b.columns, slices->alpha, slices->triangle.data,
                                                (int)slices->triangle.stride, b.data, (int)b.stride);
}

static void run_slices(const struct factor *factor, struct matrix triangle, struct matrix b, bool left, bool solve,
                       float alpha)
{
    struct slices slices = {factor, triangle, b, left, solve, alpha};
    team_run(factor->backend->team, ceil_divide(left ? b.columns : b.rows, SLICE), slice_task, &slices);
}

/* The upper triangle of c -= x xᵀ in square tiles; tiles on the diagonal do twice the necessary work. */
struct update {
    const struct cpu *cpu;
    struct matrix c, x;
};

enum { UPDATE_TILE = 256 };

static void update_tile(void *context, int64_t i, int thread)
{
    (void)thread;
    const struct update *update = context;
    int64_t column = 0, before = 0;
    while (before + column + 1 <= i) before += ++column;
    const int64_t top = (i - before) * UPDATE_TILE, left = column * UPDATE_TILE;
    const int64_t height = smaller(UPDATE_TILE, update->c.rows - top),
                  width = smaller(UPDATE_TILE, update->c.rows - left);
    cpu_multiply(update->cpu, false, true, height, width, update->x.columns, -1, float_row(update->x, top),
                 update->x.stride, float_row(update->x, left), update->x.stride, 1, float_row(update->c, top) + left,
                 update->c.stride);
}

static void subtract_square(const struct factor *factor, struct matrix c, struct matrix x)
{
    struct update update = {factor->cpu, c, x};
    const int64_t tiles = ceil_divide(c.rows, UPDATE_TILE);
    team_run(factor->backend->team, tiles * (tiles + 1) / 2, update_tile, &update);
}

static bool factor_leaf(const struct cpu *cpu, struct matrix h)
{
    for (int64_t j = h.rows - 1; j >= 0; j--) {
        float *row = float_row(h, j);
        const int64_t behind = h.rows - j - 1;
        const float pivot = (float)((double)row[j] - cpu->kernels->dot(row + j + 1, row + j + 1, behind));
        if (!(pivot > 0) || !isfinite(pivot)) return false;
        row[j] = sqrtf(pivot);
        for (int64_t i = 0; i < j; i++) {
            float *above = float_row(h, i);
            above[j] =
                (float)(((double)above[j] - cpu->kernels->dot(above + j + 1, row + j + 1, behind)) / (double)row[j]);
        }
    }
    return true;
}

static bool factor_upper(const struct factor *factor, struct matrix h)
{
    if (h.rows <= LEAF) return factor_leaf(factor->cpu, h);
    const int64_t first = ceil_divide(h.rows / 2, LEAF) * LEAF, rest = h.rows - first;
    const struct matrix a = part(h, 0, 0, first, first), b = part(h, 0, first, first, rest),
                        c = part(h, first, first, rest, rest);
    if (!factor_upper(factor, c)) return false;
    run_slices(factor, c, b, false, true, 1);
    subtract_square(factor, a, b);
    return factor_upper(factor, a);
}

/* Row by row from the last: row i of the inverse is -1/r_ii times (row i of r) times the rows below it. */
static void invert_leaf(const struct cpu *cpu, struct matrix r)
{
    float row[LEAF];
    for (int64_t i = r.rows - 1; i >= 0; i--) {
        float *at = float_row(r, i);
        const float inverse = 1 / at[i];
        for (int64_t k = i + 1; k < r.rows; k++) {
            row[k] = -inverse * at[k];
            at[k] = 0;
        }
        at[i] = inverse;
        for (int64_t k = i + 1; k < r.rows; k++) cpu->kernels->add(at + k, float_row(r, k) + k, r.rows - k, row[k], 1);
    }
}

static void invert_upper(const struct factor *factor, struct matrix r)
{
    if (r.rows <= LEAF) {
        invert_leaf(factor->cpu, r);
        return;
    }
    const int64_t first = ceil_divide(r.rows / 2, LEAF) * LEAF, rest = r.rows - first;
    const struct matrix a = part(r, 0, 0, first, first), b = part(r, 0, first, first, rest),
                        c = part(r, first, first, rest, rest);
    invert_upper(factor, a);
    invert_upper(factor, c);
    run_slices(factor, a, b, true, false, -1);
    run_slices(factor, c, b, false, false, 1);
}

/* Copies the lower triangle to the upper one (`mirror`) or clears it, 64 columns a task. */
struct lower {
    struct matrix h;
    bool mirror;
};

static void lower_task(void *context, int64_t i, int thread)
{
    (void)thread;
    const struct lower *lower = context;
    const int64_t left = i * LEAF, right = smaller(left + LEAF, lower->h.rows);
    for (int64_t row = left; row < lower->h.rows; row++) {
        float *at = float_row(lower->h, row);
        for (int64_t column = left; column < smaller(right, row); column++) {
            if (lower->mirror)
                float_row(lower->h, column)[row] = at[column];
            else
                at[column] = 0;
        }
    }
}

static void run_lower(struct backend *backend, struct matrix h, bool mirror)
{
    struct lower lower = {h, mirror};
    team_run(backend->team, ceil_divide(h.rows, LEAF), lower_task, &lower);
}

bool cpu_inverse_cholesky(struct backend *backend, struct matrix h)
{
    const struct factor factor = {backend, cpu_of(backend)};
    if (factor.cpu->blas.library == NULL) return reference_ops_float.inverse_cholesky(backend, h);
    run_lower(backend, h, true);
    if (!factor_upper(&factor, h)) return false;
    invert_upper(&factor, h);
    run_lower(backend, h, false);
    return true;
}
