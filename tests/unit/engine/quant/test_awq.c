/* AWQ: the reference's two linears (scales, codes, clipping), an oracle in double for every parameter, and what the
 * search must and must not do. */
#include "base/random.h"
#include "quantizer_fixture.h"

enum { TOKENS = 96, COLUMNS = 128 };

static struct quantize_method awq_of(int bits, int group, bool clip)
{
    return (struct quantize_method){
        .quantizer = QUANTIZER_AWQ,
        .awq = {.bits = bits, .group_size = group, .grid_points = 20, .sym = false, .clip = clip}};
}

static void *field(const char *file, const char *name, const char *what)
{
    char key[64];
    (void)snprintf(key, sizeof key, "%s.%s", name, what);
    return shared_tensor(file, key, NULL);
}

/* All but `share` of the values equal. A weight on a rounding tie may go the other way in float; a group clamped on
 * both sides has such ties at its ends, which can decide between two magnitudes: then the whole group differs. */
static void compare(const float *found, const double *expected, int rows, double share, const char *what)
{
    int wrong = 0;
    for (int i = 0; i < rows * COLUMNS; i++) wrong += fabs((double)found[i] - expected[i]) > 1e-5;
    if (wrong > share * rows * COLUMNS) fail_msg("%s: %d of %d values differ", what, wrong, rows * COLUMNS);
}

/* W diag(s) clamped to the reference's magnitudes, on the reference's grid, over s. */
static void expect_clipped(const float *weight, const double *scale, const double *most, int group, int bits,
                           double *out)
{
    const int groups = COLUMNS / group;
    for (int r = 0; r < 24; r++)
        for (int g = 0; g < groups; g++) {
            double lo = 0, hi = 0, w[COLUMNS];
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
    for (int c = 0; c < COLUMNS; c++)
        assert_true(fabs((double)layers[0].column_scales[c] - scale[c]) < 1e-5 * scale[c]);
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
    for (int i = 0; i < 64 * 32; i++)
        p->x[i] = (float)(random_normal(3, 0, (uint64_t)i) * (i % 32 == 7 || i % 32 == 20 ? 40 : 1));
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
    static const char *const spared[] = {"model.layers.0.self_attn.q_proj.weight",
                                         "model.layers.0.self_attn.k_proj.weight",
                                         "attention.query_key_value.weight",
                                         "attention.query.weight",
                                         "attention.key.weight",
                                         "h.0.attn.c_attn.weight",
                                         "mixer.Wqkv.weight"};
    static const char *const clipped[] = {"model.layers.0.self_attn.v_proj.weight",
                                          "model.layers.0.self_attn.o_proj.weight",
                                          "model.layers.0.mlp.gate_proj.weight", "model.layers.0.mlp.up_proj.weight",
                                          "model.layers.0.mlp.down_proj.weight"};
    for (size_t i = 0; i < sizeof spared / sizeof spared[0]; i++)
        if (proxy(*state, awq_of(3, 16, true), spared[i], NULL) != without) fail_msg("%s is clipped", spared[i]);
    for (size_t i = 0; i < sizeof clipped / sizeof clipped[0]; i++)
        if (!(proxy(*state, awq_of(3, 16, true), clipped[i], NULL) < without))
            fail_msg("%s is not clipped", clipped[i]);
}

/* Inputs of one size: every exponent gives the same scales, and the first is taken. */
static void test_of_equal_exponents_the_first_wins(void **state)
{
    struct planted p;
    struct statistics_collector collector;
    struct quantized_layer layer = {0};
    plant(&p);
    for (int i = 0; i < 64 * 32; i++) p.x[i] = random_below(3, 5, (uint64_t)i, 2) != 0 ? 1 : -1;
    const struct statistics *inputs = fixture_collect(&collector, *state, quantizer_awq.needs, p.x, 64, 32);
    const struct quantize_linear linear = {"layer", matrix_of(p.weight, 20, 32, 4)};
    const struct quantize_method method = awq_of(3, 16, false);
    fixture_quantize(*state, &method, &linear, 1, inputs, &layer);
    assert_true(layer.alpha == 0);
    quantized_layer_reset(&layer);
    statistics_reset(&collector);
}

/* ---- a second AWQ, in double: every product written out ---- */

enum { N = 40, SEEN = 60, LINEARS = 2 };
static const int64_t rows_of[LINEARS] = {18, 26};

struct second {
    struct awq_params params;
    float x[SEEN * N], weights[LINEARS][26 * N];
    double mean[N], hessian[N][N];
    double scale[N], values[LINEARS][26 * N];
    int codes[LINEARS][26 * N];
    double alpha;
};

/* Inputs of very different sizes, one of them always 0. The linears differ in where their large weights are, and in
 * size. */
static void second_make(struct second *s)
{
    memset(s->mean, 0, sizeof s->mean);
    memset(s->hessian, 0, sizeof s->hessian);
    for (int i = 0; i < SEEN * N; i++)
        s->x[i] = i % N == 11
                      ? 0
                      : (float)(exp(1.2 * random_normal(21, 0, (uint64_t)(i % N))) * random_normal(21, 1, (uint64_t)i));
    for (int l = 0; l < LINEARS; l++)
        for (int i = 0; i < rows_of[l] * N; i++) {
            const double along = exp((l == 0 ? -0.8 : 0) * random_normal(21, 0, (uint64_t)(i % N)));
            s->weights[l][i] = (float)((l == 0 ? 1 : 0.03) * along * random_normal(22, (uint64_t)l, (uint64_t)i));
        }
    for (int t = 0; t < SEEN; t++)
        for (int i = 0; i < N; i++) {
            s->mean[i] += fabs((double)s->x[t * N + i]) / SEEN;
            for (int j = 0; j < N; j++)
                s->hessian[i][j] += 2.0 / SEEN * (double)s->x[t * N + i] * (double)s->x[t * N + j];
        }
}

/* Codes and values of one group of scaled weights, clamped to `most` first. */
static void second_group(const struct second *s, const double *w, int count, double most, int *codes, double *values)
{
    double lo = 0, hi = 0, largest = 0, step, zero;
    const double top = pow(2, (double)s->params.bits) - 1, middle = pow(2, (double)s->params.bits - 1);
    for (int i = 0; i < count; i++) {
        const double v = fmin(fmax(w[i], -most), most);
        lo = fmin(lo, v);
        hi = fmax(hi, v);
        largest = fmax(largest, fabs(v));
    }
    if (s->params.sym) {
        step = largest > 0 ? largest / (middle - 1) : 1;
        zero = middle;
    } else {
        step = fmax(hi - lo, 1e-5) / top;
        zero = fmin(fmax(rint(-lo / step), 0), top);
    }
    for (int i = 0; i < count; i++) {
        const double v = fmin(fmax(w[i], -most), most);
        codes[i] = (int)fmin(fmax(rint(v / step) + zero, 0), top);
        values[i] = (codes[i] - zero) * step;
    }
}

/* The error of one group of a row: d H dᵀ over the group's own columns. */
static double group_error(const struct second *s, const double *scaled, const double *values, int first, int count)
{
    double sum = 0;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < count; j++)
            sum += (scaled[i] - values[i]) / s->scale[first + i] * s->hessian[first + i][first + j] *
                   (scaled[j] - values[j]) / s->scale[first + j];
    return sum;
}

static void second_row(struct second *s, int linear, int row, bool clip)
{
    const int group = s->params.group_size == -1 ? N : (int)s->params.group_size;
    for (int first = 0; first < N; first += group) {
        const int count = first + group < N ? group : N - first, at = row * N + first;
        double w[N], largest = 0, best = INFINITY, least = INFINITY, values[N];
        int codes[N];
        for (int i = 0; i < count; i++) {
            w[i] = (double)s->weights[linear][at + i] * s->scale[first + i];
            largest = fmax(largest, fabs(w[i]));
        }
        for (int step = 0; step < 10 && clip; step++) {
            second_group(s, w, count, largest * (1 - step / 20.0), codes, values);
            const double found = group_error(s, w, values, first, count);
            if (found >= least) continue;
            least = found;
            best = largest * (1 - step / 20.0);
        }
        second_group(s, w, count, best, s->codes[linear] + at, s->values[linear] + at);
        for (int i = 0; i < count; i++) s->values[linear][at + i] /= s->scale[first + i];
    }
}

/* AutoAWQ's w^(1 - alpha) + 1e-4, w the mean over all rows of a weight over the largest of its group. */
static double second_weights(const struct second *s, int column, double alpha)
{
    const int group = s->params.group_size == -1 ? N : (int)s->params.group_size, first = column / group * group;
    double sum = 0;
    int rows = 0;
    for (int l = 0; l < LINEARS; l++)
        for (int r = 0; r < rows_of[l]; r++, rows++) {
            double most = 0;
            for (int c = first; c < first + group && c < N; c++)
                most = fmax(most, fabs((double)s->weights[l][r * N + c]));
            sum += fabs((double)s->weights[l][r * N + column]) / (most + 1e-6);
        }
    return pow(sum / rows, 1 - alpha) + 1e-4;
}

static void second_scales(struct second *s, double alpha)
{
    double most = 0, least = INFINITY;
    for (int i = 0; i < N; i++) {
        s->scale[i] = fmax(pow(s->mean[i], alpha) / (s->params.duo_scaling ? second_weights(s, i, alpha) : 1), 1e-4);
        most = fmax(most, s->scale[i]);
        least = fmin(least, s->scale[i]);
    }
    for (int i = 0; i < N; i++) s->scale[i] = (double)(float)(s->scale[i] / sqrt(most * least));
}

/* Of linears [from, to): the exponent with the least sum of tr(D H Dᵀ). */
static double second_search(struct second *s, int from, int to)
{
    double best = -1, least = INFINITY;
    for (int i = 0; i < s->params.grid_points; i++) {
        const double alpha = (double)i / (double)s->params.grid_points;
        double sum = 0;
        second_scales(s, alpha);
        for (int l = from; l < to; l++)
            for (int r = 0; r < rows_of[l]; r++) {
                double d[N];
                second_row(s, l, r, false);
                for (int c = 0; c < N; c++) d[c] = (double)s->weights[l][r * N + c] - s->values[l][r * N + c];
                for (int a = 0; a < N; a++)
                    for (int b = 0; b < N; b++) sum += d[a] * s->hessian[a][b] * d[b];
            }
        if (sum >= least) continue;
        least = sum;
        best = alpha;
    }
    return best;
}

static void check_second(struct backend *backend, struct awq_params params)
{
    static struct second s;
    struct statistics_collector collector;
    struct quantized_layer layers[LINEARS] = {0};
    const struct quantize_method method = {.quantizer = QUANTIZER_AWQ, .awq = params};
    s.params = params;
    second_make(&s);
    s.alpha = second_search(&s, 0, LINEARS);
    if (params.grid_points > 5 && s.alpha == second_search(&s, 1, 2))
        fail_msg("the second linear alone would take %g too", s.alpha);
    second_scales(&s, s.alpha);
    for (int l = 0; l < LINEARS; l++)
        for (int r = 0; r < rows_of[l]; r++) second_row(&s, l, r, params.clip);
    const struct statistics *inputs = fixture_collect(&collector, backend, quantizer_awq.needs, s.x, SEEN, N);
    const struct quantize_linear linears[LINEARS] = {
        {"mlp.gate_proj.weight", matrix_of(s.weights[0], rows_of[0], N, 4)},
        {"mlp.up_proj.weight", matrix_of(s.weights[1], rows_of[1], N, 4)}};
    fixture_quantize(backend, &method, linears, LINEARS, inputs, layers);
    int wrong = 0, count = 0;
    for (int l = 0; l < LINEARS; l++) {
        if (layers[l].alpha != s.alpha) fail_msg("exponent %g, expected %g", layers[l].alpha, s.alpha);
        for (int c = 0; c < N; c++)
            assert_true(fabs((double)layers[l].column_scales[c] - s.scale[c]) <= 1e-6 * s.scale[c]);
        for (int i = 0; i < rows_of[l] * N; i++) {
            wrong += layers[l].codes[i] != s.codes[l][i];
            wrong += fabs((double)s.weights[l][i] - s.values[l][i]) >
                     1e-5 * (1 + fabs(s.values[l][i])); /* now the quantized one */
        }
        count += 2 * (int)rows_of[l] * N;
        quantized_layer_reset(&layers[l]);
    }
    /* two magnitudes of a group may be as good as each other: then all of its codes differ */
    if (wrong > (params.clip ? 0.05 : 0.002) * count)
        fail_msg("b%d g%d %s clip %d: %d of %d codes and values differ", (int)params.bits, (int)params.group_size,
                 params.sym ? "sym" : "asym", params.clip, wrong, count);
    statistics_reset(&collector);
}

static void test_matches_a_second_one_in_every_parameter(void **state)
{
    static const struct awq_params cases[] = {
        {.bits = 4, .group_size = 16, .grid_points = 20, .sym = false, .clip = true},
        {.bits = 3, .group_size = 12, .grid_points = 7, .sym = true, .clip = true},
        {.bits = 3, .group_size = -1, .grid_points = 33, .sym = false, .clip = true},
        {.bits = 2, .group_size = 9, .grid_points = 20, .sym = false, .clip = true},
        {.bits = 8, .group_size = 1000, .grid_points = 20, .sym = true, .clip = false},
        {.bits = 4, .group_size = 8, .grid_points = 1, .sym = true, .clip = false},
        {.bits = 3, .group_size = 20, .grid_points = 11, .sym = false, .clip = false},
        {.bits = 3, .group_size = 16, .grid_points = 20, .sym = false, .clip = true, .duo_scaling = true},
        {.bits = 4, .group_size = 9, .grid_points = 4, .sym = true, .clip = false, .duo_scaling = true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) check_second(*state, cases[i]);
}

/* Inputs that are values of shared heads: no scales, and otherwise the same clipped grid. */
static void test_inputs_of_shared_heads_are_not_scaled(void **state)
{
    static struct second s;
    struct statistics_collector collector;
    (void)state;
    for (int clip = 0; clip < 2; clip++)
        for (int always = 0; always < 2; always++) {
            struct quantized_layer layers[LINEARS] = {0};
            struct error error;
            s.params =
                (struct awq_params){.bits = 3, .group_size = 16, .grid_points = 20, .sym = false, .clip = clip == 1};
            s.params.scale_o_proj = always == 1 ? AWQ_SCALE_O_PROJ_ALWAYS : AWQ_SCALE_O_PROJ_WHEN_EXPORTABLE;
            const struct quantize_method method = {.quantizer = QUANTIZER_AWQ, .awq = s.params};
            second_make(&s);
            if (always == 1)
                second_scales(&s, second_search(&s, 0, LINEARS));
            else
                for (int c = 0; c < N; c++) s.scale[c] = 1;
            for (int l = 0; l < LINEARS; l++)
                for (int r = 0; r < rows_of[l]; r++) second_row(&s, l, r, s.params.clip);
            const struct statistics *inputs = fixture_collect(&collector, *state, quantizer_awq.needs, s.x, SEEN, N);
            const struct quantize_linear linears[LINEARS] = {
                {"self_attn.o_proj.weight", matrix_of(s.weights[0], rows_of[0], N, 4)},
                {"other.weight", matrix_of(s.weights[1], rows_of[1], N, 4)}};
            const struct quantize_task task = {
                .linears = linears, .count = LINEARS, .inputs = *inputs, .shared_values = true};
            assert_int_equal(quantizer_awq.quantize(*state, &method, &task, layers, &error), STATUS_OK);
            int wrong = 0, count = 0;
            for (int l = 0; l < LINEARS; l++) {
                assert_true((layers[l].column_scales == NULL) == (always == 0) &&
                            isnan(layers[l].alpha) == (always == 0));
                for (int i = 0; i < rows_of[l] * N; i++, count++) wrong += layers[l].codes[i] != s.codes[l][i];
                quantized_layer_reset(&layers[l]);
            }
            if (wrong > 0.05 * count) fail_msg("clip %d, always %d: %d of %d codes differ", clip, always, wrong, count);
            statistics_reset(&collector);
        }
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
    layer.folded = true; /* divided out of what makes the inputs: nothing to store */
    assert_int_equal(quantized_layer_bits(&layer), 20 * 32 * 4 + 40 * 16);
    quantized_layer_reset(&layer);
    statistics_reset(&collector);
}

/* Weights of one sign far from 0 keep their values to half a step: the grid begins at 0. */
static void test_groups_of_one_sign_are_on_the_grid(void **state)
{
    float x[64 * 20], weight[4 * 20], before[4 * 20];
    struct statistics_collector collector;
    struct quantized_layer layer = {0};
    for (int i = 0; i < 64 * 20; i++) x[i] = (float)random_normal(6, 0, (uint64_t)i);
    for (int i = 0; i < 4 * 20; i++)
        before[i] = weight[i] = (float)((i / 20 % 2 == 0 ? 1 : -1) * (3 + 0.2 * random_normal(6, 1, (uint64_t)i)));
    const struct statistics *inputs = fixture_collect(&collector, *state, quantizer_awq.needs, x, 64, 20);
    const struct quantize_linear linear = {"layer", matrix_of(weight, 4, 20, 4)};
    struct quantize_method method = awq_of(4, 8, false); /* the last group has four columns */
    method.awq.grid_points = 1;
    fixture_quantize(*state, &method, &linear, 1, inputs, &layer);
    for (int i = 0; i < 4 * 20; i++) assert_true(fabsf(weight[i] - before[i]) <= 4.F / 15);
    quantized_layer_reset(&layer);
    statistics_reset(&collector);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_scales_codes_and_clipping),
        cmocka_unit_test(test_matches_a_second_one_in_every_parameter),
        cmocka_unit_test(test_of_equal_exponents_the_first_wins),
        cmocka_unit_test(test_scales_help_where_few_inputs_are_large),
        cmocka_unit_test(test_queries_and_keys_are_not_clipped),
        cmocka_unit_test(test_inputs_of_shared_heads_are_not_scaled),
        cmocka_unit_test(test_a_symmetric_grid_is_one_without_zero_points),
        cmocka_unit_test(test_groups_of_one_sign_are_on_the_grid),
    };
    return cmocka_run_group_tests_name("awq", tests, fixture_setup, fixture_teardown);
}
