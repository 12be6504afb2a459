/* Rounding to nearest: groups of every kind, what is measured and refused, and the reference codes, which must be
 * exact. */
#include "base/random.h"
#include "oracle.h"
#include "quant/ends.h"
#include "quantizer_fixture.h"

static enum status run(struct backend *backend, struct rtn_params params, struct matrix weight, struct matrix hessian,
                       struct quantized_layer *layer, struct error *error)
{
    const struct quantize_method method = {.quantizer = QUANTIZER_RTN, .rtn = params};
    const struct quantize_linear linear = {"layer", weight};
    const struct quantize_task task = {.linears = &linear, .count = 1, .inputs = {.hessian = hessian}};
    return quantizer_rtn.quantize(backend, &method, &task, layer, error);
}

/* Strided rows, a short last group, a Hessian: codes from the definition, weights replaced, errors as the oracle sums
 * them. */
static void test_short_last_group_in_a_strided_weight(void **state)
{
    const struct oracle_case c = {.rows = 7, .columns = 45, .tokens = 60, .group_size = 16, .bits = 3};
    struct oracle o = oracle_make(&c, 4);
    float weight[7 * 50], hessian[45 * 45];
    struct quantized_layer layer = {0};
    struct error error;
    for (int r = 0; r < 7; r++)
        for (int j = 0; j < 50; j++) weight[r * 50 + j] = j < 45 ? o.weight[r * 45 + j] : 77;
    for (int i = 0; i < 45 * 45; i++) hessian[i] = i % 45 <= i / 45 ? (float)o.hessian[i] : NAN;
    struct matrix matrix = matrix_of(weight, 7, 45, sizeof(float));
    matrix.stride = 50;
    assert_int_equal(run(*state, (struct rtn_params){3, 16, false}, matrix, matrix_of(hessian, 45, 45, sizeof(float)),
                         &layer, &error),
                     STATUS_OK);
    assert_int_equal(layer.groups, 3);
    for (int r = 0; r < 7; r++)
        for (int j = 0; j < 45; j++) {
            double row[45], scale, zero;
            int32_t members[16];
            const int first = j / 16 * 16, count = first + 16 < 45 ? 16 : 45 - first;
            for (int i = 0; i < count; i++) members[i] = first + i;
            for (int i = 0; i < 45; i++) row[i] = (double)o.weight[r * 45 + i];
            oracle_grid(&c, row, members, count, &scale, &zero);
            assert_int_equal(layer.codes[r * 45 + j], (int)fmin(fmax(rint(row[j] / scale) + zero, 0), 7));
            o.quantized[r * 45 + j] = (double)weight[r * 50 + j];
            assert_true(fabs((layer.codes[r * 45 + j] - zero) * scale - o.quantized[r * 45 + j]) < 1e-6);
        }
    for (int r = 0; r < 7; r++) assert_true(weight[r * 50 + 45] == 77);
    const double proxy = oracle_proxy(&c, &o, o.quantized), zeros[7 * 45] = {0};
    assert_true(fabs(layer.proxy_error - proxy) < 1e-4 * proxy);
    assert_true(fabs(layer.relative_error - proxy / oracle_proxy(&c, &o, zeros)) < 1e-4 * layer.relative_error);
    assert_int_equal(quantized_layer_bits(&layer), 7 * 45 * 3 + 7 * 3 * (16 + 3));
    quantized_layer_reset(&layer);
    oracle_free(&o);
}

/* Every number of bits, both kinds of grid, and groups of every kind, the shorter last one included. */
static void test_matches_the_definition_in_every_parameter(void **state)
{
    static const int64_t groups[] = {-1, 1, 7, 16, 45, 1000};
    for (int trial = 0; trial < 48; trial++) {
        struct oracle_case c = {
            .rows = 9, .columns = 45, .tokens = 1, .bits = (int[]){2, 3, 4, 8}[trial % 4], .sym = trial >= 24};
        c.group_size = groups[trial / 4 % 6];
        struct oracle o = oracle_make(&c, (uint64_t)trial);
        struct quantized_layer layer = {0};
        struct error error;
        float weight[9 * 45];
        const int size = c.group_size == -1 || c.group_size > 45 ? 45 : (int)c.group_size,
                  count = (45 + size - 1) / size;
        memcpy(weight, o.weight, sizeof weight);
        assert_int_equal(run(*state, (struct rtn_params){c.bits, c.group_size, c.sym},
                             matrix_of(weight, 9, 45, sizeof(float)), (struct matrix){0}, &layer, &error),
                         STATUS_OK);
        assert_int_equal(layer.groups, count);
        for (int i = 0; i < 9 * 45; i++) {
            double row[45], scale, zero;
            int32_t members[45];
            const int first = i % 45 / size * size, width = first + size < 45 ? size : 45 - first;
            for (int k = 0; k < width; k++) members[k] = first + k;
            for (int k = 0; k < 45; k++) row[k] = (double)o.weight[i / 45 * 45 + k];
            oracle_grid(&c, row, members, width, &scale, &zero);
            const double code = fmin(fmax(rint(row[i % 45] / scale) + zero, 0), (1 << c.bits) - 1);
            assert_int_equal(layer.codes[i], (int)code);
            assert_true(fabs((double)weight[i] - (code - zero) * scale) < 1e-6);
        }
        assert_int_equal(quantized_layer_bits(&layer), 9 * 45 * c.bits + 9 * count * (16 + (c.sym ? 0 : c.bits)));
        quantized_layer_reset(&layer);
        oracle_free(&o);
    }
}

/* Embeddings and outputs: symmetric, groups of 128 columns whatever the method. */
static void test_ends_have_groups_of_128(void **state)
{
    const struct oracle_case c = {.rows = 3, .columns = 300, .tokens = 1, .bits = 4, .sym = true, .group_size = 128};
    struct oracle o = oracle_make(&c, 1);
    struct error error;
    float weight[3 * 300];
    int64_t bits = 0;
    memcpy(weight, o.weight, sizeof weight);
    assert_int_equal(ends_round(*state, "ends", matrix_of(weight, 3, 300, sizeof(float)), 4, &bits, &error), STATUS_OK);
    assert_int_equal(bits, 3 * 300 * 4 + 3 * 3 * 16);
    for (int i = 0; i < 3 * 300; i++) {
        double row[300], scale, zero;
        int32_t members[128];
        const int first = i % 300 / 128 * 128, width = first + 128 < 300 ? 128 : 300 - first;
        for (int k = 0; k < width; k++) members[k] = first + k;
        for (int k = 0; k < 300; k++) row[k] = (double)o.weight[i / 300 * 300 + k];
        oracle_grid(&c, row, members, width, &scale, &zero);
        assert_true(fabs((double)weight[i] - (fmin(fmax(rint(row[i % 300] / scale) + zero, 0), 15) - zero) * scale) <
                    1e-6);
    }
    oracle_free(&o);
}

static void test_without_a_hessian_inputs_count_as_white(void **state)
{
    float weight[4] = {0.9f, -0.2f, 0.4f, 1.0f}, before[4];
    struct quantized_layer layer = {0};
    struct error error;
    memcpy(before, weight, sizeof weight);
    assert_int_equal(run(*state, (struct rtn_params){2, -1, true}, matrix_of(weight, 2, 2, sizeof(float)),
                         (struct matrix){0}, &layer, &error),
                     STATUS_OK);
    double error_energy = 0, energy = 0;
    for (int i = 0; i < 4; i++) {
        error_energy += pow((double)(before[i] - weight[i]), 2);
        energy += pow((double)before[i], 2);
    }
    assert_true(fabs(layer.proxy_error - error_energy) < 1e-6);
    assert_true(fabs(layer.relative_error - error_energy / energy) < 1e-6);
    assert_int_equal(quantized_layer_bits(&layer), 2 * (2 * 2 + 16));
    quantized_layer_reset(&layer);
}

static void test_refuses_what_is_not_finite_and_leaves_weights(void **state)
{
    float nan[2] = {1, NAN}, huge[2] = {3.4e38f, -3.4e38f};
    struct quantized_layer layer = {0};
    struct error error;
    const struct rtn_params params = {4, 128, true};
    assert_int_equal(run(*state, params, matrix_of(nan, 1, 2, 4), (struct matrix){0}, &layer, &error),
                     STATUS_NOT_FINITE);
    quantized_layer_reset(&layer);
    assert_int_equal(run(*state, params, matrix_of(huge, 1, 2, 4), (struct matrix){0}, &layer, &error),
                     STATUS_NOT_FINITE);
    assert_true(huge[0] == 3.4e38f);
    quantized_layer_reset(&layer);
}

static void test_refuses_a_backend_of_doubles(void **state)
{
    (void)state;
    struct backend *backend;
    struct error error;
    double weight[2] = {1, 2};
    struct quantized_layer layer = {0};
    assert_int_equal(backend_reference_new(true, NULL, &backend, &error), STATUS_OK);
    assert_int_equal(
        run(backend, (struct rtn_params){4, 128, true}, matrix_of(weight, 1, 2, 8), (struct matrix){0}, &layer, &error),
        STATUS_UNSUPPORTED);
    assert_non_null(strstr(error.detail, "reference64"));
    backend_free(backend);
}

static void test_complete_checks_the_group_size(void **state)
{
    (void)state;
    struct error error;
    struct quantize_method method = {.quantizer = QUANTIZER_RTN, .rtn = {4, -1, true}};
    assert_int_equal(quantize_method_complete(&method, &error), STATUS_OK);
    method.rtn.group_size = 0;
    assert_int_equal(quantize_method_complete(&method, &error), STATUS_INVALID);
    assert_string_equal(error.pointer, "/group_size");
}

static void test_reference_codes_are_exact(void **state)
{
    char file[512], name[64];
    int64_t count = 0;
    shared_require("reference/quant/rtn.safetensors", file, sizeof file);
    float *weight = shared_tensor(file, "W", &count), *work = malloc((size_t)count * sizeof(float));
    for (int trial = 0; trial < 32; trial++) {
        const int bits = (int[]){2, 3, 4, 8}[trial % 4], group = (int[]){-1, 32, 64, 128}[trial / 4 % 4];
        const bool sym = trial < 16;
        struct quantized_layer layer = {0};
        struct error error;
        memcpy(work, weight, (size_t)count * sizeof(float));
        assert_int_equal(run(*state, (struct rtn_params){bits, group, sym}, matrix_of(work, 24, 256, sizeof(float)),
                             (struct matrix){0}, &layer, &error),
                         STATUS_OK);
        (void)snprintf(name, sizeof name, "b%d.g%d.%s.codes", bits, group, sym ? "sym" : "asym");
        uint8_t *codes = shared_tensor(file, name, NULL);
        (void)snprintf(name, sizeof name, "b%d.g%d.%s.scales", bits, group, sym ? "sym" : "asym");
        double *scales = shared_tensor(file, name, NULL);
        (void)snprintf(name, sizeof name, "b%d.g%d.%s.zeros", bits, group, sym ? "sym" : "asym");
        uint8_t *zeros = shared_tensor(file, name, NULL);
        assert_memory_equal(layer.codes, codes, (size_t)count);
        assert_memory_equal(layer.zeros, zeros, (size_t)(24 * layer.groups));
        for (int64_t i = 0; i < 24 * layer.groups; i++) assert_true(layer.scales[i] == (float)scales[i]);
        free(codes);
        free(scales);
        free(zeros);
        quantized_layer_reset(&layer);
    }
    free(weight);
    free(work);
}

/* Groups of negligible weights have scales that float16 rounds to 0. */
static void test_negligible_groups_have_the_smallest_float16_scale(void **state)
{
    static const float sizes[] = {1, 1e-40F, 1e-9F, 1e-7F};
    float weight[32], before[32];
    struct quantized_layer layer = {0};
    struct error error;
    for (int i = 0; i < 32; i++) before[i] = weight[i] = sizes[i / 8] * (float)random_normal(8, 0, (uint64_t)i);
    const struct quantize_linear linear = {"layer", matrix_of(weight, 1, 32, 4)};
    const struct quantize_task task = {.linears = &linear, .count = 1, .half_scales = true};
    const struct quantize_method method = {.quantizer = QUANTIZER_RTN, .rtn = {4, 8, true}};
    if (quantizer_rtn.quantize(*state, &method, &task, &layer, &error) != STATUS_OK) fail_msg("%s", error.detail);
    for (int g = 1; g < 4; g++) assert_true(layer.scales[g] == 0x1p-24F);
    /* half a step of the stored scale and half of the one before */
    for (int i = 8; i < 32; i++) assert_true(fabsf(weight[i] - before[i]) <= 0x1p-24F);
    quantized_layer_reset(&layer);
    layer = (struct quantized_layer){0};
    for (int i = 0; i < 32; i++) weight[i] = before[i] * 1e7F;
    assert_int_equal(quantizer_rtn.quantize(*state, &method, &task, &layer, &error), STATUS_UNSUPPORTED);
    assert_non_null(strstr(error.detail, "layer: a scale of"));
    quantized_layer_reset(&layer);
}

static void test_an_error_that_is_not_finite_names_its_layer(void **state)
{
    float weight[4] = {1, -2, 3, -4}, hessian[16] = {0};
    struct quantized_layer layer = {0};
    struct error error;
    for (int c = 0; c < 4; c++) hessian[c * 5] = 3e38F;
    const struct quantize_linear linear = {"l.up_proj.weight", matrix_of(weight, 1, 4, 4)};
    const struct quantize_task task = {.linears = &linear, .count = 1, .inputs.hessian = matrix_of(hessian, 4, 4, 4)};
    const struct quantize_method method = {.quantizer = QUANTIZER_RTN, .rtn = {4, -1, true}};
    assert_int_equal(quantizer_rtn.quantize(*state, &method, &task, &layer, &error), STATUS_NOT_FINITE);
    assert_non_null(strstr(error.detail, "l.up_proj.weight: "));
    quantized_layer_reset(&layer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short_last_group_in_a_strided_weight),
        cmocka_unit_test(test_matches_the_definition_in_every_parameter),
        cmocka_unit_test(test_ends_have_groups_of_128),
        cmocka_unit_test(test_without_a_hessian_inputs_count_as_white),
        cmocka_unit_test(test_refuses_what_is_not_finite_and_leaves_weights),
        cmocka_unit_test(test_refuses_a_backend_of_doubles),
        cmocka_unit_test(test_negligible_groups_have_the_smallest_float16_scale),
        cmocka_unit_test(test_an_error_that_is_not_finite_names_its_layer),
        cmocka_unit_test(test_complete_checks_the_group_size),
        cmocka_unit_test(test_reference_codes_are_exact),
    };
    return cmocka_run_group_tests_name("rtn", tests, fixture_setup_reference, fixture_teardown);
}
