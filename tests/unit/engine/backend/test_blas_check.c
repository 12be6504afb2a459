/* The check of a BLAS on libraries that are right, and wrong in one way each: plain loops stand for the library. */
#include "backend/cpu/blas_check.h"
#include "backend/cpu/cpu.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- a library of plain loops, right in every product ---- */

static float at(const float *m, int stride, int row, int column, bool transposed)
{
    return transposed ? m[(int64_t)column * stride + row] : m[(int64_t)row * stride + column];
}

static void right_sgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float *a,
                        int lda, const float *b, int ldb, float beta, float *c, int ldc)
{
    assert_int_equal(order, BLAS_ROW_MAJOR);
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            float sum = 0, *to = c + (int64_t)i * ldc + j;
            for (int l = 0; l < k; l++)
                sum +=
                    at(a, lda, i, l, transpose_a == BLAS_TRANSPOSED) * at(b, ldb, l, j, transpose_b == BLAS_TRANSPOSED);
            *to = beta == 0 ? alpha * sum : alpha * sum + beta * *to;
        }
}

static void right_ssyrk(int order, int triangle, int transpose, int n, int k, float alpha, const float *a, int lda,
                        float beta, float *c, int ldc)
{
    (void)order;
    assert_true(triangle == BLAS_LOWER && transpose == BLAS_TRANSPOSED);
    for (int i = 0; i < n; i++)
        right_sgemm(BLAS_ROW_MAJOR, BLAS_TRANSPOSED, BLAS_PLAIN, 1, i + 1, k, alpha, a + i, lda, a, lda, beta,
                    c + (int64_t)i * ldc, ldc);
}

static void right_strsm(int order, int side, int triangle, int transpose, int diagonal, int m, int n, float alpha,
                        const float *a, int lda, float *b, int ldb)
{
    (void)order, (void)diagonal, (void)alpha;
    assert_true(side == BLAS_RIGHT && triangle == BLAS_UPPER && transpose == BLAS_TRANSPOSED);
    for (int i = 0; i < m; i++)
        for (int j = n - 1; j >= 0; j--) {
            float *row = b + (int64_t)i * ldb, sum = row[j];
            for (int l = j + 1; l < n; l++) sum -= row[l] * at(a, lda, j, l, false);
            row[j] = sum / at(a, lda, j, j, false);
        }
}

static void right_strmm(int order, int side, int triangle, int transpose, int diagonal, int m, int n, float alpha,
                        const float *a, int lda, float *b, int ldb)
{
    (void)order, (void)diagonal;
    assert_true(triangle == BLAS_UPPER && transpose == BLAS_PLAIN);
    const int count = side == BLAS_LEFT ? m : n;
    for (int other = 0; other < (side == BLAS_LEFT ? n : m); other++)
        for (int step = 0; step < count; step++) {
            const int i = side == BLAS_LEFT ? step : count - 1 - step;
            float sum = 0;
            for (int l = side == BLAS_LEFT ? i : 0; l < (side == BLAS_LEFT ? count : i + 1); l++)
                sum += side == BLAS_LEFT ? at(a, lda, i, l, false) * b[(int64_t)l * ldb + other]
                                         : b[(int64_t)other * ldb + l] * at(a, lda, l, i, false);
            b[side == BLAS_LEFT ? (int64_t)i * ldb + other : (int64_t)other * ldb + i] = alpha * sum;
        }
}

/* ---- and wrong in one way each ---- */

#define SGEMM_ARGUMENTS                                                                                            \
    int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b, int ldb, \
        float beta, float *c, int ldc

static void one_shape_sgemm(SGEMM_ARGUMENTS)
{
    right_sgemm(order, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    if (m == 17 && n == 15) c[(int64_t)16 * ldc + 14] *= 1.01F;
}

static void lost_depth_sgemm(SGEMM_ARGUMENTS)
{
    right_sgemm(order, ta, tb, m, n, k > 1536 ? k - 1 : k, alpha, a, lda, b, ldb, beta, c, ldc);
}

static void multiplied_nan_sgemm(SGEMM_ARGUMENTS)
{
    right_sgemm(order, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    if (beta == 0 && k == 0) c[0] = NAN;
}

static void rounded_sgemm(SGEMM_ARGUMENTS) /* factors of some 16 bits */
{
    right_sgemm(order, ta, tb, m, n, k, alpha * (1 + 0x1p-15F), a, lda, b, ldb, beta, c, ldc);
}

static void forgotten_beta_sgemm(SGEMM_ARGUMENTS)
{
    right_sgemm(order, ta, tb, m, n, k, alpha, a, lda, b, ldb, n > 12000 ? 0 : beta, c, ldc);
}

static void beyond_the_edge_sgemm(SGEMM_ARGUMENTS)
{
    right_sgemm(order, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    if (ldc > n && m == 31) c[n] = 0;
}

static void before_the_start_sgemm(SGEMM_ARGUMENTS)
{
    right_sgemm(order, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    if (m == 63) c[-1] = 0;
}

static void upper_half_ssyrk(int order, int triangle, int transpose, int n, int k, float alpha, const float *a, int lda,
                             float beta, float *c, int ldc)
{
    right_ssyrk(order, triangle, transpose, n, k, alpha, a, lda, beta, c, ldc);
    if (n == 17) c[16] = 0;
}

static void last_row_ssyrk(int order, int triangle, int transpose, int n, int k, float alpha, const float *a, int lda,
                           float beta, float *c, int ldc)
{
    right_ssyrk(order, triangle, transpose, n > 300 ? n - 1 : n, k, alpha, a, lda, beta, c, ldc);
}

static void whole_square_strsm(int order, int side, int triangle, int transpose, int diagonal, int m, int n,
                               float alpha, const float *a, int lda, float *b, int ldb)
{
    right_strsm(order, side, triangle, transpose, diagonal, m, n, alpha, a, lda, b, ldb);
    if (n > 1) b[0] += 0 * a[lda]; /* reads below the diagonal */
}

static void last_column_strsm(int order, int side, int triangle, int transpose, int diagonal, int m, int n, float alpha,
                              const float *a, int lda, float *b, int ldb)
{
    right_strsm(order, side, triangle, transpose, diagonal, m, n, alpha, a, lda, b, ldb);
    if (n == 65) b[0] *= 1.001F;
}

static void unscaled_strmm(int order, int side, int triangle, int transpose, int diagonal, int m, int n, float alpha,
                           const float *a, int lda, float *b, int ldb)
{
    right_strmm(order, side, triangle, transpose, diagonal, m, n, m == 64 ? 1 : alpha, a, lda, b, ldb);
}

static void last_row_strmm(int order, int side, int triangle, int transpose, int diagonal, int m, int n, float alpha,
                           const float *a, int lda, float *b, int ldb)
{
    right_strmm(order, side, triangle, transpose, diagonal, side == BLAS_RIGHT && m == 128 ? 127 : m, n, alpha, a, lda,
                b, ldb);
}

/* ---- the tests ---- */

static struct openblas right(void)
{
    return (struct openblas){.sgemm = right_sgemm, .ssyrk = right_ssyrk, .strsm = right_strsm, .strmm = right_strmm};
}

static void test_what_is_right_passes(void **state)
{
    (void)state;
    struct error error;
    struct trial_progress progress = {0};
    const struct openblas blas = right();
    assert_int_equal(blas_check(&blas, cpu_kernels(), &progress, &error), STATUS_OK);
    assert_true(progress.steps > 200);
}

static void test_our_own_kernels_pass_at_every_level(void **state)
{
    (void)state;
#define NAMED(level) KERNEL_FAMILY #level,
    static const char *const levels[] = {KERNEL_LEVELS(NAMED)};
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        struct error error;
        struct trial_progress progress = {0};
        setenv("DELTAQ_KERNELS", levels[i], 1);
        assert_int_equal(blas_check(NULL, cpu_kernels(), &progress, &error), STATUS_OK);
        assert_true(progress.steps > 100);
    }
    unsetenv("DELTAQ_KERNELS");
}

static void test_each_wrong_library_is_found_and_its_product_named(void **state)
{
    (void)state;
    static const struct {
        struct openblas wrong; /* what is set replaces what is right */
        const char *named;     /* in the detail */
    } cases[] = {
        {{.sgemm = one_shape_sgemm}, "cblas_sgemm of 17 x 15 x 33"},
        {{.sgemm = lost_depth_sgemm}, "cblas_sgemm of 20 x 41 x 1601"},
        {{.sgemm = multiplied_nan_sgemm}, "cblas_sgemm of 3 x 2 x 0"},
        {{.sgemm = rounded_sgemm}, "cblas_sgemm of 1 x 1 x 1"},
        {{.sgemm = forgotten_beta_sgemm}, "cblas_sgemm of 17 x 13000 x 7"},
        {{.sgemm = beyond_the_edge_sgemm}, "wrote outside"},
        {{.sgemm = before_the_start_sgemm}, "wrote outside"},
        {{.ssyrk = upper_half_ssyrk}, "cblas_ssyrk of 17 from 64 rows"},
        {{.ssyrk = last_row_ssyrk}, "cblas_ssyrk of 321 from 40 rows"},
        {{.strsm = whole_square_strsm}, "cblas_strsm from the right, a triangle of 5"},
        {{.strsm = last_column_strsm}, "cblas_strsm from the right, a triangle of 65"},
        {{.strmm = unscaled_strmm}, "cblas_strmm from the left, a triangle of 64"},
        {{.strmm = last_row_strmm}, "cblas_strmm from the right, a triangle of 129"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error error;
        struct trial_progress progress = {0};
        struct openblas blas = right();
        if (cases[i].wrong.sgemm != NULL) blas.sgemm = cases[i].wrong.sgemm;
        if (cases[i].wrong.ssyrk != NULL) blas.ssyrk = cases[i].wrong.ssyrk;
        if (cases[i].wrong.strsm != NULL) blas.strsm = cases[i].wrong.strsm;
        if (cases[i].wrong.strmm != NULL) blas.strmm = cases[i].wrong.strmm;
        assert_int_equal(blas_check(&blas, cpu_kernels(), &progress, &error), STATUS_INTERNAL);
        if (strstr(error.detail, cases[i].named) == NULL) fail_msg("%s, expected %s", error.detail, cases[i].named);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_right_passes),
        cmocka_unit_test(test_our_own_kernels_pass_at_every_level),
        cmocka_unit_test(test_each_wrong_library_is_found_and_its_product_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
