/* gemm.c: two products.
 *
 *   gemm   c = alpha op(a) op(b) + beta c      c [M, N], op(a) [M, K], op(b) [K, N]
 *   syrk   c = alpha xᵀx + beta c              c [C, C], its lower triangle alone; x [T, C]
 *
 * Sums run over k (syrk: t) in order, in `real`. The team shares the rows of c; one thread computes a row, in a fixed
 * order. */
#include "backend/reference/real.h"

struct product {
    const struct gemm_args *args;
    struct matrix c, x; /* syrk */
    double alpha, beta;
};

static void scale_row(real *c, int64_t count, double beta)
{
    for (int64_t j = 0; j < count; j++) c[j] = beta == 0 ? (real)0 : (real)beta * c[j];
}

/* y += scale x */
static void add_scaled(real *y, const real *x, int64_t count, real scale)
{
    for (int64_t j = 0; j < count; j++) y[j] += scale * x[j];
}

static real inner_product(const real *a, int64_t a_step, const real *b, int64_t count)
{
    real sum = 0;
    for (int64_t k = 0; k < count; k++) sum += a[k * a_step] * b[k];
    return sum;
}

static void gemm_row(void *context, int64_t i, int thread)
{
    (void)thread;
    const struct product *product = context;
    const struct gemm_args *args = product->args;
    const int64_t depth = args->transpose_a ? args->a.rows : args->a.columns;
    const real *a = args->transpose_a ? (real *)args->a.data + i : row_of(args->a, i);
    const int64_t a_step = args->transpose_a ? args->a.stride : 1;
    real *c = row_of(args->c, i);
    scale_row(c, args->c.columns, args->beta);
    if (args->transpose_b)
        for (int64_t j = 0; j < args->c.columns; j++)
            c[j] += (real)args->alpha * inner_product(a, a_step, row_of(args->b, j), depth);
    else
        for (int64_t k = 0; k < depth; k++)
            add_scaled(c, row_of(args->b, k), args->c.columns, (real)args->alpha * a[k * a_step]);
}

void REFERENCE(gemm)(struct backend *backend, const struct gemm_args *args)
{
    struct product product = {.args = args};
    team_run(backend->team, args->c.rows, gemm_row, &product);
}

static void syrk_row(void *context, int64_t i, int thread)
{
    (void)thread;
    const struct product *product = context;
    real *c = row_of(product->c, i);
    scale_row(c, i + 1, product->beta);
    for (int64_t t = 0; t < product->x.rows; t++) {
        const real *x = row_of(product->x, t);
        add_scaled(c, x, i + 1, (real)product->alpha * x[i]);
    }
}

void REFERENCE(syrk)(struct backend *backend, struct matrix c, struct matrix x, double alpha, double beta)
{
    struct product product = {.c = c, .x = x, .alpha = alpha, .beta = beta};
    team_run(backend->team, c.rows, syrk_row, &product);
}
