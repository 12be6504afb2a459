/* GPTQ against the oracle (every option), on its edges, and against the reference layers. */
#include "base/memory.h"
#include "base/random.h"
#include "oracle.h"
#include "quant/gptq_order.h"
#include "quantizer_fixture.h"

#include <stdio.h>

static struct quantize_method method_of(const struct oracle_case *c)
{
    return (struct quantize_method){
        .quantizer = QUANTIZER_GPTQ,
        .gptq = {c->bits, c->group_size, c->sym, c->desc_act, c->act_group_aware, c->damp},
    };
}

/* Lower triangle only: the upper one is poison. */
static float *hessian_of(const struct oracle_case *c, const struct oracle *o)
{
    float *h = calloc((size_t)(c->columns * c->columns), sizeof(float));
    for (int64_t i = 0; i < c->columns; i++)
        for (int64_t j = 0; j < c->columns; j++)
            h[i * c->columns + j] = j <= i ? (float)o->hessian[i * c->columns + j] : NAN;
    return h;
}

static enum status run(struct backend *backend, const struct oracle_case *c, float *weight, float *hessian,
                       struct quantized_layer *layer, struct error *error)
{
    const struct quantize_method method = method_of(c);
    const struct quantize_linear linear = {"layer", matrix_of(weight, c->rows, c->columns, sizeof(float))};
    const struct quantize_task task = {
        .linears = &linear,
        .count = 1,
        .inputs = {.hessian = matrix_of(hessian, c->columns, c->columns, sizeof(float))}};
    return quantizer_gptq.quantize(backend, &method, &task, layer, error);
}

static void compare(struct backend *backend, const struct oracle_case *c, uint64_t seed)
{
    struct oracle o = oracle_make(c, seed);
    struct quantized_layer layer = {0};
    struct error error = {0};
    float *hessian = hessian_of(c, &o), *weight = calloc((size_t)(c->rows * c->columns), sizeof(float));
    memcpy(weight, o.weight, (size_t)(c->rows * c->columns) * sizeof(float));
    oracle_gptq(c, &o);
    assert_int_equal(run(backend, c, weight, hessian, &layer, &error), STATUS_OK);

    int64_t same = 0;
    const int64_t count = c->rows * c->columns;
    double *values = calloc((size_t)count, sizeof(double));
    for (int64_t i = 0; i < count; i++) {
        const int64_t g = (i / c->columns) * layer.groups + layer.g_idx[i % c->columns];
        same += layer.codes[i] == o.codes[i];
        assert_int_equal(layer.g_idx[i % c->columns], o.g_idx[i % c->columns]);
        assert_true(weight[i] == (float)(layer.codes[i] - layer.zeros[g]) * layer.scales[g]);
        values[i] = (double)weight[i];
    }
    const double proxy = oracle_proxy(c, &o, o.quantized), own = oracle_proxy(c, &o, values);
    if ((double)same < 0.99 * (double)count || fabs(proxy - own) > 1e-2 * proxy)
        fail_msg("b%d g%d %s act %d gar %d damp %g: %d of %d codes equal, proxy %g, expected %g", c->bits,
                 (int)c->group_size, c->sym ? "sym" : "asym", c->desc_act, c->act_group_aware, c->damp, (int)same,
                 (int)count, own, proxy);
    /* the reported proxy is a float product of the same two things */
    assert_true(fabs(layer.proxy_error - own) <= 1e-4 * own);
    assert_true(fabs(layer.relative_error -
                     own / oracle_proxy(c, &o, (double *)memset(values, 0, (size_t)count * sizeof(double)))) <=
                1e-4 * layer.relative_error);
    assert_int_equal(layer.dead_columns, c->columns > 8 ? 2 : 0);
    assert_true(layer.damp == c->damp);
    free(values);
    free(weight);
    free(hessian);
    quantized_layer_reset(&layer);
    oracle_free(&o);
}

static void test_matches_the_oracle_in_every_option(void **state)
{
    static const struct oracle_case cases[] = {
        {40, 256, 400, 128, 4, true, false, false, 0.01}, {40, 256, 400, 128, 4, true, false, true, 0.05},
        {40, 256, 400, 128, 3, true, true, false, 0.01},  {40, 256, 400, 32, 4, false, false, false, 0.01},
        {40, 256, 400, 32, 3, true, false, true, 0.05},   {40, 256, 400, -1, 4, true, false, false, 0.01},
        {40, 256, 400, -1, 3, false, true, false, 0.01},  {40, 256, 400, 256, 4, true, false, true, 0.01},
        {40, 256, 400, 64, 2, false, true, false, 0.01},  {40, 256, 400, 128, 8, true, false, false, 0.01},
        {33, 200, 300, 128, 4, false, false, true, 0.05}, {33, 200, 300, 192, 4, false, false, false, 0.01},
        {33, 200, 300, 48, 3, false, true, false, 0.01},  {33, 200, 300, 1000, 4, false, false, true, 0.01},
        {5, 130, 50, 7, 4, false, false, true, 0.01},     {1, 1, 10, 128, 4, true, false, true, 0.01},
        {3, 2, 10, 1, 4, false, false, true, 0.01},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) compare(*state, &cases[i], i);
}

static void test_stacked_linears_equal_separate_ones(void **state)
{
    const struct oracle_case c = {96, 160, 200, 32, 4, true, false, true, 0.05};
    struct oracle o = oracle_make(&c, 3);
    struct error error;
    const struct quantize_method method = method_of(&c);
    const size_t bytes = (size_t)(c.rows * c.columns) * sizeof(float);
    float *hessian = hessian_of(&c, &o), *weight = malloc(bytes), *apart = malloc(bytes);
    memcpy(weight, o.weight, bytes);
    memcpy(apart, o.weight, bytes);
    struct quantized_layer layers[3] = {0}, layer = {0};
    struct quantize_linear linears[3];
    const int64_t rows[] = {50, 40, 6}, first[] = {0, 50, 90};
    for (int i = 0; i < 3; i++)
        linears[i] = (struct quantize_linear){"q", matrix_of(weight + first[i] * 160, rows[i], 160, 4)};
    const struct quantize_task all = {
        .linears = linears, .count = 3, .inputs = {.hessian = matrix_of(hessian, 160, 160, 4)}};
    assert_int_equal(quantizer_gptq.quantize(*state, &method, &all, layers, &error), STATUS_OK);
    for (int i = 0; i < 3; i++) {
        const struct quantize_linear linear = {"q", matrix_of(apart + first[i] * 160, rows[i], 160, 4)};
        const struct quantize_task one = {
            .linears = &linear, .count = 1, .inputs = {.hessian = matrix_of(hessian, 160, 160, 4)}};
        assert_int_equal(quantizer_gptq.quantize(*state, &method, &one, &layer, &error), STATUS_OK);
        assert_memory_equal(layer.codes, layers[i].codes, (size_t)(rows[i] * 160));
        assert_true(layer.proxy_error == layers[i].proxy_error);
        quantized_layer_reset(&layer);
        quantized_layer_reset(&layers[i]);
    }
    assert_memory_equal(weight, apart, bytes);
    free(weight);
    free(apart);
    free(hessian);
    oracle_free(&o);
}

static void test_bits_do_not_depend_on_threads(void **state)
{
    (void)state;
    const struct oracle_case c = {70, 300, 100, 64, 3, false, false, true, 0.05};
    struct oracle o = oracle_make(&c, 9);
    const size_t bytes = (size_t)(c.rows * c.columns) * sizeof(float);
    float *weights[3];
    for (int threads = 1; threads <= 3; threads++) {
        struct error error;
        struct team *team;
        struct backend *backend;
        struct quantized_layer layer = {0};
        float *hessian = hessian_of(&c, &o);
        weights[threads - 1] = memcpy(malloc(bytes), o.weight, bytes);
        assert_int_equal(team_new(threads, &team, &error), STATUS_OK);
        assert_int_equal(backend_reference_new(false, team, &backend, &error), STATUS_OK);
        assert_int_equal(run(backend, &c, weights[threads - 1], hessian, &layer, &error), STATUS_OK);
        quantized_layer_reset(&layer);
        backend_free(backend);
        team_free(team);
        free(hessian);
    }
    assert_memory_equal(weights[0], weights[1], bytes);
    assert_memory_equal(weights[0], weights[2], bytes);
    for (int i = 0; i < 3; i++) free(weights[i]);
    oracle_free(&o);
}

/* H with an eigenvalue of -0.045 and mean diagonal 1: damping below that cannot work, 0.05 does. */
static void test_damping_rises_until_the_factorisation_works(void **state)
{
    const struct oracle_case c = {4, 2, 1, -1, 4, true, false, false, 0.01};
    float weight[8], hessian[4] = {1, NAN, 1.045f, 1};
    struct quantized_layer layer = {0};
    struct error error;
    for (int i = 0; i < 8; i++) weight[i] = (float)random_normal(1, 1, (uint64_t)i);
    assert_int_equal(run(*state, &c, weight, hessian, &layer, &error), STATUS_OK);
    assert_true(fabs(layer.damp - 0.05) < 1e-12);
    assert_true(layer.damp_increases == 4 && layer.degraded == DEGRADED_NO);
    quantized_layer_reset(&layer);
}

/* The least damping in steps of 0.01 that works, wherever it lies: eigenvalues of 1 - x and 1 + x beside a mean
 * diagonal of 1. */
static void test_the_least_damping_that_works_is_found(void **state)
{
    for (int needed = 2; needed < 99; needed++) {
        const struct oracle_case c = {1, 2, 1, -1, 4, true, false, false, 0.01};
        float weight[2] = {0.3f, -0.9f}, hessian[4] = {1, NAN, (float)(1 + 0.01 * needed - 0.005), 1};
        struct quantized_layer layer = {0};
        struct error error;
        assert_int_equal(run(*state, &c, weight, hessian, &layer, &error), STATUS_OK);
        if (fabs(layer.damp - 0.01 * needed) > 1e-12 || layer.damp_increases != needed - 1)
            fail_msg("damping %g after %d increases, expected %g", layer.damp, (int)layer.damp_increases,
                     0.01 * needed);
        quantized_layer_reset(&layer);
    }
}

/* A dead input has 1 on the diagonal, which counts in the mean: (1 + 1 + 1) / 3 of it lets 0.05 work where 0.04 does
 * not. */
static void test_dead_inputs_count_as_one(void **state)
{
    const struct oracle_case c = {1, 3, 1, -1, 4, true, false, false, 0.01};
    float weight[3] = {0.3f, -0.9f, 0.5f}, hessian[9] = {1, NAN, NAN, 1.045f, 1, NAN, 0, 0, 0};
    struct quantized_layer layer = {0};
    struct error error;
    assert_int_equal(run(*state, &c, weight, hessian, &layer, &error), STATUS_OK);
    assert_int_equal(layer.dead_columns, 1);
    assert_true(fabs(layer.damp - 0.05) < 1e-12 && weight[2] == 0);
    quantized_layer_reset(&layer);
}

static void expect_order(enum gptq_order_kind kind, const float *diagonal, const int32_t *from, const int32_t *group)
{
    struct gptq_order order;
    struct error error;
    assert_int_equal(gptq_order_init(&order, kind, diagonal, 8, 3, &error), STATUS_OK);
    assert_int_equal(order.runs, 3);
    for (int i = 0; i < 8; i++) assert_int_equal(order.from[i], from[i]);
    for (int i = 0; i < 3; i++) assert_int_equal(order.group[i], group[i]);
    gptq_order_reset(&order);
}

/* Descending, of equals the first; groups by their largest, the short one last. */
static void test_orders_are_stable(void **state)
{
    (void)state;
    static const float diagonal[] = {2, 1, 5, 5, 1, 2, 9, 9}, flat[] = {1, 1, 1, 1, 1, 1, 1, 1};
    static const int32_t plain[] = {0, 1, 2, 3, 4, 5, 6, 7}, act[] = {6, 7, 2, 3, 0, 5, 1, 4},
                         gar[] = {2, 0, 1, 3, 5, 4, 6, 7};
    static const int32_t second_first[] = {3, 5, 4, 2, 0, 1, 6, 7}, groups[] = {0, 1, 2}, turned[] = {1, 0, 2};
    expect_order(GPTQ_ORDER_NONE, diagonal, plain, groups);
    expect_order(GPTQ_ORDER_ACT, diagonal, act, groups);
    expect_order(GPTQ_ORDER_GAR, diagonal, gar, groups);
    expect_order(GPTQ_ORDER_ACT, flat, plain, groups);
    expect_order(GPTQ_ORDER_GAR, flat, plain, groups);
    expect_order(GPTQ_ORDER_GAR, (const float[]){2, 1, 5, 6, 1, 2, 9, 9}, second_first, turned);
}

/* Codes, a scale of 16 bits for each row and group, zero points where the grid has them, indices where the groups are
 * ordered. */
static void test_bits_are_counted(void **state)
{
    static const struct oracle_case cases[] = {{6, 24, 40, 8, 4, true, false, false, 0.01},
                                               {6, 24, 40, 8, 4, true, true, false, 0.01},
                                               {6, 24, 40, 7, 3, false, true, false, 0.01}};
    static const int64_t expected[] = {6 * 24 * 4 + 6 * 3 * 16, 6 * 24 * 4 + 6 * 3 * 16 + 24 * 32,
                                       6 * 24 * 3 + 6 * 4 * (16 + 3) + 24 * 32};
    for (int i = 0; i < 3; i++) {
        struct oracle o = oracle_make(&cases[i], 5);
        struct quantized_layer layer = {0};
        struct error error;
        float *hessian = hessian_of(&cases[i], &o);
        assert_int_equal(run(*state, &cases[i], o.weight, hessian, &layer, &error), STATUS_OK);
        assert_int_equal(quantized_layer_bits(&layer), expected[i]);
        quantized_layer_reset(&layer);
        free(hessian);
        oracle_free(&o);
    }
}

/* Neither a Hessian that no damping mends nor inputs that were never there stop a run: rounding to nearest, said so. */
static void test_degenerate_inputs_fall_back_visibly(void **state)
{
    const struct oracle_case c = {1, 2, 1, -1, 4, true, false, false, 0.05};
    float hessians[2][4] = {{1, NAN, 5, 1}, {0, NAN, 0, 0}};
    for (int i = 0; i < 2; i++) {
        float weight[2] = {1, 2}, nearest[2] = {1, 2};
        struct quantized_layer layer = {0}, rounded = {0};
        struct error error;
        const struct quantize_method rtn = {.quantizer = QUANTIZER_RTN, .rtn = {4, -1, true}};
        const struct quantize_linear linear = {"layer", matrix_of(nearest, 1, 2, 4)};
        const struct quantize_task task = {.linears = &linear, .count = 1, .inputs = {.sample = {0}}};
        assert_int_equal(run(*state, &c, weight, hessians[i], &layer, &error), STATUS_OK);
        assert_int_equal(quantizer_rtn.quantize(*state, &rtn, &task, &rounded, &error), STATUS_OK);
        assert_int_equal(layer.degraded, i == 0 ? DEGRADED_SINGULAR : DEGRADED_SILENT);
        assert_int_equal(layer.dead_columns, i == 0 ? 0 : 2);
        assert_memory_equal(weight, nearest, sizeof weight);
        quantized_layer_reset(&layer);
        quantized_layer_reset(&rounded);
    }
}

static void test_singular_hessian_is_damped(void **state)
{
    const struct oracle_case c = {16, 160, 3, 32, 4, true, false, true, 0.05}; /* rank 3 */
    compare(*state, &c, 11);
}

static void refuse(struct backend *backend, float *weight, float *hessian, const char *words)
{
    const struct oracle_case c = {1, 2, 1, -1, 4, true, false, false, 0.05};
    struct quantized_layer layer = {0};
    struct error error;
    assert_int_equal(run(backend, &c, weight, hessian, &layer, &error), STATUS_NOT_FINITE);
    assert_non_null(strstr(error.detail, words));
    quantized_layer_reset(&layer);
}

static void test_refuses_what_is_not_finite(void **state)
{
    refuse(*state, (float[]){NAN, 1}, (float[]){1, 0, 0, 1}, "layer: a weight");
    refuse(*state, (float[]){-INFINITY, 1}, (float[]){1, 0, 0, 1}, "layer: a weight");
    refuse(*state, (float[]){1, 1}, (float[]){1, 0, NAN, 1}, "layer: an input");
    refuse(*state, (float[]){1, 1}, (float[]){INFINITY, 0, 0, 1}, "layer: an input");
    refuse(*state, (float[]){3.4e38f, -3.4e38f}, (float[]){1, 0, 0, 1}, "row 0: weights too large");
}

static void test_complete_turns_group_awareness_off(void **state)
{
    (void)state;
    struct error error;
    struct quantize_method method = {.quantizer = QUANTIZER_GPTQ, .gptq = {4, 128, true, true, true, 0.05}};
    assert_int_equal(quantize_method_complete(&method, &error), STATUS_OK);
    assert_false(method.gptq.act_group_aware);
    method.gptq = (struct gptq_params){4, -1, true, false, true, 0.05};
    assert_int_equal(quantize_method_complete(&method, &error), STATUS_OK);
    assert_false(method.gptq.act_group_aware);
    method.gptq = (struct gptq_params){4, 0, true, false, true, 0.05};
    assert_int_equal(quantize_method_complete(&method, &error), STATUS_INVALID);
    assert_string_equal(error.pointer, "/group_size");
    method.gptq = (struct gptq_params){4, 128, true, false, true, 1.0};
    assert_int_equal(quantize_method_complete(&method, &error), STATUS_INVALID);
    assert_string_equal(error.pointer, "/damp_percent");
}

static void test_variants_name_the_quantizers_in_order(void **state)
{
    (void)state;
    const struct param_variant *variants = quantize_method_variants;
    for (int i = 0; i < QUANTIZER_COUNT; i++) {
        assert_string_equal(variants[i].name, quantizer_by_id(i)->name);
        assert_ptr_equal(variants[i].params, quantizer_by_id(i)->params);
    }
    assert_null(variants[QUANTIZER_COUNT].name);
}

/* Groups that hold a whole row have no order to store. */
static void test_a_single_group_stores_no_indices(void **state)
{
    static const int64_t sizes[] = {-1, 24, 100, 8};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        float weight[2 * 24], hessian[24 * 24] = {0};
        struct quantized_layer layer = {0};
        struct error error;
        for (int k = 0; k < 2 * 24; k++) weight[k] = (float)random_normal(5, 0, (uint64_t)k);
        for (int c = 0; c < 24; c++) hessian[c * 25] = (float)(1 + c % 7);
        const struct quantize_linear linear = {"layer", matrix_of(weight, 2, 24, 4)};
        const struct quantize_task task = {
            .linears = &linear, .count = 1, .inputs.hessian = matrix_of(hessian, 24, 24, 4)};
        const struct quantize_method method = {
            .quantizer = QUANTIZER_GPTQ,
            .gptq = {.bits = 4, .group_size = sizes[i], .sym = true, .desc_act = true, .damp_percent = 0.05}};
        assert_int_equal(quantizer_gptq.quantize(*state, &method, &task, &layer, &error), STATUS_OK);
        const int64_t groups = sizes[i] == 8 ? 3 : 1;
        assert_int_equal(quantized_layer_bits(&layer), 2 * 24 * 4 + 2 * groups * 16 + (groups > 1 ? 24 * 32 : 0));
        quantized_layer_reset(&layer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matches_the_oracle_in_every_option),
        cmocka_unit_test(test_stacked_linears_equal_separate_ones),
        cmocka_unit_test(test_bits_do_not_depend_on_threads),
        cmocka_unit_test(test_damping_rises_until_the_factorisation_works),
        cmocka_unit_test(test_the_least_damping_that_works_is_found),
        cmocka_unit_test(test_dead_inputs_count_as_one),
        cmocka_unit_test(test_orders_are_stable),
        cmocka_unit_test(test_bits_are_counted),
        cmocka_unit_test(test_a_single_group_stores_no_indices),
        cmocka_unit_test(test_degenerate_inputs_fall_back_visibly),
        cmocka_unit_test(test_singular_hessian_is_damped),
        cmocka_unit_test(test_refuses_what_is_not_finite),
        cmocka_unit_test(test_complete_turns_group_awareness_off),
        cmocka_unit_test(test_variants_name_the_quantizers_in_order),
    };
    return cmocka_run_group_tests_name("gptq", tests, fixture_setup_reference, fixture_teardown);
}
