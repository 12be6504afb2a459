/* A device whose products round their factors to bfloat16, emulated: the model's own products are rounded, what is
 * solved with is not. */
#include "engine/backend/cuda/emulated.h"

#include "backend/cuda/cuda.h"
#include "backend/cuda/open.h"
#include "base/random.h"
#include "engine/jobs/tiny_fixture.h"
#include "jobs/quantize/quantize.h"

enum { SIZE = 300 }; /* more than one block of the factor */

static struct backend *open_device(struct team *team, bool rounds)
{
    struct device *device = emulated_device(false);
    struct backend *backend = NULL;
    struct error error;
    assert_non_null(device);
    if (rounds) emulated_round(device);
    assert_int_equal(cuda_open_device(device, device->memory_free, team, &backend, &error), STATUS_OK);
    return backend;
}

static struct matrix matrix_on(struct backend *backend, const float *values)
{
    struct error error;
    void *data = NULL;
    assert_int_equal(backend->ops->allocate(backend, SIZE * SIZE, "a matrix", &data, &error), STATUS_OK);
    const struct matrix m = matrix_of(data, SIZE, SIZE, sizeof(float));
    backend->ops->upload(backend, m, values, DTYPE_F32);
    return m;
}

/* The upper factor of the inverse of `h`, into `h`. */
static void factor_on(struct backend *backend, float *h)
{
    struct matrix m = matrix_on(backend, h);
    assert_true(backend->ops->inverse_cholesky(backend, m));
    backend->ops->download(backend, m, h, DTYPE_F32);
    matrix_release(backend, &m);
}

static void test_factors_do_not_depend_on_how_products_are_rounded(void **state)
{
    (void)state;
    float *h = calloc(2 * SIZE * SIZE, sizeof *h), *copy = h + SIZE * SIZE;
    struct backend *exact = open_device(NULL, false), *rounds = open_device(NULL, true);
    for (int i = 0; i < SIZE; i++)
        for (int j = 0; j < SIZE; j++)
            h[i * SIZE + j] = copy[i * SIZE + j] = i == j ? 4 : 1 / (float)(1 + abs(i - j) * abs(i - j));
    factor_on(exact, h);
    factor_on(rounds, copy);
    assert_memory_equal(h, copy, SIZE * SIZE * sizeof *h);
    backend_free(exact);
    backend_free(rounds);
    free(h);
}

/* To bfloat16, to nearest, ties to even. */
static float rounded(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits + 0x7fffu + (bits >> 16 & 1)) & 0xffff0000u;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* A shape of a product, or of a triangle: c is columns by columns, of rows. */
struct shape {
    int64_t rows, columns, inner;
    bool transpose_a, transpose_b, triangle;
};

static struct matrix random_on(struct backend *backend, int64_t rows, int64_t columns, uint64_t seed, bool round)
{
    struct matrix m;
    struct error error;
    float *values = calloc((size_t)(rows * columns), sizeof *values);
    assert_int_equal(matrix_new(backend, rows, columns, "a matrix", &m, &error), STATUS_OK);
    for (int64_t i = 0; i < rows * columns; i++) {
        values[i] = (float)(random_uniform(seed, 0, (uint64_t)i) - 0.5);
        if (round) values[i] = rounded(values[i]);
    }
    backend->ops->upload(backend, m, values, DTYPE_F32);
    free(values);
    return m;
}

/* What 2 c + 3 a b is on a device, with factors of which only a part of the rows and columns of a larger matrix are
 * read; round: the factors are rounded before they are uploaded. */
static void product_on(struct backend *backend, struct shape s, bool round, float *out)
{
    const int64_t rows = s.triangle ? s.columns : s.rows;
    struct matrix a =
        random_on(backend, (s.transpose_a ? s.inner : s.rows) + 1, (s.transpose_a ? s.rows : s.inner) + 1, 1, round);
    struct matrix b =
        random_on(backend, s.transpose_b ? s.columns : s.inner, s.transpose_b ? s.inner : s.columns, 2, round);
    struct matrix c = random_on(backend, rows, s.columns, 3, false);
    const struct matrix inside = matrix_columns(matrix_rows(a, 1, a.rows - 1), 1, a.columns - 1);
    if (s.triangle)
        backend->ops->syrk(backend, c, matrix_columns(matrix_rows(a, 0, s.rows), 0, s.columns), 3, 2);
    else
        backend->ops->gemm(backend, &(struct gemm_args){inside, b, c, s.transpose_a, s.transpose_b, 3, 2, false});
    backend->ops->download(backend, c, out, DTYPE_F32);
    matrix_release(backend, &a);
    matrix_release(backend, &b);
    matrix_release(backend, &c);
}

/* The very bits of factors that were rounded by somebody else: also when the scratch takes only a part of a factor. The
 * emulation adds in the same order, whatever the cut. */
static void test_factors_are_rounded_in_tiles(void **state)
{
    (void)state;
    static const struct shape shapes[] = {{3, 5, 7, false, false, false},     {600, 700, 40, false, true, false},
                                          {600, 300, 33, true, false, false}, {257, 600, 9, true, true, false},
                                          {70, 40, 40, false, false, true},   {1, 1, 1, false, false, false}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int64_t tile = 1; tile <= NARROW_TILE; tile = tile < 4096 ? 4096 : tile < 65536 ? 65536 : 16 * tile) {
            struct backend *exact = open_device(NULL, false), *rounds = open_device(NULL, true);
            const struct shape s = shapes[i];
            const size_t count = (size_t)((s.triangle ? s.columns : s.rows) * s.columns);
            float *wanted = calloc(count, sizeof *wanted), *found = calloc(count, sizeof *found);
            cuda_of(rounds)->narrow_tile = tile;
            product_on(exact, s, true, wanted);
            product_on(rounds, s, false, found);
            for (size_t k = 0; k < count; k++)
                if (!(fabsf(found[k] - wanted[k]) <= (s.triangle ? 1e-5F : 0)))
                    fail_msg("shape %zu, tile %lld, element %zu: %g, %g", i, (long long)tile, k, (double)found[k],
                             (double)wanted[k]);
            free(wanted);
            free(found);
            backend_free(exact);
            backend_free(rounds);
        }
}

/* Products that follow each other directly share a rounded factor; a factor that was changed in between, by another
 * call or as the output of a product, is rounded again. */
static void test_a_factor_is_rounded_again_when_it_changed(void **state)
{
    (void)state;
    struct backend *backend = open_device(NULL, true);
    const struct backend_ops *ops = backend->ops;
    struct matrix m[4];
    float found[2][20 * 20];
    for (int i = 0; i < 4; i++) m[i] = random_on(backend, 20, 20, 40 + (uint64_t)i, false);
    const struct gemm_args plain = {.a = m[0], .b = m[1], .c = m[2], .alpha = 1};
    struct gemm_args other = plain, turned = plain;
    other.c = m[3];
    turned.a = m[1], turned.b = m[2], turned.c = m[0];
    ops->gemm(backend, &plain);
    ops->gemm(backend, &other);
    for (int i = 0; i < 2; i++) ops->download(backend, m[2 + i], found[i], DTYPE_F32);
    assert_memory_equal(found[0], found[1], sizeof found[0]);
    ops->gemm(backend, &plain);
    ops->add(backend, m[0], m[0], 2, 0);
    ops->gemm(backend, &other);
    ops->download(backend, m[3], found[1], DTYPE_F32);
    for (int i = 0; i < 20 * 20; i++) assert_true(found[1][i] == 2 * found[0][i]);
    ops->gemm(backend, &plain);
    ops->gemm(backend, &turned); /* a of the first is the output of the second, which follows directly */
    ops->gemm(backend, &other);
    ops->download(backend, m[3], found[0], DTYPE_F32);
    ops->add(backend, m[1], m[1], 1, 0);
    ops->gemm(backend, &other);
    ops->download(backend, m[3], found[1], DTYPE_F32);
    assert_memory_equal(found[0], found[1], sizeof found[0]);
    for (int i = 0; i < 4; i++) matrix_release(backend, &m[i]);
    backend_free(backend);
}

/* A product [20, 20] of `m` or its transpose, and the kernels that it took. */
static int64_t product_of(struct backend *backend, struct matrix m, bool turned, float *out)
{
    struct matrix b = random_on(backend, 20, turned ? m.rows : m.columns, 50, false),
                  c = random_on(backend, turned ? m.columns : m.rows, 20, 51, false);
    const int64_t before = cuda_of(backend)->launches;
    struct matrix row = random_on(backend, 1, m.columns, 52, false);
    backend->ops->sum_rows(backend, row, m);
    backend->ops->gemm(
        backend, &(struct gemm_args){.a = m, .b = b, .c = c, .transpose_a = turned, .transpose_b = true, .alpha = 1});
    const int64_t launches = cuda_of(backend)->launches - before;
    backend->ops->download(backend, c, out, DTYPE_F32);
    matrix_release(backend, &b);
    matrix_release(backend, &c);
    matrix_release(backend, &row);
    return launches;
}

/* A sum over rows rounds what it reads for the product that follows, if that takes the matrix in one tile. */
static void test_a_sum_over_rows_rounds_for_the_next_product(void **state)
{
    static const int64_t shapes[][3] = {{600, 20, 20}, {600, 19, 19}, {513, 40, 43}, {5, 300, 301}, {1, 1, 1}};
    float *wanted = calloc((size_t)2 * 700 * 20, sizeof *wanted), *found = wanted + 700 * 20;
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int turned = 0; turned < 2; turned++) {
            struct backend *backend = open_device(NULL, true);
            struct matrix all = random_on(backend, shapes[i][0], shapes[i][2], 53, false);
            const struct matrix m = matrix_columns(all, 0, shapes[i][1]);
            const size_t bytes = (size_t)(turned ? m.columns : m.rows) * 20 * sizeof *wanted;
            (void)product_of(backend, m, turned, found); /* the scratch has grown to its size */
            assert_int_equal(product_of(backend, m, turned, found), 3);
            cuda_of(backend)->narrow_tile = 1;
            const int64_t tiles = turned ? (m.columns + 255) / 256 : (m.rows + 255) / 256;
            assert_true(product_of(backend, m, turned, wanted) >= (tiles > 1 ? 3 + tiles : 3));
            assert_memory_equal(found, wanted, bytes);
            matrix_release(backend, &all);
            backend_free(backend);
        }
    free(wanted);
}

/* A norm or an activation of `x`, and a product of what it puts out: the kernels that they took. */
static int64_t chain_of(struct backend *backend, struct matrix x, bool norm, bool hint, float *out)
{
    struct matrix y = random_on(backend, x.rows, x.columns, 60, false),
                  b = random_on(backend, 20, x.columns, 61, false), c = random_on(backend, x.rows, 20, 62, false),
                  weight = random_on(backend, 1, x.columns, 63, false);
    const struct norm_args norm_args = {
        .kind = NORM_LAYER, .epsilon = 1e-5, .groups = 1, .x = x, .weight = weight, .y = y, .to_product = hint};
    const struct activation_args activation_args = {.kind = ACTIVATION_GELU, .gate = x, .y = y, .to_product = hint};
    const int64_t before = cuda_of(backend)->launches;
    if (norm)
        backend->ops->norm_forward(backend, &norm_args);
    else
        backend->ops->activation_forward(backend, &activation_args);
    backend->ops->gemm(backend, &(struct gemm_args){.a = y, .b = b, .c = c, .transpose_b = true, .alpha = 1});
    const int64_t launches = cuda_of(backend)->launches - before;
    backend->ops->download(backend, c, out, DTYPE_F32);
    struct matrix *const all[] = {&y, &b, &c, &weight};
    for (int i = 0; i < 4; i++) matrix_release(backend, all[i]);
    return launches;
}

/* What puts out a factor rounds it on the way, if it is told that a product follows. */
static void test_a_norm_and_an_activation_round_for_the_next_product(void **state)
{
    static const int64_t shapes[][3] = {{300, 24, 24}, {70, 19, 19}, {33, 40, 43}, {9, 1300, 1304}, {1, 1, 1}};
    float *wanted = calloc((size_t)2 * 300 * 20, sizeof *wanted), *found = wanted + 300 * 20;
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int norm = 0; norm < 2; norm++) {
            struct backend *backend = open_device(NULL, true);
            struct matrix all = random_on(backend, shapes[i][0], shapes[i][2], 64, false);
            const struct matrix x = matrix_columns(all, 0, shapes[i][1]);
            assert_int_equal(chain_of(backend, x, norm, false, wanted), 3);
            assert_int_equal(chain_of(backend, x, norm, true, found), 2);
            assert_memory_equal(found, wanted, (size_t)x.rows * 20 * sizeof *found);
            matrix_release(backend, &all);
            backend_free(backend);
        }
    free(wanted);
}

/* A product whose own factors are not rounded may write over a factor whose rounded copy is kept. */
static void test_a_factor_is_rounded_again_after_an_exact_product(void **state)
{
    (void)state;
    struct backend *backend = open_device(NULL, true);
    const struct backend_ops *ops = backend->ops;
    struct matrix m[4];
    float found[2][20 * 20];
    for (int i = 0; i < 4; i++) m[i] = random_on(backend, 20, 20, 40 + (uint64_t)i, false);
    const struct gemm_args product = {.a = m[0], .b = m[1], .c = m[3], .alpha = 1};
    ops->gemm(backend, &product);
    ops->gemm(backend, &(struct gemm_args){.a = m[1], .b = m[2], .c = m[0], .alpha = 1, .exact = true});
    ops->gemm(backend, &product);
    ops->download(backend, m[3], found[0], DTYPE_F32); /* and forgets what was kept */
    ops->gemm(backend, &product);
    ops->download(backend, m[3], found[1], DTYPE_F32);
    assert_memory_equal(found[0], found[1], sizeof found[0]);
    for (int i = 0; i < 4; i++) matrix_release(backend, &m[i]);
    backend_free(backend);
}

/* A plan leaves the scratch of rounded factors free, where there are any. */
static void test_plans_leave_room_for_rounded_factors(void **state)
{
    (void)state;
    struct backend *exact = open_device(NULL, false), *rounds = open_device(NULL, true);
    const int64_t all = exact->ops->memory(exact), less = rounds->ops->memory(rounds);
    assert_true(all - less == 2 * (int64_t)NARROW_TILE && cuda_narrow_share((int64_t)1 << 30) == 1 << 27);
    backend_free(exact);
    backend_free(rounds);
}

enum { TOKENS = 370, HEADS = 6, KEY_HEADS = 3, WIDEST = 12 };

/* The outputs of all four passes of attention on a device, in heads of `width` columns. */
static void attention_on(struct backend *backend, int64_t width, int64_t window, float *out)
{
    static const int64_t starts[] = {0, 70, TOKENS - 1, TOKENS};
    struct batch batch = {.tokens = TOKENS, .sequences = 3, .longest = TOKENS - 71, .starts = starts};
    struct attention_args args = {
        .batch = &batch, .heads = HEADS, .kv_heads = KEY_HEADS, .head_dim = width, .window = window, .scale = 0.4};
    struct head_view *const inputs[] = {&args.q,   &args.k,   &args.v,    &args.q_t,
                                        &args.k_t, &args.v_t, &args.dout, &args.dout_t};
    struct head_view *const outputs[] = {&args.out, &args.out_t, &args.dq,   &args.dk,
                                         &args.dv,  &args.dq_t,  &args.dk_t, &args.dv_t};
    const int64_t wide = HEADS * width;
    for (int i = 0; i < 8; i++) {
        *inputs[i] = (struct head_view){random_on(backend, TOKENS, wide, 10 + (uint64_t)i, false), 0, width};
        *outputs[i] = (struct head_view){random_on(backend, TOKENS, wide, 20 + (uint64_t)i, false), 0, width};
        backend->ops->fill(backend, outputs[i]->matrix, 0);
    }
    args.log_sum = random_on(backend, TOKENS, HEADS, 30, false);
    args.log_sum_t = random_on(backend, TOKENS, HEADS, 31, false);
    backend->ops->attention_forward(backend, &args);
    backend->ops->attention_tangent(backend, &args);
    backend->ops->attention_backward(backend, &args);
    for (int i = 0; i < 5; i++) backend->ops->download(backend, outputs[i]->matrix, out + i * TOKENS * wide, DTYPE_F32);
    backend->ops->attention_backward_tangent(backend, &args);
    for (int i = 5; i < 8; i++) backend->ops->download(backend, outputs[i]->matrix, out + i * TOKENS * wide, DTYPE_F32);
    for (int i = 0; i < 8; i++) {
        matrix_release(backend, &inputs[i]->matrix);
        matrix_release(backend, &outputs[i]->matrix);
    }
    matrix_release(backend, &args.log_sum);
    matrix_release(backend, &args.log_sum_t);
}

/* A factor changes by at most 2^-9 of itself, and products of two, of weights that were rounded too, by four times
 * that; what is subtracted from each other (ds = p (dp - D)) grows by a little more. Each output as a whole. */
static void test_rounded_factors_change_every_pass_of_attention_a_little(void **state)
{
    (void)state;
    enum { NUMBERS = TOKENS * HEADS * WIDEST };
    float *a = calloc((size_t)8 * NUMBERS, sizeof *a), *b = calloc((size_t)8 * NUMBERS, sizeof *b);
    for (int64_t window = 0; window <= 40; window += 40) {
        struct backend *exact = open_device(NULL, false), *rounds = open_device(NULL, true);
        attention_on(exact, WIDEST, window, a);
        attention_on(rounds, WIDEST, window, b);
        for (int64_t i = 0; i < 8; i++) {
            double change = 0, size = 0;
            for (int64_t k = i * NUMBERS; k < (i + 1) * NUMBERS; k++) {
                change += (double)(a[k] - b[k]) * (double)(a[k] - b[k]);
                size += (double)a[k] * (double)a[k];
            }
            if (!(change > 0 && sqrt(change / size) < 0x1p-6)) fail_msg("output %d: %g", (int)i, sqrt(change / size));
        }
        backend_free(exact);
        backend_free(rounds);
    }
    free(a);
    free(b);
}

/* Outputs of such heads begin at addresses that the library does not take for factors in bf16. */
static void test_heads_at_odd_addresses_are_computed_in_float(void **state)
{
    (void)state;
    float *a = calloc((size_t)16 * TOKENS * HEADS * WIDEST, sizeof *a), *b = a + 8 * TOKENS * HEADS * WIDEST;
    for (int64_t width = 5; width <= 6; width++) {
        struct backend *exact = open_device(NULL, false), *rounds = open_device(NULL, true);
        struct error error;
        attention_on(exact, width, 40, a);
        attention_on(rounds, width, 40, b);
        if (rounds->ops->sync(rounds, &error) != STATUS_OK) fail_msg("%s", error.detail);
        assert_memory_equal(a, b, (size_t)(8 * TOKENS * HEADS * width) * sizeof *a);
        backend_free(exact);
        backend_free(rounds);
    }
    free(a);
}

static struct quantize_result quantize_on(const struct fixture *f, struct backend *backend)
{
    struct quantize_result result;
    struct error error;
    const struct quantize_request request = {
        .model = f->model,
        .backend = backend,
        .method = {.quantizer = QUANTIZER_GPTQ, .gptq = {4, 16, false, false, true, 0.05}},
        .calibration = &f->calibration,
        .evaluation = &f->evaluation,
    };
    if (quantize_run(&request, &result, &error) != STATUS_OK) fail_msg("%s", error.detail);
    return result;
}

/* Rounding a factor changes it by at most 2^-9, and sums of such changes by less; losses and errors of layers by a few
 * times that. What the quantizer computes of the same statistics in half the digits would be off by more. */
static void test_rounded_products_change_losses_and_errors_a_little(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, tiny_llama, 8, 24);
    struct backend *exact = open_device(f.team, false), *rounds = open_device(f.team, true);
    struct quantize_result a = quantize_on(&f, exact), b = quantize_on(&f, rounds);
    assert_true(a.fp.loss != b.fp.loss);
    assert_true(fabs(a.fp.loss - b.fp.loss) < 0x1p-7 * a.fp.loss && fabs(a.q.loss - b.q.loss) < 0x1p-6 * a.q.loss);
    assert_int_equal(a.layer_count, b.layer_count);
    for (int64_t i = 0; i < a.layer_count; i++)
        if (!(fabs(a.layers[i].relative_error - b.layers[i].relative_error) < 0.2 * a.layers[i].relative_error))
            fail_msg("%s: %g, in full precision %g", a.layers[i].name, b.layers[i].relative_error,
                     a.layers[i].relative_error);
    quantize_result_reset(&a);
    quantize_result_reset(&b);
    backend_free(exact);
    backend_free(rounds);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_factors_are_rounded_in_tiles),
        cmocka_unit_test(test_plans_leave_room_for_rounded_factors),
        cmocka_unit_test(test_a_factor_is_rounded_again_when_it_changed),
        cmocka_unit_test(test_a_sum_over_rows_rounds_for_the_next_product),
        cmocka_unit_test(test_a_norm_and_an_activation_round_for_the_next_product),
        cmocka_unit_test(test_a_factor_is_rounded_again_after_an_exact_product),
        cmocka_unit_test(test_rounded_factors_change_every_pass_of_attention_a_little),
        cmocka_unit_test(test_heads_at_odd_addresses_are_computed_in_float),
        cmocka_unit_test(test_factors_do_not_depend_on_how_products_are_rounded),
        cmocka_unit_test(test_rounded_products_change_losses_and_errors_a_little),
    };
    return cmocka_run_group_tests_name("rounded products", tests, NULL, NULL);
}
