/* The orthonormal factor: QᵀQ = 1 and Qᵀ A an upper triangle, on both backends, for sides below, at and beyond a panel
 * of 32, and where columns depend on one another. */
#include "base/random.h"
#include "train/householder.h"
#include "unit.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

enum { MOST = 70 };

static struct error error;

static void ok(enum status status)
{
    if (status != STATUS_OK) fail_msg("%s", error.detail);
}

enum shape { FULL, DEPENDENT, NARROW, ZERO, SHAPES };

/* DEPENDENT: rank 3; NARROW: zero from column 5 on. */
static double entry(enum shape shape, int n, int i, int j)
{
    if (shape == ZERO || (shape == NARROW && j >= 5)) return 0;
    if (shape != DEPENDENT) return random_normal(1, (uint64_t)n, (uint64_t)(i * n + j));
    double sum = 0;
    for (int k = 0; k < 3; k++)
        sum += random_normal(2, (uint64_t)k, (uint64_t)i) * random_normal(3, (uint64_t)k, (uint64_t)j);
    return sum;
}

static struct matrix new_matrix(struct backend *backend, int64_t rows, int64_t columns)
{
    struct matrix m = matrix_of(NULL, rows, columns, backend->ops->element);
    ok(backend->ops->allocate(backend, rows * columns, "matrix", &m.data, &error));
    return m;
}

static void check_factor(struct backend *backend, enum shape shape, int n)
{
    static double a[MOST * MOST], q[MOST * MOST];
    const struct matrix given = new_matrix(backend, n, n), basis = new_matrix(backend, n, n);
    const struct matrix scratch = new_matrix(backend, 1, householder_scratch(n));
    double *host = calloc((size_t)householder_host(n), sizeof *host), size = 0;
    assert_non_null(host);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            a[i * n + j] = (double)(float)entry(shape, n, i, j), size = fmax(size, fabs(a[i * n + j]));
    backend->ops->upload(backend, given, a, DTYPE_F64);
    householder_basis(backend, given, basis, scratch.data, host);
    backend->ops->download(backend, basis, q, DTYPE_F64);
    /* n reflections, each of which rounds sums of n products */
    const double rounding = backend->ops->element == 8 ? DBL_EPSILON : (double)FLT_EPSILON, most = 8 * n * rounding;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double product = 0, triangle = 0;
            for (int k = 0; k < n; k++) {
                product += q[k * n + i] * q[k * n + j];
                triangle += q[k * n + i] * a[k * n + j];
            }
            if (!(fabs(product - (i == j)) < most)) fail_msg("%d, %d of %d: %g", i, j, n, product);
            if (i > j && !(fabs(triangle) <= most * size)) fail_msg("%d, %d of %d: %g", i, j, n, triangle);
        }
    free(host);
    backend->ops->release(backend, scratch.data);
    backend->ops->release(backend, basis.data);
    backend->ops->release(backend, given.data);
}

static void test_a_basis_is_orthonormal_and_spans_its_columns_in_order(void **state)
{
    (void)state;
    static const int sides[] = {1, 2, 5, 31, 32, 33, 64, MOST};
    struct backend *backends[2];
    ok(backend_reference_new(true, NULL, &backends[0], &error));
    ok(backend_cpu_new(NULL, &backends[1], &error));
    for (int b = 0; b < 2; b++) {
        for (enum shape shape = 0; shape < SHAPES; shape++)
            for (size_t s = 0; s < sizeof sides / sizeof sides[0]; s++) check_factor(backends[b], shape, sides[s]);
        backend_free(backends[b]);
    }
}

static void test_what_is_no_number_stays_none(void **state)
{
    (void)state;
    enum { N = 40 };
    struct backend *backend = NULL;
    static double host[N * 100];
    ok(backend_reference_new(true, NULL, &backend, &error));
    const struct matrix a = new_matrix(backend, N, N), q = new_matrix(backend, N, N);
    const struct matrix scratch = new_matrix(backend, 1, householder_scratch(N));
    assert_true(householder_host(N) <= N * 100);
    backend->ops->fill(backend, a, 1);
    ((double *)a.data)[N + 3] = NAN;
    householder_basis(backend, a, q, scratch.data, host);
    assert_false(backend->ops->finite(backend, q));
    backend->ops->release(backend, scratch.data);
    backend->ops->release(backend, q.data);
    backend->ops->release(backend, a.data);
    backend_free(backend);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_basis_is_orthonormal_and_spans_its_columns_in_order),
        cmocka_unit_test(test_what_is_no_number_stays_none),
    };
    return cmocka_run_group_tests_name("householder", tests, NULL, NULL);
}
