/* check_products.c: matrix products, as cuBLAS makes them. A sum of k products in floats differs from the exact one by
 * at most (6 sqrt(k) + 3) u (|a| |b| + |beta c|) (Higham and Mary, SISC 41, 2019, the probabilistic form of gamma_k),
 * u = 2^-24; of normal vectors |a_i| |b_j| is about k, and product_norm puts five standard deviations on it. Factors
 * that were rounded to eleven bits break that bound by far, so that TF32 behind our back is seen. */
#include "selftest/check.h"

#include <math.h>

static double product_norm(int64_t k)
{
    return (double)k + 8 * sqrt((double)k) + 16;
}

static const struct {
    int64_t m, n, k;
} gemms[] = {{1, 1, 1},     {3, 5, 7},    {17, 33, 65}, {64, 64, 64},
             {130, 70, 40}, {1, 150, 40}, {150, 1, 40}, {33, 40, 257}};

/* One product; growth in roundings of a float. */
static void product(struct exam *exam, int64_t shape, int form, bool exact, double growth)
{
    static const double alphas[] = {1, -0.5}, betas[] = {0, 2};
    static const char *const names[] = {"a b", "aT b", "a bT", "aT bT"};
    const int64_t m = gemms[shape].m, n = gemms[shape].n, k = gemms[shape].k, turn = (form + shape) % 2;
    const bool transpose_a = form & 1, transpose_b = form & 2;
    const struct matrix a = transpose_a ? exam_random(exam, k, m, 3, 1) : exam_random(exam, m, k, 3, 1);
    const struct matrix b = transpose_b ? exam_random(exam, n, k, 4, 1) : exam_random(exam, k, n, 4, 1);
    const struct matrix c = exam_target(exam, m, n, 2, betas[turn] != 0);
    exam->backend->ops->gemm(exam->backend,
                             &(struct gemm_args){a, b, c, transpose_a, transpose_b, alphas[turn], betas[turn], exact});
    exam_record(exam, names[form], c, growth, fabs(alphas[turn]) * product_norm(k) + 5 * betas[turn]);
}

static double float_growth(int64_t k)
{
    return 6 * sqrt((double)k) + 3;
}

static void run_gemm(struct exam *exam, int64_t shape)
{
    for (int form = 0; form < 4; form++)
        product(exam, shape, form, (form + shape) % 3 == 0, float_growth(gemms[shape].k));
}

/* Both factors cut to `bits` bits, rounded or truncated: the relative error of each product is at most twice 2^-(bits -
 * 1). */
static void run_cut(struct exam *exam, int64_t shape, int bits)
{
    for (int form = 0; form < 4; form++)
        product(exam, shape, form, false, float_growth(gemms[shape].k) + 2.1 * ldexp(1, 25 - bits));
    product(exam, shape, 0, true, float_growth(gemms[shape].k)); /* what must be exact is */
}

static void run_tf32(struct exam *exam, int64_t shape)
{
    run_cut(exam, shape, 11);
}

/* Factors without gaps, alone and with the second one in a rounded copy of parameters. */
static void dense_products(struct exam *exam, int64_t m, int64_t n, int64_t k)
{
    const struct rounding_ops *rounding = exam->backend->ops->rounding;
    const struct matrix a = exam_random(exam, m, k, 0, 1), b = exam_random(exam, n, k, 0, 1);
    const int64_t bytes = rounding != NULL ? rounding->bytes(exam->backend, n * k) : 0;
    void *copy = exam_bytes(exam, NULL, 2 * n * k);
    for (int turn = 0; turn < 2; turn++) {
        const struct matrix c = exam_target(exam, m, n, 0, false);
        if (turn == 1 && bytes > 0) rounding->begin(exam->backend, b.data, n * k, copy);
        exam->backend->ops->gemm(exam->backend,
                                 &(struct gemm_args){.a = a, .b = b, .c = c, .transpose_b = true, .alpha = 1});
        if (turn == 1 && bytes > 0) rounding->end(exam->backend);
        exam_record(exam, "a bT without gaps", c, float_growth(k) + 2.1 * ldexp(1, 25 - 8), product_norm(k));
    }
}

static void run_bf16(struct exam *exam, int64_t shape)
{
    run_cut(exam, shape, 8);
    dense_products(exam, 20 * shape + 3, 70, 40);
}

static const int64_t squares[][2] = {{1, 3}, {7, 20}, {100, 33}, {129, 64}, {290, 17}}; /* columns, rows */

static void run_syrk(struct exam *exam, int64_t shape)
{
    const int64_t n = squares[shape][0], rows = squares[shape][1];
    for (int turn = 0; turn < 2; turn++) {
        const struct matrix x = exam_random(exam, rows, n, 1, 1), c = exam_target(exam, n, n, 4, turn != 0);
        exam->backend->ops->syrk(exam->backend, c, x, turn == 0 ? 1 : 0.5, turn);
        exam->backend->ops->mirror(exam->backend, c); /* entries above the diagonal are undefined */
        exam_record(exam, "xT x", c, float_growth(rows), product_norm(rows) + 5);
    }
}

static const int64_t factors[] = {1, 2, 64, 65, 130};

/* h = xᵀx / T + damp I. The residual of a backward stable factorisation and inversion is bounded by n u cond(h)
 * (Higham, ch. 10 and 14), with cond at most (largest eigenvalue) / damp. */
static void run_factor(struct exam *exam, int64_t shape)
{
    const int64_t n = factors[shape], rows = 2 * n;
    const double damp = 0.1, condition = (pow(1 + sqrt(0.5), 2) + damp) / damp;
    struct backend *backend = exam->backend;
    const struct matrix x = exam_random(exam, rows, n, 0, 1), h = exam_filled(exam, n, n, 3, 0),
                        bad = exam_filled(exam, n, n, 0, 0);
    backend->ops->fill(backend, matrix_diagonal(h), damp);
    backend->ops->fill(backend, matrix_diagonal(bad), 1);
    backend->ops->syrk(backend, h, x, 1 / (double)rows, 1);
    exam_record_number(exam, "a factor", backend->ops->inverse_cholesky(backend, h), 0);
    exam_record(exam, "the factor", h, (double)n * condition, 1);
    backend->ops->fill(backend, matrix_columns(matrix_rows(bad, n / 2, 1), n / 2, 1), -1);
    exam_record_number(exam, "no factor of what has none", backend->ops->inverse_cholesky(backend, bad), 0);
}

const struct check check_products[] = {
    {"products", run_gemm, CHECK_COUNT(gemms), CHECK_DOUBLES, NULL},
    {"squares", run_syrk, CHECK_COUNT(squares), CHECK_DOUBLES, NULL},
    {"factors", run_factor, CHECK_COUNT(factors), CHECK_DOUBLES, NULL},
    {"products in tf32", run_tf32, CHECK_COUNT(gemms) - 3, CHECK_DOUBLES, "tf32"},
    {"products in bf16", run_bf16, CHECK_COUNT(gemms) - 3, CHECK_DOUBLES, "bf16"},
    {0},
};
