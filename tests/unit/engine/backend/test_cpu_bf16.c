/* Products with factors rounded to bfloat16: against the plain loops in double on factors that are rounded here, by
 * another rule of rounding; one thread against three; and each of the processor's units by itself. What the CPU alone
 * has is left out over a device (cuda/stand_in.h). */
#include "engine/backend/attention_cases.h"
#include "engine/backend/rounding.h"

#include "backend/cpu/bf16.h"

/* Random numbers; what the plain loops get is rounded before. */
static struct matrix factor(struct world *world, int64_t rows, int64_t columns, int64_t gap)
{
    const struct matrix m = world_random(world, rows, columns, gap, 1);
    if (world->backend->ops->element == sizeof(double)) round_all(world, m);
    return m;
}

struct shape {
    int64_t m, n, k;
    bool transpose_a, transpose_b;
    double alpha, beta;
};

/* Edges of groups of rows, strips, chunks of the depth, stretches of it and blocks of rows. */
static const int64_t sizes[][3] = {{1, 1, 1},    {1, 40, 33},   {3, 5, 7},      {8, 16, 32},   {9, 17, 31},
                                   {17, 33, 65}, {31, 32, 256}, {32, 31, 257},  {33, 64, 300}, {130, 70, 40},
                                   {513, 50, 8}, {40, 300, 30}, {530, 800, 20}, {96, 97, 900}};
enum { SIZES = sizeof sizes / sizeof sizes[0], FORMS = 8 };

static struct shape shape_of(size_t size, int form)
{
    return (struct shape){sizes[size][0],       sizes[size][1],      sizes[size][2],  form & 1,
                          (form >> 1 & 1) != 0, form & 4 ? -0.5 : 1, form & 4 ? 2 : 0};
}

/* The product of two factors of eight bits is exact, so what remains is the bound of test_cpu_products.c: k roundings
 * of a sum, of which a unit may make two a pair or one. */
static double growth(int64_t k)
{
    return 6 * sqrt((double)k) + 3;
}

static double norm(const struct shape *s)
{
    const double k = (double)s->k;
    return fabs(s->alpha) * (k + 8 * sqrt(k) + 16) + 5 * fabs(s->beta);
}

static void run_product(struct world *world, const void *context)
{
    const struct shape *s = context;
    const struct matrix a = s->transpose_a ? factor(world, s->k, s->m, 3) : factor(world, s->m, s->k, 3);
    const struct matrix b = s->transpose_b ? factor(world, s->n, s->k, 5) : factor(world, s->k, s->n, 5);
    const struct matrix c = world_random(world, s->m, s->n, 2, 1);
    if (s->beta == 0) world->backend->ops->fill(world->backend, c, (double)NAN);
    world->backend->ops->gemm(world->backend,
                              &(struct gemm_args){a, b, c, s->transpose_a, s->transpose_b, s->alpha, s->beta, false});
    world_record(world, "c", c, growth(s->k), norm(s));
}

static void test_products_agree_for_every_transpose_and_size(void **state)
{
    for (size_t i = 0; i < SIZES; i++)
        for (int form = 0; form < FORMS; form++) {
            const struct shape shape = shape_of(i, form);
            rivals_run(*state, run_product, &shape);
        }
}

/* Factors without gaps between their rows. */
static void run_dense(struct world *world, const void *context)
{
    const int64_t *size = context;
    const struct matrix a = factor(world, size[0], size[2], 0), b = factor(world, size[1], size[2], 0);
    const struct matrix c = world_zeros(world, size[0], size[1], 0);
    world->backend->ops->gemm(world->backend, &(struct gemm_args){a, b, c, false, true, 1, 0, false});
    world_record(world, "c", c, growth(size[2]), (double)size[2] + 8 * sqrt((double)size[2]) + 16);
}

static void test_factors_without_gaps_agree(void **state)
{
    static const int64_t dense[][3] = {{1, 3, 8}, {70, 33, 40}, {300, 20, 256}, {9, 500, 24}};
    for (size_t i = 0; i < sizeof dense / sizeof dense[0]; i++) rivals_run(*state, run_dense, dense[i]);
}

#ifndef TESTS_CUDA_STAND_IN_H
/* The larger processors have more than one unit, of which a backend takes the first. */
static void run_unit(struct world *world, const struct bf16_unit *unit, const struct shape *s)
{
    const struct matrix a = s->transpose_a ? factor(world, s->k, s->m, 3) : factor(world, s->m, s->k, 3);
    const struct matrix b = s->transpose_b ? factor(world, s->n, s->k, 5) : factor(world, s->k, s->n, 5);
    const struct matrix c = world_random(world, s->m, s->n, 2, 1);
    const struct gemm_args args = {a, b, c, s->transpose_a, s->transpose_b, s->alpha, s->beta, false};
    if (world->backend->ops->element == sizeof(double))
        world->backend->ops->gemm(world->backend, &args);
    else
        bf16_multiply(unit, &args);
    world_record(world, "c", c, growth(s->k), norm(s));
}

static void test_each_unit_agrees(void **state)
{
    struct rivals *rivals = *state;
    int tried = 0;
    for (int u = 0; bf16_units[u] != NULL; u++) {
        if (!bf16_units[u]->available()) continue;
        tried++;
        for (size_t i = 0; i < SIZES; i++)
            for (int form = 0; form < FORMS; form++) {
                const struct shape shape = shape_of(i, form);
                rivals->truth.seed = rivals->one.seed = 5;
                run_unit(&rivals->truth, NULL, &shape);
                run_unit(&rivals->one, bf16_units[u], &shape);
                compare_outputs(&rivals->truth, &rivals->one);
                world_clear(&rivals->truth);
                world_clear(&rivals->one);
            }
    }
    if (tried == 0) {
        print_message("this processor has no instructions for products in bfloat16\n");
        skip();
    }
}

#endif

/* x times 1, all the numbers of a row and a column of a product. */
static void test_factors_are_rounded_to_nearest_even(void **state)
{
    static const double numbers[][2] = {
        {1 + 0x1p-8, 1},
        {1 + 0x1p-8 + 0x1p-23, 1 + 0x1p-7},
        {1 + 3 * 0x1p-8, 1 + 0x1p-6},
        {-1 - 3 * 0x1p-8, -1 - 0x1p-6},
        {1 + 3 * 0x1p-8 - 0x1p-23, 1 + 0x1p-7},
        {2 - 0x1p-23, 2},
        {0x1.fep127, 0x1.fep127},
        {0x1.fefffep127, 0x1.fep127},
        {0x1.fffffep127, (double)INFINITY},
        {(double)-INFINITY, (double)-INFINITY},
        {0x1p-126, 0x1p-126},
        {0, 0},
    };
    enum { COUNT = sizeof numbers / sizeof numbers[0] };
    struct rivals *rivals = *state;
    struct world *world = &rivals->many;
    struct backend *backend = world->backend;
    const struct matrix column = world_zeros(world, COUNT, 1, 0), row = world_zeros(world, 1, COUNT, 0);
    const struct matrix one = world_zeros(world, 1, 1, 0), left = world_zeros(world, COUNT, 1, 0),
                        right = world_zeros(world, 1, COUNT, 0);
    double x[COUNT], found[COUNT];
    for (int i = 0; i < COUNT; i++) x[i] = numbers[i][0];
    backend->ops->upload(backend, column, x, DTYPE_F64);
    backend->ops->upload(backend, row, x, DTYPE_F64);
    backend->ops->fill(backend, one, 1);
    backend->ops->gemm(backend, &(struct gemm_args){.a = column, .b = one, .c = left, .alpha = 1});
    backend->ops->gemm(backend, &(struct gemm_args){.a = one, .b = row, .c = right, .alpha = 1});
    for (int side = 0; side < 2; side++) {
        backend->ops->download(backend, side == 0 ? left : right, found, DTYPE_F64);
        for (int i = 0; i < COUNT; i++)
            if (found[i] < numbers[i][1] || found[i] > numbers[i][1])
                fail_msg("%a was rounded to %a, not to %a", x[i], found[i], numbers[i][1]);
    }
    world_clear(world);
}

/* One whose payload lies in the half that rounding drops stays NaN, and reaches its own row alone. */
static void test_nan_stays_nan_and_in_its_row(void **state)
{
    struct rivals *rivals = *state;
    struct world *world = &rivals->many;
    struct backend *backend = world->backend;
    const struct matrix a = world_random(world, 40, 50, 0, 1), b = world_random(world, 35, 50, 0, 1),
                        c = world_zeros(world, 40, 35, 0);
    const uint32_t payload = 0x7f800001u;
    backend->ops->upload(backend, matrix_columns(matrix_rows(a, 33, 1), 49, 1), &payload, DTYPE_F32);
    backend->ops->gemm(backend, &(struct gemm_args){.a = a, .b = b, .c = c, .transpose_b = true, .alpha = 1});
    double *values = world_read(world, c);
    for (int64_t i = 0; i < 40 * 35; i++) assert_true((isnan(values[i]) != 0) == (i / 35 == 33));
    free(values);
    world_clear(world);
}

#ifndef TESTS_CUDA_STAND_IN_H
/* What is solved with is not rounded: exact products, and Hessians, have the bits of a backend that rounds nothing. */
static void run_exact(struct world *world, const void *context)
{
    (void)context;
    const struct matrix a = world_random(world, 130, 90, 0, 1), b = world_random(world, 200, 90, 0, 1);
    const struct matrix c = world_zeros(world, 130, 200, 0), h = world_zeros(world, 90, 90, 0);
    world->backend->ops->gemm(world->backend, &(struct gemm_args){a, b, c, false, true, 1, 0, true});
    world->backend->ops->syrk(world->backend, h, a, 1, 0);
    world_record(world, "c", c, 0, 0);
    world_record(world, "h", h, 0, 0);
}

static void test_exact_products_are_not_rounded(void **state)
{
    struct rivals *rivals = *state;
    struct world plain = {.seed = 5};
    struct error error;
    assert_int_equal(backend_cpu_new(NULL, &plain.backend, &error), STATUS_OK);
    rivals->many.seed = 5;
    run_exact(&plain, NULL);
    run_exact(&rivals->many, NULL);
    same_outputs(&plain, &rivals->many);
    world_clear(&plain);
    world_clear(&rivals->many);
    backend_free(plain.backend);
}

#endif

/* The clamped weights of a quantizer's search, which is a choice between errors that lie close to each other. */
static void run_clip_search(struct world *world)
{
    enum { ROWS = 400, COLUMNS = 96, GROUP = 24 };
    const struct backend_ops *ops = world->backend->ops;
    const struct coding coding = {.bits = 3, .group_size = GROUP, .rule = SCALE_RANGE};
    const struct matrix weight = world_random(world, ROWS, COLUMNS, 0, 1), x = world_random(world, 200, COLUMNS, 0, 1),
                        scales = world_zeros(world, 1, COLUMNS, 0), h = world_zeros(world, COLUMNS, COLUMNS, 0);
    const struct matrix scratch = world_zeros(world, 2 * CLIP_SEARCH_ROWS * team_size(world->backend->team), GROUP, 0);
    ops->fill(world->backend, scales, 1.25);
    ops->gemm(world->backend, &(struct gemm_args){x, x, h, true, false, 0.01, 0, true});
    ops->clip_search(world->backend, &(struct clip_search_args){coding, weight, scales, h, 20, 40, scratch});
    world_record(world, "clamped", weight, 0, 0);
}

static void test_clips_are_those_of_exact_products(void **state)
{
    struct rivals *rivals = *state;
    struct world plain = {.seed = 5};
    struct error error;
    assert_int_equal(backend_cpu_new(NULL, &plain.backend, &error), STATUS_OK);
    rivals->many.seed = 5;
    run_clip_search(&plain);
    run_clip_search(&rivals->many);
    same_outputs(&plain, &rivals->many);
    world_clear(&plain);
    world_clear(&rivals->many);
    backend_free(plain.backend);
}

static void run_attention(struct world *world, const void *context)
{
    attention_passes(world, context, attention_rounds(context));
}

static void test_attention_agrees(void **state)
{
    for (size_t i = 0; i < ATTENTION_SHAPES; i++) rivals_run(*state, run_attention, &attention_shapes[i]);
}

struct attention_case {
    const struct attention_shape *shape;
    bool rounded; /* queries, keys and values are rounded before */
};

/* Both ways. Outputs' gradients are not rounded before: a row's own product with them has no factor that is. */
static void run_gradients(struct world *world, const void *context)
{
    const struct attention_case *c = context;
    const struct attention_shape *s = c->shape;
    const struct backend_ops *ops = world->backend->ops;
    struct test_batch batch;
    struct attention_args args = attention_start(s, &batch);
    const int64_t tokens = batch.batch.tokens, columns = s->heads * s->head_dim;
    attention_inputs(world, s, tokens, &args);
    const struct matrix inputs[] = {args.q.matrix, args.k.matrix, args.v.matrix};
    for (int i = 0; c->rounded && i < (s->fused ? 1 : 3); i++) round_all(world, inputs[i]);
    args.out = (struct head_view){world_zeros(world, tokens, columns, 0), 0, s->head_dim};
    args.dout = (struct head_view){world_random(world, tokens, columns, 0, 1), 0, s->head_dim};
    args.log_sum = world_zeros(world, tokens, s->heads, 0);
    ops->attention_forward(world->backend, &args);
    ops->attention_backward(world->backend, &args);
    const struct matrix outputs[] = {args.out.matrix, args.dq.matrix, args.dk.matrix, args.dv.matrix};
    for (int i = 0; i < (s->fused ? 2 : 4); i++) world_record(world, "an output", outputs[i], 0, 0);
}

/* All that is multiplied is rounded, so that it does not matter whether it was before. */
static void test_attention_reads_what_it_multiplies_rounded(void **state)
{
    struct rivals *rivals = *state;
    for (size_t i = 0; i < ATTENTION_SHAPES; i++) {
        if (!attention_rounds(&attention_shapes[i])) continue;
        rivals->one.seed = rivals->many.seed = 5;
        run_gradients(&rivals->one, &(struct attention_case){&attention_shapes[i], false});
        run_gradients(&rivals->many, &(struct attention_case){&attention_shapes[i], true});
        same_outputs(&rivals->one, &rivals->many);
        world_clear(&rivals->one);
        world_clear(&rivals->many);
    }
}

#ifndef TESTS_CUDA_STAND_IN_H
static void test_what_the_cpu_does_not_make_is_refused(void **state)
{
    (void)state;
    struct error error;
    struct backend *backend = NULL;
    assert_int_equal(backend_new("cpu", "tf32", NULL, &backend, &error), STATUS_UNSUPPORTED);
    assert_null(backend);
    assert_non_null(strstr(error.detail, "tf32"));
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products_agree_for_every_transpose_and_size),
        cmocka_unit_test(test_factors_without_gaps_agree),
        cmocka_unit_test(test_factors_are_rounded_to_nearest_even),
        cmocka_unit_test(test_nan_stays_nan_and_in_its_row),
#ifndef TESTS_CUDA_STAND_IN_H
        cmocka_unit_test(test_each_unit_agrees),
        cmocka_unit_test(test_exact_products_are_not_rounded),
        cmocka_unit_test(test_what_the_cpu_does_not_make_is_refused),
#endif
        cmocka_unit_test(test_clips_are_those_of_exact_products),
        cmocka_unit_test(test_attention_agrees),
        cmocka_unit_test(test_attention_reads_what_it_multiplies_rounded),
    };
    return RUN_ON_ALL_MACHINES("cpu bf16", tests, open_rounding_rivals, rivals_close);
}
