/* Operators that Adam's preconditioner scales, against their matrices written out. */
#include "base/eigen.h"
#include "curvature/lanczos.h"
#include "curvature/power.h"
#include "curvature/preconditioned.h"
#include "engine/curvature/explicit.h"

static struct error error;

enum { N = 90 };
static const double correction1 = 1 - 0.9 * 0.9, correction2 = 1 - 0.95 * 0.95, epsilon = 1e-3;

static void ok(enum status status)
{
    if (status != STATUS_OK) fail_msg("%s", error.detail);
}

static int64_t place(int64_t i)
{
    return i < N / 3 ? i : i + EXPLICIT_GAP;
}

/* Uploads v, of which only the numbers in the spans matter. */
static void put_moments(struct preconditioned *p, const double *v)
{
    struct backend *backend = p->op.space.backend;
    double all[N + EXPLICIT_GAP] = {0};
    for (int64_t i = 0; i < N; i++) all[place(i)] = v[i];
    backend->ops->upload(backend, vector_part(p->scale, 0, N + EXPLICIT_GAP), all, DTYPE_F64);
}

static void open_operator(struct explicit *e, struct preconditioned *p, bool use_double)
{
    double values[N];
    for (int i = 0; i < N; i++) values[i] = cos(i);
    values[4] = 30;
    values[70] = -6;
    explicit_open(e, values, N, use_double);
    ok(preconditioned_init(p, &e->op.space, &error));
}

static void close_operator(struct explicit *e, struct preconditioned *p)
{
    preconditioned_reset(p);
    explicit_close(e);
}

/* Second moments over six orders of magnitude, some of them zero. */
static void moments(double *v)
{
    for (int i = 0; i < N; i++) v[i] = i % 17 == 3 ? 0 : pow(10, -1 - 6 * random_uniform(5, 0, (uint64_t)i));
}

static double preconditioner(double v)
{
    return correction1 * (sqrt(v / correction2) + epsilon);
}

/* The matrix of A by products with basis vectors, between square roots written out; its eigenvalues ascend. */
static void dense(const struct explicit *e, const double *v, double *values)
{
    static double a[N * N];
    for (int64_t j = 0; j < N; j++) {
        double x[N] = {0};
        x[j] = 1;
        explicit_reflect(e, x, false);
        for (int64_t i = 0; i < N; i++) x[i] *= e->values[i];
        explicit_reflect(e, x, true);
        for (int64_t i = 0; i < N; i++) a[i * N + j] = x[i] / sqrt(preconditioner(v[i]) * preconditioner(v[j]));
    }
    ok(eigen_symmetric(N, a, values, &error));
}

static void test_ends_are_those_of_the_matrix_written_out(void **state)
{
    (void)state;
    for (int use_double = 0; use_double < 2; use_double++) {
        struct explicit e;
        struct preconditioned p;
        struct spectrum_ends ends;
        double v[N], values[N];
        const struct lanczos_settings settings = {.most_products = N, .tolerance = 1e-6, .seed = 4};
        open_operator(&e, &p, use_double);
        moments(v);
        dense(&e, v, values);
        put_moments(&p, v);
        ok(preconditioned_scale(&p, correction1, correction2, epsilon, &error));
        preconditioned_over(&p, &e.op);
        ok(lanczos_run(&p.op, &settings, NULL, (struct matrix){0}, &ends, &error));
        const double bound = (use_double ? 1e-9 : 1e-5) * values[N - 1]; /* quadratic in the residual; float roundoff */
        assert_true(ends.converged && ends.residual < 2e-6 + (use_double ? 0 : 1e-5));
        assert_true(fabs(ends.largest - values[N - 1]) < bound && fabs(ends.smallest - values[0]) < bound);
        assert_true(ends.largest > 2 * 30); /* that of A is 30 */
        ok(power_run(&p.op, &settings, NULL, (struct matrix){0}, &ends, &error));
        assert_true(fabs(ends.top - values[N - 1]) < 1e-3 * values[N - 1]);
        close_operator(&e, &p);
    }
}

/* A quadratic sum of h_i x_i² / 2 along the axes: gradients h_i x_i, whose squares are Adam's moments after one step.
 * D is then |h_i x_i| but for epsilon, and the eigenvalues are 1 / |x_i|, whatever the curvatures. */
static void test_a_quadratic_has_the_sharpness_of_its_distances(void **state)
{
    (void)state;
    struct explicit e;
    struct preconditioned p;
    struct spectrum_ends ends;
    double h[N], gradient[N + EXPLICIT_GAP] = {0};
    for (int i = 0; i < N; i++) h[i] = pow(10, -2 + 4.0 * i / N);
    explicit_open(&e, h, N, true);
    memset(e.normals, 0, sizeof e.normals);
    ok(preconditioned_init(&p, &e.op.space, &error));
    struct backend *backend = e.op.space.backend;
    for (int i = 0; i < N; i++) gradient[place(i)] = -h[i] * (2 + i % 9); /* distances from 2 to 10 */
    backend->ops->upload(backend, vector_part(p.scaled, 0, N + EXPLICIT_GAP), gradient, DTYPE_F64);
    ok(preconditioned_add_squares(&p, &error));
    ok(preconditioned_scale(&p, 1, 1, 1e-14, &error));
    preconditioned_over(&p, &e.op);
    const struct lanczos_settings settings = {.most_products = N, .tolerance = 1e-9, .seed = 4};
    ok(lanczos_run(&p.op, &settings, NULL, (struct matrix){0}, &ends, &error));
    assert_true(fabs(ends.largest - 0.5) < 1e-9 && fabs(ends.smallest - 0.1) < 1e-9);
    close_operator(&e, &p);
}

/* Squares add up, and their number is the correction that makes a mean of them. */
static void test_the_mean_is_that_of_the_squares(void **state)
{
    (void)state;
    struct explicit e;
    struct preconditioned p;
    double found[N + EXPLICIT_GAP], gradient[N + EXPLICIT_GAP], v[N] = {0};
    open_operator(&e, &p, true);
    struct backend *backend = e.op.space.backend;
    for (uint64_t batch = 0; batch < 3; batch++) {
        for (int64_t i = 0; i < N + EXPLICIT_GAP; i++) gradient[i] = random_normal(6, batch, (uint64_t)i);
        for (int64_t i = 0; i < N; i++) v[i] += gradient[place(i)] * gradient[place(i)] / 3;
        backend->ops->upload(backend, vector_part(p.scaled, 0, N + EXPLICIT_GAP), gradient, DTYPE_F64);
        ok(preconditioned_add_squares(&p, &error));
    }
    ok(preconditioned_scale(&p, 1, 3, 0.25, &error));
    backend->ops->download(backend, vector_part(p.scale, 0, N + EXPLICIT_GAP), found, DTYPE_F64);
    for (int64_t i = 0; i < N; i++) assert_true(fabs(found[place(i)] - 1 / sqrt(sqrt(v[i]) + 0.25)) < 1e-14);
    close_operator(&e, &p);
}

/* Along D^-1/2 u the operator itself has the curvature that the scaled one has along u; products leave it as it is. */
static void test_a_vector_taken_back_has_the_curvature(void **state)
{
    (void)state;
    struct explicit e;
    struct preconditioned p;
    struct spectrum_ends ends;
    struct matrix u, product;
    double v[N];
    const struct lanczos_settings settings = {.most_products = N, .tolerance = 1e-9, .seed = 4};
    open_operator(&e, &p, true);
    struct backend *backend = e.op.space.backend;
    moments(v);
    put_moments(&p, v);
    ok(preconditioned_scale(&p, correction1, correction2, epsilon, &error));
    preconditioned_over(&p, &e.op);
    ok(vector_new(&e.op.space, "u", &u, &error));
    ok(vector_new(&e.op.space, "a product", &product, &error));
    ok(lanczos_run(&p.op, &settings, NULL, u, &ends, &error));
    ok(operator_apply(&p.op, u, product, &error));
    assert_true(fabs(backend->ops->dot(backend, u, u) - 1) < 1e-12);
    assert_true(fabs(backend->ops->dot(backend, u, product) - ends.largest) < 1e-9 * ends.largest);
    preconditioned_unscale(&p, u);
    ok(operator_apply(&e.op, u, product, &error));
    assert_true(fabs(backend->ops->dot(backend, u, product) - ends.largest) < 1e-9 * ends.largest);
    e.fail_at = e.products;
    assert_int_equal(operator_apply(&p.op, u, product, &error), STATUS_CANCELLED);
    matrix_release(backend, &u);
    matrix_release(backend, &product);
    close_operator(&e, &p);
}

static void test_what_is_no_mean_of_squares_is_refused(void **state)
{
    (void)state;
    static const double wrong[] = {-1e-9, INFINITY, NAN};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct explicit e;
        struct preconditioned p;
        double v[N];
        open_operator(&e, &p, true);
        moments(v);
        v[N - 1] = wrong[i];
        put_moments(&p, v);
        assert_int_equal(preconditioned_scale(&p, 1, 1, epsilon, &error), STATUS_NOT_FINITE);
        close_operator(&e, &p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ends_are_those_of_the_matrix_written_out),
        cmocka_unit_test(test_a_quadratic_has_the_sharpness_of_its_distances),
        cmocka_unit_test(test_the_mean_is_that_of_the_squares),
        cmocka_unit_test(test_a_vector_taken_back_has_the_curvature),
        cmocka_unit_test(test_what_is_no_mean_of_squares_is_refused),
    };
    return cmocka_run_group_tests_name("preconditioned", tests, NULL, NULL);
}
