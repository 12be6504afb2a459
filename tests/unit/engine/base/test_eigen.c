/* Small symmetric eigenproblems against known spectra. Tolerances: a few hundred roundoffs of the norm. */
#include "base/eigen.h"
#include "base/random.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>

static struct error error;

/* The second difference matrix: eigenvalues 2 - 2 cos(k pi / (n + 1)). */
static void test_tridiagonal_finds_the_second_difference(void **state)
{
    (void)state;
    enum { N = 90 };
    double d[N], e[N], z[2 * N] = {0};
    for (int i = 0; i < N; i++) {
        d[i] = 2;
        e[i] = -1;
    }
    z[0] = 1;
    z[2 * N - 1] = 1;
    assert_int_equal(eigen_tridiagonal(N, d, e, 2, z, &error), STATUS_OK);
    for (int k = 1; k <= N; k++) {
        const double angle = M_PI * k / (N + 1), component = sqrt(2.0 / (N + 1)) * sin(angle);
        assert_true(fabs(d[k - 1] - (2 - 2 * cos(angle))) < 1e-13);
        assert_true(fabs(fabs(z[k - 1]) - component) < 1e-12);
        assert_true(fabs(fabs(z[N + k - 1]) - component) < 1e-12);
    }
}

static void test_tridiagonal_takes_uncoupled_equal_and_zero_entries(void **state)
{
    (void)state;
    double d[] = {3, 3, 0, 0, -5, 1e-300}, e[] = {0, 0, 0, 2, 0, 99};
    const double expected[] = {-5.701562118716424, 0, 1e-300, 0.701562118716424, 3, 3};
    assert_int_equal(eigen_tridiagonal(6, d, e, 0, NULL, &error), STATUS_OK);
    for (int i = 0; i < 6; i++) assert_true(fabs(d[i] - expected[i]) < 1e-14);
    double one = 4, beside = 7;
    assert_int_equal(eigen_tridiagonal(1, &one, &beside, 0, NULL, &error), STATUS_OK);
    assert_true(one == 4);
}

static void test_tridiagonal_refuses_what_is_not_finite(void **state)
{
    (void)state;
    double d[] = {1, NAN, 2}, e[] = {1, 1, 0};
    assert_int_equal(eigen_tridiagonal(3, d, e, 0, NULL, &error), STATUS_NOT_FINITE);
}

static void test_symmetric_decomposes_a_random_matrix(void **state)
{
    (void)state;
    enum { N = 60 };
    double *a = calloc(N * N, sizeof *a), *q = calloc(N * N, sizeof *q), values[N], norm = 0;
    for (int i = 0; i < N; i++)
        for (int k = 0; k <= i; k++) a[i * N + k] = a[k * N + i] = random_normal(2, (uint64_t)i, (uint64_t)k);
    for (int i = 0; i < N * N; i++) {
        q[i] = a[i];
        norm = hypot(norm, a[i]);
    }
    assert_int_equal(eigen_symmetric(N, q, values, &error), STATUS_OK);
    for (int i = 0; i < N; i++) {
        assert_true(i == 0 || values[i] >= values[i - 1]);
        for (int k = 0; k < N; k++) { /* A u = value u, and u orthonormal */
            double product = 0, dot = 0;
            for (int j = 0; j < N; j++) {
                product += a[k * N + j] * q[i * N + j];
                dot += q[i * N + j] * q[k * N + j];
            }
            assert_true(fabs(product - values[i] * q[i * N + k]) < 1e-13 * norm);
            assert_true(fabs(dot - (i == k)) < 1e-12);
        }
    }
    free(a);
    free(q);
}

static void test_symmetric_takes_an_arrow_and_a_diagonal(void **state)
{
    (void)state;
    double arrow[] = {1, 0, 0, 1, 0, 2, 0, 1, 0, 0, 3, 1, 1, 1, 1, 4}, diagonal[] = {2, 0, 0, -1}, values[4];
    assert_int_equal(eigen_symmetric(4, arrow, values, &error), STATUS_OK);
    double sum = 0, squares = 0;
    for (int i = 0; i < 4; i++) {
        sum += values[i];
        squares += values[i] * values[i];
    }
    assert_true(fabs(sum - 10) < 1e-13 && fabs(squares - 36) < 1e-12);
    assert_int_equal(eigen_symmetric(2, diagonal, values, &error), STATUS_OK);
    assert_true(values[0] == -1 && values[1] == 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tridiagonal_finds_the_second_difference),
        cmocka_unit_test(test_tridiagonal_takes_uncoupled_equal_and_zero_entries),
        cmocka_unit_test(test_tridiagonal_refuses_what_is_not_finite),
        cmocka_unit_test(test_symmetric_decomposes_a_random_matrix),
        cmocka_unit_test(test_symmetric_takes_an_arrow_and_a_diagonal),
    };
    return cmocka_run_group_tests_name("eigen", tests, NULL, NULL);
}
