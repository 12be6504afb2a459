/* Eigenpairs of matrices whose spectrum is known, and of random ones by residual. */
#include "base/random.h"
#include "geometry/jacobi.h"
#include "unit.h"

#include <math.h>

enum { N = 40 };

/* The second difference matrix (2 on the diagonal, -1 beside it) has eigenvalues 2 - 2 cos(pi j / (n + 1)). */
static void test_second_differences(void **state)
{
    (void)state;
    double a[N * N] = {0}, values[N], vectors[N * N];
    struct error error;
    for (int i = 0; i < N; i++) {
        a[i * N + i] = 2;
        if (i > 0) a[i * N + i - 1] = a[(i - 1) * N + i] = -1;
    }
    assert_int_equal(jacobi_solve(a, N, values, vectors, &error), STATUS_OK);
    for (int j = 0; j < N; j++) assert_true(fabs(values[j] - (2 - 2 * cos(acos(-1.0) * (N - j) / (N + 1)))) < 1e-13);
}

static void test_random_matrices_by_residual(void **state)
{
    (void)state;
    static double a[N * N], kept[N * N], values[N], vectors[N * N];
    struct error error;
    for (int i = 0; i < N; i++)
        for (int j = 0; j <= i; j++) a[i * N + j] = a[j * N + i] = random_normal(2, (uint64_t)i, (uint64_t)j);
    for (int i = 0; i < N * N; i++) kept[i] = a[i];
    assert_int_equal(jacobi_solve(a, N, values, vectors, &error), STATUS_OK);
    for (int v = 0; v < N; v++) {
        if (v > 0) assert_true(values[v] <= values[v - 1]);
        for (int i = 0; i < N; i++) {
            double product = 0, inner = 0;
            for (int j = 0; j < N; j++) {
                product += kept[i * N + j] * vectors[v * N + j];
                inner += vectors[v * N + j] * vectors[i * N + j];
            }
            assert_true(fabs(product - values[v] * vectors[v * N + i]) < 1e-12);
            assert_true(fabs(inner - (i == v)) < 1e-13);
        }
    }
}

static void test_edges(void **state)
{
    (void)state;
    double one[1] = {-3}, zero[4] = {0}, bad[4] = {1, NAN, NAN, 1}, values[2], vectors[4];
    struct error error;
    assert_int_equal(jacobi_solve(one, 1, values, vectors, &error), STATUS_OK);
    assert_true(values[0] == -3 && vectors[0] == 1);
    assert_int_equal(jacobi_solve(zero, 2, values, vectors, &error), STATUS_OK);
    assert_true(values[0] == 0 && values[1] == 0);
    assert_int_equal(jacobi_solve(bad, 2, values, vectors, &error), STATUS_NOT_FINITE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_second_differences),
                                       cmocka_unit_test(test_random_matrices_by_residual),
                                       cmocka_unit_test(test_edges)};
    return cmocka_run_group_tests_name("jacobi", tests, NULL, NULL);
}
