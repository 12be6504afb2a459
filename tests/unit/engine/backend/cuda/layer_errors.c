/* The error of a layer of more rows than are measured at a time, on the device as on the plain loops: no row is left
 * out and none counts twice. */
#include "engine/backend/cuda/stand_in.h"

#include "quant/coded.h"
#include "quant/quantizer.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>

enum { COLUMNS = 24 };

static struct matrix matrix_on(struct backend *backend, int64_t rows, const float *values)
{
    struct error error;
    void *data = NULL;
    assert_int_equal(backend->ops->allocate(backend, rows * COLUMNS, "a matrix", &data, &error), STATUS_OK);
    const struct matrix m = matrix_of(data, rows, COLUMNS, backend->ops->element);
    backend->ops->upload(backend, m, values, DTYPE_F32);
    return m;
}

/* Later rows have larger weights, so that each slab has an error of its own. */
static void measure(struct backend *backend, int64_t rows, double found[2])
{
    const struct quantize_method method = {.quantizer = QUANTIZER_RTN, .rtn = {3, 8, true}};
    float *values = calloc((size_t)rows * COLUMNS, sizeof *values), hessian[COLUMNS * COLUMNS];
    struct quantized_layer layer = {0};
    struct error error;
    for (int64_t i = 0; i < rows * COLUMNS; i++)
        values[i] = (float)(i * 7919 % 1009 - 504) * (1 + (float)(i / COLUMNS) / 300);
    for (int i = 0; i < COLUMNS * COLUMNS; i++)
        hessian[i] = i / COLUMNS == i % COLUMNS ? 2 : 1 / (float)(1 + abs(i / COLUMNS - i % COLUMNS));
    struct matrix weight = matrix_on(backend, rows, values), h = matrix_on(backend, COLUMNS, hessian);
    const struct quantize_linear linear = {"a layer", weight};
    const struct quantize_task task = {.linears = &linear, .count = 1, .inputs = {.hessian = h}};
    if (quantizer_rtn.quantize(backend, &method, &task, &layer, &error) != STATUS_OK) fail_msg("%s", error.detail);
    found[0] = layer.proxy_error, found[1] = layer.relative_error;
    quantized_layer_reset(&layer);
    matrix_release(backend, &weight);
    matrix_release(backend, &h);
    free(values);
}

/* Values are floats and so are products; sums of slabs are doubles. */
static void check_rows(struct backend *device, struct backend *loops, int64_t rows)
{
    double expected[2], found[2];
    measure(loops, rows, expected);
    measure(device, rows, found);
    for (int i = 0; i < 2; i++)
        if (!(fabs(found[i] - expected[i]) <= 64 * 0x1p-24 * expected[i]))
            fail_msg("of %lld rows: %.9g, plain loops give %.9g", (long long)rows, found[i], expected[i]);
}

static void test_every_row_counts_once(void **state)
{
    struct backend *device = NULL, *loops = NULL;
    struct error error;
    (void)state;
    assert_int_equal(stand_in_new(NULL, &device, &error), STATUS_OK);
    assert_int_equal(backend_reference_new(false, NULL, &loops, &error), STATUS_OK);
    const int64_t slab = coded_slab_rows(device);
    assert_true(slab > coded_slab_rows(loops));
    check_rows(device, loops, slab - 1);
    check_rows(device, loops, slab);
    check_rows(device, loops, 2 * slab + 7);
    backend_free(device);
    backend_free(loops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_row_counts_once)};
    return cmocka_run_group_tests_name("layer errors", tests, NULL, NULL);
}
