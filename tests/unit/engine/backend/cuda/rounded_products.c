/* A device whose products round their factors to bfloat16, emulated: the model's own products are rounded, what is
 * solved with is not. */
#include "engine/backend/cuda/emulated.h"

#include "backend/cuda/open.h"
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
        cmocka_unit_test(test_factors_do_not_depend_on_how_products_are_rounded),
        cmocka_unit_test(test_rounded_products_change_losses_and_errors_a_little),
    };
    return cmocka_run_group_tests_name("rounded products", tests, NULL, NULL);
}
