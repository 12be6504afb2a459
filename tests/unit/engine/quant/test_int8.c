/* LLM.int8() and SmoothQuant: the reference's codes and outputs, the definitions in double for every parameter, and
 * treated inputs in a walk. */
#include "base/random.h"
#include "quant/activation.h"
#include "quantizer_fixture.h"

enum { ROWS = 20, COLUMNS = 96, TOKENS = 24 };

/* y = x Wᵀ as the quantized model has it, in one sequence. */
static void forward(struct backend *backend, const struct quantized_layer *layer, float *weight, float *x,
                    bool smoothed, float *y)
{
    struct error error;
    struct activations activations;
    const int64_t starts[] = {0, TOKENS};
    const struct batch batch = {.tokens = TOKENS, .sequences = 1, .longest = TOKENS, .starts = starts};
    const struct matrix parameter = matrix_of(weight, ROWS, COLUMNS, 4);
    const struct activation treatment = {.bits = layer->input_bits,
                                         .threshold = layer->input_threshold,
                                         .exact = layer->original != NULL,
                                         .smoothing = smoothed ? layer->column_scales : NULL};
    struct matrix original = matrix_of(NULL, ROWS, COLUMNS, 4);
    if (layer->original != NULL) {
        assert_int_equal(backend->ops->allocate(backend, ROWS * COLUMNS, "a copy", &original.data, &error), STATUS_OK);
        backend->ops->upload(backend, original, layer->original, DTYPE_F32);
    }
    assert_int_equal(activations_init(&activations, backend, TOKENS, COLUMNS, &error), STATUS_OK);
    assert_int_equal(activations_set(&activations, 0, &treatment, COLUMNS, original, &error), STATUS_OK);
    const struct pass pass = {
        .backend = backend, .batch = &batch, .parameters = &parameter, .product = &activations.product};
    linear_forward_product(&pass, &(struct step){.op = &op_linear}, 0, matrix_of(x, TOKENS, COLUMNS, 4),
                           matrix_of(y, TOKENS, ROWS, 4));
    activations_reset(&activations);
}

static void compare(const float *found, const double *expected, double tolerance, const char *what)
{
    double error = 0, norm = 0;
    for (int i = 0; i < TOKENS * ROWS; i++) {
        error += ((double)found[i] - expected[i]) * ((double)found[i] - expected[i]);
        norm += expected[i] * expected[i];
    }
    if (!(sqrt(error) <= tolerance * sqrt(norm))) fail_msg("%s: %g of the outputs' norm off", what, sqrt(error / norm));
}

static void check_variant(struct backend *backend, const char *file, int variant, const char *outputs)
{
    const struct quantize_method method = {.quantizer = QUANTIZER_LLM_INT8, .llm_int8 = {6, variant}};
    float *weight = shared_tensor(file, "W", NULL), *x = shared_tensor(file, "X", NULL), y[TOKENS * ROWS];
    int8_t *codes = shared_tensor(file, "Wq", NULL);
    double *expected = shared_tensor(file, outputs, NULL), *maxima = shared_tensor(file, "W_absmax", NULL);
    struct quantized_layer layer = {0};
    const struct quantize_linear linear = {"layer", matrix_of(weight, ROWS, COLUMNS, 4)};
    fixture_quantize(backend, &method, &linear, 1, NULL, &layer);
    for (int i = 0; i < ROWS * COLUMNS; i++) assert_int_equal(layer.codes[i] - layer.zeros[i / COLUMNS], codes[i]);
    for (int i = 0; i < ROWS; i++) assert_true(fabs((double)layer.scales[i] * 127 - maxima[i]) < 1e-6);
    forward(backend, &layer, weight, x, false, y);
    compare(y, expected, 1e-5, outputs);
    quantized_layer_reset(&layer);
    void *blocks[] = {weight, x, codes, expected, maxima};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) free(blocks[i]);
}

static void test_llm_int8_reference_in_both_variants(void **state)
{
    char file[512];
    (void)shared_require("reference/quant/llm_int8.safetensors", file, sizeof file);
    check_variant(*state, file, 0, "bnb.Y");
    check_variant(*state, file, 1, "paper.Y");
}

static void test_smoothquant_reference(void **state)
{
    char file[512];
    (void)shared_require("reference/quant/smoothquant.safetensors", file, sizeof file);
    const struct quantize_method method = {.quantizer = QUANTIZER_SMOOTHQUANT, .smoothquant = {8, 8, 0.5, false}};
    float *weight = shared_tensor(file, "W", NULL), *x = shared_tensor(file, "X", NULL), y[TOKENS * ROWS];
    int8_t *codes = shared_tensor(file, "Wq", NULL);
    double *expected = shared_tensor(file, "Y", NULL), *scales = shared_tensor(file, "s", NULL);
    struct statistics_collector collector;
    struct quantized_layer layer = {0};
    const struct quantize_linear linear = {"layer", matrix_of(weight, ROWS, COLUMNS, 4)};
    int wrong = 0;
    const struct statistics *inputs =
        fixture_collect(&collector, *state, quantizer_smoothquant.needs, x, TOKENS, COLUMNS);
    fixture_quantize(*state, &method, &linear, 1, inputs, &layer);
    for (int i = 0; i < COLUMNS; i++) assert_true(fabs((double)layer.column_scales[i] - scales[i]) < 1e-5 * scales[i]);
    for (int i = 0; i < ROWS * COLUMNS; i++) wrong += layer.codes[i] - layer.zeros[i / COLUMNS] != codes[i];
    assert_in_range(wrong, 0, 2);
    forward(*state, &layer, weight, x, true, y);
    compare(y, expected, 2e-4, "Y");
    quantized_layer_reset(&layer);
    statistics_reset(&collector);
    void *blocks[] = {weight, x, codes, expected, scales};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) free(blocks[i]);
}

/* ---- the definitions, written out in double ---- */

/* x rounded to symmetric codes of its own largest magnitude, of what `counts`; what does not count may leave the codes'
 * range. */
static void round_absmax(const double *x, const bool *counts, int bits, double *out)
{
    const double top = pow(2, bits - 1) - 1;
    double most = 0;
    for (int c = 0; c < COLUMNS; c++)
        if (counts == NULL || counts[c]) most = fmax(most, fabs(x[c]));
    for (int c = 0; c < COLUMNS; c++) out[c] = most > 0 ? rint(x[c] * top / most) * most / top : 0;
}

static double dot(const double *a, const double *b)
{
    double sum = 0;
    for (int c = 0; c < COLUMNS; c++) sum += a[c] * b[c];
    return sum;
}

struct definition {
    float x[TOKENS * COLUMNS], weight[ROWS * COLUMNS], other[ROWS * COLUMNS];
    double scale[COLUMNS], values[ROWS * COLUMNS], y[TOKENS * ROWS];
};

/* Columns of very different sizes, differently in the two weights and in the inputs. */
static void define(struct definition *d)
{
    for (int i = 0; i < TOKENS * COLUMNS; i++)
        d->x[i] = (float)(exp(1.3 * random_normal(31, 0, (uint64_t)(i % COLUMNS))) * random_normal(31, 1, (uint64_t)i));
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        d->weight[i] =
            (float)(0.1 * exp(0.7 * random_normal(31, 2, (uint64_t)(i % COLUMNS))) * random_normal(31, 3, (uint64_t)i));
        d->other[i] =
            (float)(0.1 * exp(0.7 * random_normal(31, 4, (uint64_t)(i % COLUMNS))) * random_normal(31, 5, (uint64_t)i));
    }
}

/* y of one threshold: columns with an entry that reaches it multiply the dequantized weights (bnb) or the original ones
 * (paper). */
static void define_llm_int8(struct definition *d, double threshold, bool paper)
{
    bool leaves[COLUMNS] = {false};
    for (int i = 0; i < TOKENS * COLUMNS; i++)
        if (threshold > 0 && fabs((double)d->x[i]) >= threshold) leaves[i % COLUMNS] = true;
    for (int r = 0; r < ROWS; r++) {
        double row[COLUMNS];
        for (int c = 0; c < COLUMNS; c++) row[c] = (double)d->weight[r * COLUMNS + c];
        round_absmax(row, NULL, 8, d->values + r * COLUMNS);
    }
    for (int t = 0; t < TOKENS; t++) {
        double x[COLUMNS], rounded[COLUMNS], outliers[COLUMNS];
        bool counts[COLUMNS];
        for (int c = 0; c < COLUMNS; c++) {
            x[c] = (double)d->x[t * COLUMNS + c];
            counts[c] = paper ? !leaves[c] : !(threshold > 0 && fabs(x[c]) >= threshold);
            outliers[c] = leaves[c] ? x[c] : 0;
        }
        round_absmax(x, counts, 8, rounded);
        for (int c = 0; c < COLUMNS; c++)
            if (leaves[c]) rounded[c] = 0;
        for (int r = 0; r < ROWS; r++) {
            double whole[COLUMNS];
            for (int c = 0; c < COLUMNS; c++)
                whole[c] = paper ? (double)d->weight[r * COLUMNS + c] : d->values[r * COLUMNS + c];
            d->y[t * ROWS + r] = dot(rounded, d->values + r * COLUMNS) + dot(outliers, whole);
        }
    }
}

static void test_llm_int8_is_its_definition_at_any_threshold(void **state)
{
    static struct definition d;
    static const double thresholds[] = {6, 0, 2.5, 1e6};
    for (int trial = 0; trial < 8; trial++) {
        const struct quantize_method method = {.quantizer = QUANTIZER_LLM_INT8,
                                               .llm_int8 = {thresholds[trial / 2], trial % 2}};
        struct quantized_layer layer = {0};
        float y[TOKENS * ROWS];
        define(&d);
        define_llm_int8(&d, thresholds[trial / 2], trial % 2 == 1);
        const struct quantize_linear linear = {"layer", matrix_of(d.weight, ROWS, COLUMNS, 4)};
        fixture_quantize(*state, &method, &linear, 1, NULL, &layer);
        for (int i = 0; i < ROWS * COLUMNS; i++) assert_true(fabs((double)d.weight[i] - d.values[i]) < 1e-6);
        forward(*state, &layer, d.weight, d.x, false, y);
        compare(y, d.y, 2e-4, trial % 2 == 1 ? "paper" : "bnb"); /* a code on a tie may go the other way */
        /* 8 bits a weight and a float a row */
        assert_int_equal(quantized_layer_bits(&layer), ROWS * COLUMNS * 8 + ROWS * 32);
        quantized_layer_reset(&layer);
    }
}

/* s of one exponent; the weights that share the inputs share it. */
static void define_scales(struct definition *d, double alpha, bool both)
{
    for (int c = 0; c < COLUMNS; c++) {
        double input = 0, weight = 1e-5;
        for (int t = 0; t < TOKENS; t++) input = fmax(input, fabs((double)d->x[t * COLUMNS + c]));
        for (int r = 0; r < ROWS; r++) weight = fmax(weight, fabs((double)d->weight[r * COLUMNS + c]));
        for (int r = 0; r < ROWS && both; r++) weight = fmax(weight, fabs((double)d->other[r * COLUMNS + c]));
        d->scale[c] = (double)(float)fmax(pow(input, alpha) / pow(weight, 1 - alpha), 1e-5);
    }
}

/* Values (smoothing taken out again) and outputs of one weight under the scales. */
static void define_smoothed(struct definition *d, const float *weight, int bits, int activation_bits)
{
    for (int r = 0; r < ROWS; r++) {
        double row[COLUMNS];
        for (int c = 0; c < COLUMNS; c++) row[c] = (double)weight[r * COLUMNS + c] * d->scale[c];
        round_absmax(row, NULL, bits, d->values + r * COLUMNS);
        for (int c = 0; c < COLUMNS; c++) d->values[r * COLUMNS + c] /= d->scale[c];
    }
    for (int t = 0; t < TOKENS; t++) {
        double x[COLUMNS], rounded[COLUMNS];
        for (int c = 0; c < COLUMNS; c++) x[c] = (double)d->x[t * COLUMNS + c] / d->scale[c];
        round_absmax(x, NULL, activation_bits, rounded);
        for (int c = 0; c < COLUMNS; c++) rounded[c] *= d->scale[c];
        for (int r = 0; r < ROWS; r++) d->y[t * ROWS + r] = dot(rounded, d->values + r * COLUMNS);
    }
}

/* The squared error of both weights' outputs over all tokens. */
static double define_error(struct definition *d, int bits, int activation_bits)
{
    const float *const weights[] = {d->weight, d->other};
    double sum = 0;
    for (int w = 0; w < 2; w++) {
        define_smoothed(d, weights[w], bits, activation_bits);
        for (int t = 0; t < TOKENS; t++)
            for (int r = 0; r < ROWS; r++) {
                double exact = 0;
                for (int c = 0; c < COLUMNS; c++)
                    exact += (double)d->x[t * COLUMNS + c] * (double)weights[w][r * COLUMNS + c];
                sum += (exact - d->y[t * ROWS + r]) * (exact - d->y[t * ROWS + r]);
            }
    }
    return sum;
}

static double define_alpha(struct definition *d, int bits, int activation_bits)
{
    double best = -1, least = INFINITY;
    for (int i = 0; i <= 20; i++) {
        define_scales(d, i / 20.0, true);
        const double found = define_error(d, bits, activation_bits);
        if (found >= least) continue;
        least = found;
        best = i / 20.0;
    }
    return best;
}

static void check_smoothquant(struct backend *backend, struct smoothquant_params params)
{
    static struct definition d;
    const struct quantize_method method = {.quantizer = QUANTIZER_SMOOTHQUANT, .smoothquant = params};
    const int bits = (int)params.bits, activation_bits = (int)params.activation_bits;
    struct statistics_collector collector;
    struct quantized_layer layers[2] = {0};
    define(&d);
    const double alpha = params.search ? define_alpha(&d, bits, activation_bits) : params.alpha;
    define_scales(&d, alpha, false);
    const double alone = d.scale[0] + d.scale[1] + d.scale[2];
    define_scales(&d, alpha, true);
    if (alpha < 1) assert_true(alone != d.scale[0] + d.scale[1] + d.scale[2]); /* the second weight has a say */
    define_smoothed(&d, d.weight, bits, activation_bits);
    const struct statistics *inputs =
        fixture_collect(&collector, backend, quantizer_smoothquant.needs, d.x, TOKENS, COLUMNS);
    const struct quantize_linear linears[] = {{"first", matrix_of(d.weight, ROWS, COLUMNS, 4)},
                                              {"second", matrix_of(d.other, ROWS, COLUMNS, 4)}};
    fixture_quantize(backend, &method, linears, 2, inputs, layers);
    int wrong = 0;
    float y[TOKENS * ROWS];
    if (layers[0].alpha != alpha || layers[1].alpha != alpha)
        fail_msg("exponent %g, expected %g", layers[0].alpha, alpha);
    assert_int_equal(layers[0].input_bits, activation_bits);
    for (int c = 0; c < COLUMNS; c++)
        assert_true(fabs((double)layers[0].column_scales[c] - d.scale[c]) <= 1e-6 * d.scale[c]);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        wrong += fabs((double)d.weight[i] - d.values[i]) > 1e-5 * fabs(d.values[i]);
    assert_in_range(wrong, 0, 4);
    forward(backend, &layers[0], d.weight, d.x, true, y);
    compare(y, d.y, activation_bits == 4 ? 5e-3 : 5e-4, "outputs");
    assert_int_equal(quantized_layer_bits(&layers[0]), ROWS * COLUMNS * bits + ROWS * 16 + COLUMNS * 16);
    for (int i = 0; i < 2; i++) quantized_layer_reset(&layers[i]);
    statistics_reset(&collector);
}

static void test_smoothquant_is_its_definition_in_every_parameter(void **state)
{
    static const struct smoothquant_params cases[] = {
        {8, 8, 0.3, false}, {8, 8, 0.7, false}, {4, 8, 0.5, false}, {8, 4, 0.6, false}, {3, 4, 0, false},
        {4, 4, 1, false},   {8, 8, 0.5, true},  {4, 8, 0.5, true},  {8, 4, 0.1, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) check_smoothquant(*state, cases[i]);
}

struct planted {
    float x[TOKENS * COLUMNS], weight[ROWS * COLUMNS];
};

/* Ordinary inputs, but for two channels twenty times as large. */
static void plant(struct planted *p)
{
    for (int i = 0; i < TOKENS * COLUMNS; i++)
        p->x[i] = (float)(random_normal(1, 0, (uint64_t)i) * (i % COLUMNS == 11 || i % COLUMNS == 60 ? 20 : 1));
    for (int i = 0; i < ROWS * COLUMNS; i++) p->weight[i] = (float)(0.1 * random_normal(1, 1, (uint64_t)i));
}

/* The relative error of the outputs. */
static double output_error(struct backend *backend, struct quantize_method method)
{
    struct planted p;
    struct statistics_collector collector;
    struct quantized_layer layer = {0};
    float y[TOKENS * ROWS];
    double expected[TOKENS * ROWS] = {0}, error = 0, norm = 0;
    plant(&p);
    for (int t = 0; t < TOKENS; t++)
        for (int r = 0; r < ROWS; r++)
            for (int c = 0; c < COLUMNS; c++)
                expected[t * ROWS + r] += (double)p.x[t * COLUMNS + c] * (double)p.weight[r * COLUMNS + c];
    const struct quantize_linear linear = {"layer", matrix_of(p.weight, ROWS, COLUMNS, 4)};
    const struct statistics *inputs = fixture_collect(&collector, backend, 7, p.x, TOKENS, COLUMNS);
    fixture_quantize(backend, &method, &linear, 1, inputs, &layer);
    forward(backend, &layer, p.weight, p.x, method.quantizer == QUANTIZER_SMOOTHQUANT, y);
    for (int i = 0; i < TOKENS * ROWS; i++) {
        error += ((double)y[i] - expected[i]) * ((double)y[i] - expected[i]);
        norm += expected[i] * expected[i];
    }
    quantized_layer_reset(&layer);
    statistics_reset(&collector);
    return sqrt(error / norm);
}

static void test_decomposition_closes_the_gap_that_outliers_make(void **state)
{
    const double plain =
        output_error(*state, (struct quantize_method){.quantizer = QUANTIZER_LLM_INT8, .llm_int8 = {0, 0}});
    const double bnb =
        output_error(*state, (struct quantize_method){.quantizer = QUANTIZER_LLM_INT8, .llm_int8 = {6, 0}});
    const double paper =
        output_error(*state, (struct quantize_method){.quantizer = QUANTIZER_LLM_INT8, .llm_int8 = {6, 1}});
    if (!(bnb < plain / 2 && paper < bnb)) fail_msg("plain %g, bnb %g, paper %g", plain, bnb, paper);
}

static void test_smoothing_halves_the_error_and_a_search_does_no_worse(void **state)
{
    struct quantize_method method = {.quantizer = QUANTIZER_SMOOTHQUANT, .smoothquant = {8, 8, 0, false}};
    const double none = output_error(*state, method);
    method.smoothquant.alpha = 0.5;
    const double half = output_error(*state, method);
    method.smoothquant.search = true;
    const double best = output_error(*state, method);
    if (!(half < none / 2 && best <= half)) fail_msg("none %g, half %g, search %g", none, half, best);
}

/* Worked out by hand: 4 bits have steps of max / 7; a spared column is left alone and does not count for the
 * maximum. */
static void test_rounds_each_token_by_its_own_step(void **state)
{
    float x[] = {7, -3.4f, 0.49f, 14, 5, 0, 0, 100}, to[8];
    const float expected[] = {8, -4, 0, 14, 5, 0, 0, 100};
    const uint8_t spared[] = {0, 0, 0, 1};
    struct backend *backend = *state;
    struct round_rows_args args = {.bits = 4, .x = matrix_of(x, 1, 4, 4), .to = matrix_of(to, 1, 4, 4)};
    backend->ops->round_rows(backend, &args);
    for (int i = 0; i < 4; i++) assert_true(to[i] == expected[i]); /* 7 / 2 is a tie: to the even code */
    args =
        (struct round_rows_args){.bits = 4, .spared = spared, .x = matrix_of(x, 2, 4, 4), .to = matrix_of(to, 2, 4, 4)};
    backend->ops->round_rows(backend, &args);
    assert_true(to[0] == 7 && to[1] == -3 && to[2] == 0 && to[3] == 14);
    assert_true(fabsf(to[4] - 5) < 1e-6f && to[5] == 0 && to[7] == 100);
    float zeros[4] = {0};
    args = (struct round_rows_args){.bits = 4, .x = matrix_of(zeros, 1, 4, 4), .to = matrix_of(to, 1, 4, 4)};
    backend->ops->round_rows(backend, &args);
    for (int i = 0; i < 4; i++) assert_true(to[i] == 0);
}

/* An input that is zero while calibrating is not made large later. */
static void test_inputs_that_calibration_did_not_see_are_not_scaled(void **state)
{
    struct definition d;
    struct statistics_collector collector;
    struct quantized_layer layer = {0};
    const struct quantize_method method = {.quantizer = QUANTIZER_SMOOTHQUANT, .smoothquant = {8, 8, 0.5, false}};
    for (int i = 0; i < TOKENS * COLUMNS; i++) d.x[i] = i % COLUMNS == 7 ? 0 : (float)random_normal(31, 0, (uint64_t)i);
    for (int i = 0; i < ROWS * COLUMNS; i++) d.weight[i] = (float)random_normal(31, 1, (uint64_t)i);
    const struct quantize_linear linear = {"layer", matrix_of(d.weight, ROWS, COLUMNS, 4)};
    const struct statistics *inputs =
        fixture_collect(&collector, *state, quantizer_smoothquant.needs, d.x, TOKENS, COLUMNS);
    fixture_quantize(*state, &method, &linear, 1, inputs, &layer);
    for (int c = 0; c < COLUMNS; c++) assert_true((layer.column_scales[c] == 1) == (c == 7));
    quantized_layer_reset(&layer);
    statistics_reset(&collector);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llm_int8_reference_in_both_variants),
        cmocka_unit_test(test_smoothquant_reference),
        cmocka_unit_test(test_llm_int8_is_its_definition_at_any_threshold),
        cmocka_unit_test(test_smoothquant_is_its_definition_in_every_parameter),
        cmocka_unit_test(test_decomposition_closes_the_gap_that_outliers_make),
        cmocka_unit_test(test_smoothing_halves_the_error_and_a_search_does_no_worse),
        cmocka_unit_test(test_rounds_each_token_by_its_own_step),
        cmocka_unit_test(test_inputs_that_calibration_did_not_see_are_not_scaled),
    };
    return cmocka_run_group_tests_name("int8", tests, fixture_setup, fixture_teardown);
}
