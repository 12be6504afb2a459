/* AWQ: the reference's two linears (scales, codes, clipping), and what the search must and must not do. */
#include "base/random.h"
#include "quantizer_fixture.h"

enum { TOKENS = 96, COLUMNS = 128 };

static struct quantize_method awq_of(int bits, int group, bool clip)
{
    return (struct quantize_method){.quantizer = QUANTIZER_AWQ,
                                    .awq = {.bits = bits, .group_size = group, .grid_points = 20, .sym = false, .clip = clip}};
}

static void *field(const char *file, const char *name, const char *what)
{
    char key[64];
    (void)snprintf(key, sizeof key, "%s.%s", name, what);
    return shared_tensor(file, key, NULL);
}

/* All but `share` of the values equal. A weight on a rounding tie may go the other way in float; a group clamped on both sides has
 * such ties at its ends, which can decide between two magnitudes: then the whole group differs. */
static void compare(const float *found, const double *expected, int rows, double share, const char *what)
{
    int wrong = 0;
    for (int i = 0; i < rows * COLUMNS; i++) wrong += fabs((double)found[i] - expected[i]) > 1e-5;
    if (wrong > share * rows * COLUMNS) fail_msg("%s: %d of %d values differ", what, wrong, rows * COLUMNS);
}

/* W diag(s) clamped to the reference's magnitudes, on the reference's grid, over s. */
static void expect_clipped(const float *weight, const double *scale, const double *most, int group, int bits, double *out)
{
    const int groups = COLUMNS / group;
    for (int r = 0; r < 24; r++)
        for (int g = 0; g < groups; g++) {
            double lo = INFINITY, hi = -INFINITY, w[COLUMNS];
            const double m = most[r * groups + g], top = (1 << bits) - 1;
            for (int c = 0; c < group; c++) {
                w[c] = fmin(fmax((double)weight[r * COLUMNS + g * group + c] * scale[g * group + c], -m), m);
                lo = fmin(lo, w[c]);
                hi = fmax(hi, w[c]);
            }
            const double step = fmax(hi - lo, 1e-5) / top, zero = fmin(fmax(-rint(lo / step), 0), top);
            for (int c = 0; c < group; c++)
                out[r * COLUMNS + g * group + c] =
                    (fmin(fmax(rint(w[c] / step) + zero, 0), top) - zero) * step / scale[g * group + c];
        }
}

static void check_reference(struct backend *backend, const char *file, const char *name, double alpha)
{
    int bits, group;
    assert_int_equal(sscanf(name, "b%d.g%d", &bits, &group), 2);
    float *x = shared_tensor(file, "X", NULL);
    float *weights[2] = {shared_tensor(file, "W1", NULL), shared_tensor(file, "W2", NULL)},
          *first = shared_tensor(file, "W1", NULL);
    double *q[2] = {field(file, name, "Q1"), field(file, name, "Q2")}, *scale = field(file, name, "scale");
    double *most = field(file, name, "clip_max1"), *clipped = calloc(24 * COLUMNS, sizeof(double));
    struct statistics_collector collector;
    const struct statistics *inputs = fixture_collect(&collector, backend, quantizer_awq.needs, x, TOKENS, COLUMNS);
    struct quantized_layer layers[2] = {0};
    struct quantize_method method = awq_of(bits, group, false);
    /* neither is called query or key */
    struct quantize_linear linears[2] = {{"mlp.up_proj.weight", matrix_of(weights[0], 24, COLUMNS, 4)},
                                         {"mlp.gate_proj.weight", matrix_of(weights[1], 16, COLUMNS, 4)}};
    fixture_quantize(backend, &method, linears, 2, inputs, layers);
    assert_true(layers[0].alpha == alpha && layers[1].alpha == alpha);
    for (int c = 0; c < COLUMNS; c++) assert_true(fabs((double)layers[0].column_scales[c] - scale[c]) < 1e-5 * scale[c]);
    compare(weights[0], q[0], 24, 0.005, name);
    compare(weights[1], q[1], 16, 0.005, name);

    memcpy(weights[0], first, 24 * COLUMNS * sizeof(float));
    free(weights[1]);
    weights[1] = shared_tensor(file, "W2", NULL);
    linears[1].weight.data = weights[1];
    const double unclipped = layers[0].proxy_error;
    for (int i = 0; i < 2; i++) quantized_layer_reset(&layers[i]);
    method.awq.clip = true;
    fixture_quantize(backend, &method, linears, 2, inputs, layers);
    expect_clipped(first, scale, most, group == -1 ? COLUMNS : group, bits, clipped);
    compare(weights[0], clipped, 24, 0.1, "clipped");
    assert_true(layers[0].proxy_error < 1.05 * unclipped);
    for (int i = 0; i < 2; i++) quantized_layer_reset(&layers[i]);
    statistics_reset(&collector);
    void *blocks[] = {x, weights[0], weights[1], first, q[0], q[1], scale, most, clipped};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) free(blocks[i]);
}

static void test_reference_scales_codes_and_clipping(void **state)
{
    char file[512];
    (void)shared_require("reference/quant/awq.safetensors", file, sizeof file);
    check_reference(*state, file, "b3.g64", 0.2);
    check_reference(*state, file, "b3.g-1", 0.25);
    check_reference(*state, file, "b4.g64", 0.35);
    check_reference(*state, file, "b4.g-1", 0.3);
}

struct planted {
    float x[64 * 32], weight[20 * 32];
};

/* Two columns whose inputs are forty times as large. */
static void plant(struct planted *p)
{
    for (int i = 0; i < 64 * 32; i++) p->x[i] = (float)(random_normal(3, 0, (uint64_t)i) * (i % 32 == 7 || i % 32 == 20 ? 40 : 1));
    for (int i = 0; i < 20 * 32; i++) p->weight[i] = (float)random_normal(3, 1, (uint64_t)i);
}

static double proxy(struct backend *backend, struct quantize_method method, const char *name, double *alpha)
{
    struct planted p;
    struct statistics_collector collector;
    struct quantized_layer layer = {0};
    plant(&p);
    const struct statistics *inputs = fixture_collect(&collector, backend, 7, p.x, 64, 32);
    const struct quantize_linear linear = {name, matrix_of(p.weight, 20, 32, 4)};
    fixture_quantize(backend, &method, &linear, 1, inputs, &layer);
    const double found = layer.proxy_error;
    if (alpha != NULL) *alpha = layer.alpha;
    quantized_layer_reset(&layer);
    statistics_reset(&collector);
    return found;
}

static void test_scales_help_where_few_inputs_are_large(void **state)
{
    double alpha;
    struct quantize_method unscaled = awq_of(3, 16, false);
    unscaled.awq.grid_points = 1;
    const double without = proxy(*state, unscaled, "layer", &alpha);
    assert_true(alpha == 0);
    const double with = proxy(*state, awq_of(3, 16, false), "layer", &alpha);
    assert_true(alpha > 0 && with < without / 4);
}

static void test_queries_and_keys_are_not_clipped(void **state)
{
    const double without = proxy(*state, awq_of(3, 16, false), "layer", NULL);
    assert_true(proxy(*state, awq_of(3, 16, true), "layer", NULL) < without);
    assert_true(proxy(*state, awq_of(3, 16, true), "model.layers.0.self_attn.q_proj.weight", NULL) == without);
    assert_true(proxy(*state, awq_of(3, 16, true), "attention.query_key_value.weight", NULL) == without);
}

static void test_a_symmetric_grid_is_one_without_zero_points(void **state)
{
    struct quantize_method method = awq_of(4, 16, true);
    struct planted p;
    struct statistics_collector collector;
    struct quantized_layer layer = {0};
    plant(&p);
    const struct statistics *inputs = fixture_collect(&collector, *state, quantizer_awq.needs, p.x, 64, 32);
    const struct quantize_linear linear = {"layer", matrix_of(p.weight, 20, 32, 4)};
    method.awq.sym = true;
    fixture_quantize(*state, &method, &linear, 1, inputs, &layer);
    for (int64_t i = 0; i < 40; i++) assert_int_equal(layer.zeros[i], 8);
    for (int64_t i = 0; i < 20 * 32; i++) assert_in_range(layer.codes[i], 1, 15);
    assert_int_equal(quantized_layer_bits(&layer), 20 * 32 * 4 + 40 * 16 + 32 * 16);
    quantized_layer_reset(&layer);
    statistics_reset(&collector);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_scales_codes_and_clipping),
        cmocka_unit_test(test_scales_help_where_few_inputs_are_large),
        cmocka_unit_test(test_queries_and_keys_are_not_clipped),
        cmocka_unit_test(test_a_symmetric_grid_is_one_without_zero_points),
    };
    return cmocka_run_group_tests_name("awq", tests, fixture_setup, fixture_teardown);
}
