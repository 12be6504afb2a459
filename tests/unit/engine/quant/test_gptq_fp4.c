/* GPTQ with the codes of MXFP4 and NVFP4 against the original derivation (oracle.h), column by column in double; on
 * linears that share an input, and where the inputs teach nothing. */
#include "oracle.h"
#include "quantizer_fixture.h"

enum { ROWS = 24, COLUMNS = 200, TOKENS = 300 }; /* two blocks of columns, a short last group */

static const double magnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

/* E2M1's nearest, of ties the even code. */
static double nearest(double x)
{
    int best = 0;
    for (int i = 1; i < 8; i++) {
        const double before = fabs(fabs(x) - magnitudes[best]), now = fabs(fabs(x) - magnitudes[i]);
        if (now < before || (now == before && i % 2 == 0)) best = i;
    }
    return x < 0 ? -magnitudes[best] : magnitudes[best];
}

static double scale_of(bool nv, double most, double factor)
{
    if (!nv) return ldexp(1, most > 0 ? ilogb(most) - 2 : -127);
    const double x = most / 6 / factor, step = x < 0x1p-6 ? 0x1p-9 : ldexp(1, ilogb(x) - 3);
    return (double)(float)(fmin(rint(x / step) * step, 448) * factor);
}

/* GPTQ on `o` in visiting order; what is left of a row is quantized with scales from where its block of 128 began. */
static void gptq(const struct oracle_case *c, struct oracle *o, bool nv)
{
    const int64_t n = c->columns, g = c->group_size;
    double diagonal[ORACLE_MAXIMUM], mean = 0, most = 0;
    int32_t order[ORACLE_MAXIMUM], run_group[ORACLE_MAXIMUM];
    double *damped = calloc((size_t)(n * n), sizeof(double)), *inverse = calloc((size_t)(n * n), sizeof(double));
    double *work = calloc((size_t)(c->rows * n), sizeof(double)), *seen = calloc((size_t)(c->rows * n), sizeof(double));
    bool dead[ORACLE_MAXIMUM];
    for (int64_t j = 0; j < n; j++) {
        dead[j] = o->hessian[j * n + j] == 0;
        diagonal[j] = dead[j] ? 1 : o->hessian[j * n + j];
        mean += diagonal[j] / (double)n;
    }
    oracle_order(c, diagonal, order, run_group);
    memcpy(damped, o->hessian, (size_t)(n * n) * sizeof(double));
    for (int64_t j = 0; j < n; j++) damped[j * n + j] = diagonal[j] + c->damp * mean;
    oracle_invert(damped, inverse, n);
    for (int64_t i = 0; i < c->rows * n; i++) {
        work[i] = dead[i % n] ? 0 : (double)o->weight[i];
        most = fmax(most, fabs((double)o->weight[i]));
    }
    const double factor = (double)(float)(most / 2688);
    for (int64_t p = 0; p < n; p++) {
        const int32_t j = order[p];
        if (p % 128 == 0) memcpy(seen, work, (size_t)(c->rows * n) * sizeof(double));
        for (int64_t r = 0; r < c->rows; r++) {
            double *scale = &o->scales[r * oracle_groups(c) + run_group[p / g]];
            if (p % g == 0) {
                double largest = 0;
                for (int64_t q = p; q < p + g && q < n; q++) largest = fmax(largest, fabs(seen[r * n + order[q]]));
                *scale = scale_of(nv, largest, factor);
            }
            const double value = *scale > 0 ? nearest(work[r * n + j] / *scale) * *scale : 0;
            const double error = (work[r * n + j] - value) / inverse[j * n + j];
            o->quantized[r * n + j] = value;
            for (int64_t q = p + 1; q < n; q++) work[r * n + order[q]] -= error * inverse[j * n + order[q]];
        }
        for (int64_t a = p + 1; a < n; a++)
            for (int64_t b = p + 1; b < n; b++)
                inverse[order[a] * n + order[b]] -=
                    inverse[order[a] * n + j] * inverse[j * n + order[b]] / inverse[j * n + j];
    }
    free(damped), free(inverse), free(work), free(seen);
}

static struct quantize_method method_of(const struct oracle_case *c, bool nv)
{
    return (struct quantize_method){.quantizer = QUANTIZER_GPTQ_FP4, .gptq_fp4 = {nv, c->act_group_aware, c->damp}};
}

static struct oracle make(bool nv, bool aware, struct oracle_case *c)
{
    *c = (struct oracle_case){.rows = ROWS,
                              .columns = COLUMNS,
                              .tokens = TOKENS,
                              .group_size = nv ? 16 : 32,
                              .act_group_aware = aware,
                              .damp = aware ? 0.05 : 0.01};
    return oracle_make(c, 5 + (uint64_t)aware);
}

static float *hessian_of(const struct oracle *o)
{
    float *h = calloc(COLUMNS * COLUMNS, sizeof *h);
    for (int i = 0; i < COLUMNS * COLUMNS; i++) h[i] = i % COLUMNS <= i / COLUMNS ? (float)o->hessian[i] : NAN;
    return h;
}

/* Sums of floats may round some codes the other way, and what follows them. */
static void compare(struct backend *backend, bool nv, bool aware)
{
    struct oracle_case c;
    struct oracle o = make(nv, aware, &c);
    const struct quantize_method method = method_of(&c, nv);
    float *weight = malloc(ROWS * COLUMNS * sizeof *weight), *hessian = hessian_of(&o);
    double values[ROWS * COLUMNS];
    struct quantized_layer layer = {0};
    int same = 0, scales = 0;
    memcpy(weight, o.weight, ROWS * COLUMNS * sizeof *weight);
    gptq(&c, &o, nv);
    fixture_quantize(backend, &method, &(struct quantize_linear){"layer", matrix_of(weight, ROWS, COLUMNS, 4)}, 1,
                     &(struct statistics){.hessian = matrix_of(hessian, COLUMNS, COLUMNS, 4)}, &layer);
    const int groups = (int)layer.groups;
    assert_int_equal(groups, oracle_groups(&c));
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        const int code = layer.codes[i];
        const float scale = layer.scales[i / COLUMNS * groups + i % COLUMNS / (int)c.group_size];
        values[i] = (double)weight[i];
        assert_true(weight[i] == (float)((code > 7 ? -1 : 1) * magnitudes[code % 8]) * scale);
        same += fabs(values[i] - o.quantized[i]) <= 1e-6 * fabs(values[i]);
    }
    for (int i = 0; i < ROWS * groups; i++) scales += (double)layer.scales[i] == o.scales[i];
    const double proxy = oracle_proxy(&c, &o, o.quantized), own = oracle_proxy(&c, &o, values);
    if (same < ROWS * COLUMNS * 98 / 100 || scales < ROWS * groups * 98 / 100 || fabs(proxy - own) > 2e-2 * proxy)
        fail_msg("nv %d, aware %d: %d of %d values, %d of %d scales equal, proxy %g, expected %g", nv, aware, same,
                 ROWS * COLUMNS, scales, ROWS * groups, own, proxy);
    assert_int_equal(quantized_layer_bits(&layer), ROWS * COLUMNS * 4 + ROWS * groups * 8 + (nv ? 32 : 0));
    quantized_layer_reset(&layer);
    free(weight), free(hessian);
    oracle_free(&o);
}

static void test_matches_the_derivation(void **state)
{
    for (int i = 0; i < 4; i++) compare(*state, i % 2 != 0, i / 2 != 0);
}

/* NVFP4's factor is of a linear and not of the stack: each is what it is alone. */
static void test_stacked_linears_equal_separate_ones(void **state)
{
    struct oracle_case c;
    struct oracle o = make(true, true, &c);
    const struct quantize_method method = method_of(&c, true);
    const int64_t half = ROWS / 2 * COLUMNS;
    float *together = malloc(2 * (size_t)half * sizeof(float)), *apart = malloc(2 * (size_t)half * sizeof(float));
    float *hessian = hessian_of(&o);
    const struct statistics inputs = {.hessian = matrix_of(hessian, COLUMNS, COLUMNS, 4)};
    struct quantize_linear linears[2];
    struct quantized_layer layers[2] = {0}, layer = {0};
    for (int64_t i = 0; i < 2 * half; i++) together[i] = apart[i] = o.weight[i] * (i < half ? 1 : 77);
    for (int i = 0; i < 2; i++)
        linears[i] = (struct quantize_linear){"q", matrix_of(together + i * half, ROWS / 2, COLUMNS, 4)};
    fixture_quantize(*state, &method, linears, 2, &inputs, layers);
    for (int i = 0; i < 2; i++) {
        linears[0].weight = matrix_of(apart + i * half, ROWS / 2, COLUMNS, 4);
        fixture_quantize(*state, &method, linears, 1, &inputs, &layer);
        assert_true(layer.coding.factor == layers[i].coding.factor);
        quantized_layer_reset(&layer);
        quantized_layer_reset(&layers[i]);
    }
    assert_memory_equal(together, apart, 2 * (size_t)half * sizeof(float));
    free(together), free(apart), free(hessian);
    oracle_free(&o);
}

/* Less error than rounding to nearest, which it becomes where all inputs are zero. */
static void test_silent_inputs_are_rounded_to_nearest(void **state)
{
    for (int nv = 0; nv < 2; nv++) {
        struct oracle_case c;
        struct oracle o = make(nv != 0, true, &c);
        const struct quantize_method method = method_of(&c, nv != 0);
        const struct quantize_method rounding = {.quantizer = nv != 0 ? QUANTIZER_NVFP4 : QUANTIZER_MXFP4};
        const size_t bytes = ROWS * COLUMNS * sizeof(float);
        float *weight[3] = {malloc(bytes), malloc(bytes), malloc(bytes)};
        float *hessian = hessian_of(&o), *zeros = calloc(COLUMNS * COLUMNS, sizeof *zeros);
        const struct statistics inputs = {.hessian = matrix_of(hessian, COLUMNS, COLUMNS, 4)},
                                silent = {.hessian = matrix_of(zeros, COLUMNS, COLUMNS, 4)};
        struct quantized_layer layers[3] = {0};
        for (int i = 0; i < 3; i++) {
            const struct quantize_linear linear = {"layer", matrix_of(weight[i], ROWS, COLUMNS, 4)};
            memcpy(weight[i], o.weight, bytes);
            fixture_quantize(*state, i == 0 ? &rounding : &method, &linear, 1, i == 2 ? &silent : &inputs, &layers[i]);
        }
        assert_true(layers[1].proxy_error < 0.9 * layers[0].proxy_error);
        assert_int_equal(layers[1].degraded, DEGRADED_NO);
        assert_int_equal(layers[2].degraded, DEGRADED_SILENT);
        assert_memory_equal(weight[2], weight[0], bytes);
        for (int i = 0; i < 3; i++) quantized_layer_reset(&layers[i]), free(weight[i]);
        free(hessian), free(zeros);
        oracle_free(&o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matches_the_derivation),
        cmocka_unit_test(test_stacked_linears_equal_separate_ones),
        cmocka_unit_test(test_silent_inputs_are_rounded_to_nearest),
    };
    const int reference =
        cmocka_run_group_tests_name("gptq_fp4, plain loops", tests, fixture_setup_reference, fixture_teardown);
    return reference + cmocka_run_group_tests_name("gptq_fp4", tests, fixture_setup, fixture_teardown);
}
