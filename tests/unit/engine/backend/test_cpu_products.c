/* The fast backend's matrix products against the plain loops in double, and one thread against three. */
#include "engine/backend/cases.h"

struct gemm_shape {
    int64_t m, n, k;
    bool transpose_a, transpose_b;
    double alpha, beta;
};

/* |error| <= (6 sqrt(k) + 3) u (|a| |b| + |beta c|) (Higham and Mary, SISC 41, 2019, the probabilistic form of
 * gamma_k); |a_i|
 * |b_j| by Cauchy-Schwarz, with the norms of normal vectors about sqrt(k): their product, plus five standard
 * deviations. */
static double product_norm(int64_t k)
{
    return (double)k + 8 * sqrt((double)k) + 16;
}

static void run_gemm(struct world *world, const void *context)
{
    const struct gemm_shape *s = context;
    const struct matrix a =
        s->transpose_a ? world_random(world, s->k, s->m, 3, 1) : world_random(world, s->m, s->k, 3, 1);
    const struct matrix b =
        s->transpose_b ? world_random(world, s->n, s->k, 5, 1) : world_random(world, s->k, s->n, 5, 1);
    const struct matrix c = world_random(world, s->m, s->n, 2, 1);
    if (s->beta == 0) world->backend->ops->fill(world->backend, c, (double)NAN);
    world->backend->ops->gemm(world->backend,
                              &(struct gemm_args){a, b, c, s->transpose_a, s->transpose_b, s->alpha, s->beta, true});
    const double growth = 6 * sqrt((double)s->k) + 3;
    world_record(world, "c", c, growth, fabs(s->alpha) * product_norm(s->k) + 5 * fabs(s->beta));
}

static void test_gemm_agrees_for_every_transpose_and_size(void **state)
{
    const int64_t sizes[][3] = {{1, 1, 1},      {3, 5, 7},       {17, 33, 65},   {130, 70, 40},
                                {700, 300, 50}, {1030, 800, 20}, {200, 210, 900}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int form = 0; form < 8; form++)
            rivals_run(*state, run_gemm,
                       &(struct gemm_shape){sizes[i][0], sizes[i][1], sizes[i][2], form & 1, form >> 1 & 1,
                                            form & 4 ? -0.5 : 1, form & 4 ? 2 : 0});
}

struct syrk_shape {
    int64_t columns, rows;
    double alpha, beta;
};

static void run_syrk(struct world *world, const void *context)
{
    const struct syrk_shape *s = context;
    const struct matrix x = world_random(world, s->rows, s->columns, 1, 1),
                        c = world_random(world, s->columns, s->columns, 4, 1);
    if (s->beta == 0) world->backend->ops->fill(world->backend, c, (double)NAN);
    for (int64_t i = 0; i + 1 < s->columns; i++) /* which nothing reads */
        world->backend->ops->fill(world->backend, matrix_columns(matrix_rows(c, i, 1), i + 1, s->columns - i - 1),
                                  (double)NAN);
    world->backend->ops->syrk(world->backend, c, x, s->alpha, s->beta);
    world->backend->ops->mirror(world->backend, c);
    world_record(world, "c", c, 6 * sqrt((double)s->rows) + 3,
                 fabs(s->alpha) * product_norm(s->rows) + 5 * fabs(s->beta));
}

static void test_syrk_agrees_whatever_the_upper_triangle_has(void **state)
{
    const int64_t sizes[][2] = {{1, 3}, {7, 20}, {100, 33}, {129, 64}, {400, 100}, {900, 30}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        rivals_run(*state, run_syrk, &(struct syrk_shape){sizes[i][0], sizes[i][1], 1, 0});
        rivals_run(*state, run_syrk, &(struct syrk_shape){sizes[i][0], sizes[i][1], 0.5, 1});
    }
}

/* h = xᵀx / T + damp I. U h Uᵀ must be the identity: the residual of a backward stable factorisation and inversion is
 * bounded by n u cond(h) (Higham, ch. 10 and 14), with cond at most (largest eigenvalue) / damp. */
static void run_inverse_cholesky(struct world *world, const void *context)
{
    const int64_t n = *(const int64_t *)context, rows = 2 * n;
    const double damp = 0.1;
    const struct matrix x = world_random(world, rows, n, 0, 1), h = world_zeros(world, n, n, 3);
    struct backend *backend = world->backend;
    for (int64_t i = 0; i < n; i++) backend->ops->fill(backend, matrix_columns(matrix_rows(h, i, 1), i, 1), damp);
    backend->ops->syrk(backend, h, x, 1 / (double)rows, 1);
    const struct matrix full = world_zeros(world, n, n, 0), product = world_zeros(world, n, n, 0),
                        identity = world_zeros(world, n, n, 0);
    backend->ops->gemm(backend, &(struct gemm_args){x, x, full, true, false, 1 / (double)rows, 0, true});
    const struct matrix one = world_zeros(world, 1, 1, 0);
    backend->ops->fill(backend, one, damp);
    for (int64_t i = 0; i < n; i++)
        backend->ops->add(backend, matrix_columns(matrix_rows(full, i, 1), i, 1), one, 1, 1);
    assert_true(backend->ops->inverse_cholesky(backend, h));
    backend->ops->gemm(backend, &(struct gemm_args){h, full, product, false, false, 1, 0, true});
    backend->ops->gemm(backend, &(struct gemm_args){product, h, identity, false, true, 1, 0, true});
    const double condition = (pow(1 + sqrt(0.5), 2) + damp) / damp;
    world_record(world, "U h Uᵀ", identity, (double)n * condition, 1);
    world_record(world, "U", h, (double)n * condition, 1);
}

static void test_inverse_cholesky_agrees_at_every_split(void **state)
{
    const int64_t sizes[] = {1, 2, 5, 63, 64, 65, 128, 200, 330};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) rivals_run(*state, run_inverse_cholesky, &sizes[i]);
}

static void test_inverse_cholesky_refuses_what_is_not_positive_definite(void **state)
{
    struct rivals *rivals = *state;
    struct world *worlds[] = {&rivals->truth, &rivals->one, &rivals->many};
    const double bad[] = {0, -1, (double)NAN, (double)INFINITY};
    for (int w = 0; w < 3; w++)
        for (int i = 0; i < 4; i++) {
            struct backend *backend = worlds[w]->backend;
            const struct matrix h = world_zeros(worlds[w], 150, 150, 0);
            for (int64_t j = 0; j < 150; j++)
                backend->ops->fill(backend, matrix_columns(matrix_rows(h, j, 1), j, 1), j == 70 ? bad[i] : 1);
            assert_false(backend->ops->inverse_cholesky(backend, h));
            world_clear(worlds[w]);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gemm_agrees_for_every_transpose_and_size),
        cmocka_unit_test(test_syrk_agrees_whatever_the_upper_triangle_has),
        cmocka_unit_test(test_inverse_cholesky_agrees_at_every_split),
        cmocka_unit_test(test_inverse_cholesky_refuses_what_is_not_positive_definite),
    };
    return RUN_ON_ALL_MACHINES("cpu products", tests, rivals_open, rivals_close);
}
