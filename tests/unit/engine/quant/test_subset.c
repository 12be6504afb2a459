/* Columns that are kept as they are: which ones, that the rest is quantized as if they were not there, and what they
 * cost; and linears of one task that overrides tell apart. */
#include "base/random.h"
#include "quant/subset.h"
#include "quantizer_fixture.h"

enum { ROWS = 5, COLUMNS = 24, KEPT = 4, LEFT = COLUMNS - KEPT, TOKENS = 48 };

struct weights {
    float whole[ROWS * COLUMNS], rest[ROWS * LEFT], hessian[COLUMNS * COLUMNS], rest_hessian[LEFT * LEFT];
};

static void fill(struct weights *w, uint64_t seed)
{
    for (int i = 0; i < ROWS * COLUMNS; i++) w->whole[i] = (float)random_normal(seed, 0, (uint64_t)i);
    /* positive definite; the diagonal grows towards the middle */
    for (int i = 0; i < COLUMNS; i++)
        for (int j = 0; j < COLUMNS; j++) {
            const double size = i == j ? 3 : 0.5 / (1 + abs(i - j));
            w->hessian[i * COLUMNS + j] = (float)(size * (1 + i * (COLUMNS - 1 - i)) * (1 + j * (COLUMNS - 1 - j)));
        }
}

/* Without the kept columns. */
static void reduce(struct weights *w, const int *kept)
{
    int left[LEFT], count = 0;
    for (int c = 0; c < COLUMNS; c++) {
        bool out = false;
        for (int k = 0; k < KEPT; k++) out = out || kept[k] == c;
        if (!out) left[count++] = c;
    }
    assert_int_equal(count, LEFT);
    for (int i = 0; i < ROWS * LEFT; i++) w->rest[i] = w->whole[i / LEFT * COLUMNS + left[i % LEFT]];
    for (int i = 0; i < LEFT * LEFT; i++) w->rest_hessian[i] = w->hessian[left[i / LEFT] * COLUMNS + left[i % LEFT]];
}

static double energy(const float *weight, const float *other, const float *hessian)
{
    double sum = 0;
    for (int r = 0; r < ROWS; r++)
        for (int i = 0; i < COLUMNS; i++)
            for (int j = 0; j < COLUMNS; j++) {
                const double a = (double)weight[r * COLUMNS + i] - (other == NULL ? 0 : (double)other[r * COLUMNS + i]);
                const double b = (double)weight[r * COLUMNS + j] - (other == NULL ? 0 : (double)other[r * COLUMNS + j]);
                sum += hessian == NULL ? (i == j) * a * b : a * (double)hessian[i * COLUMNS + j] * b;
            }
    return sum;
}

static void quantize(struct backend *backend, const struct quantize_method *method, const struct quantize_task *task,
                     struct quantized_layer *out)
{
    struct overrides *overrides;
    struct error error;
    if (overrides_new(method, &overrides, &error) != STATUS_OK) fail_msg("%s", error.detail);
    if (subset_quantize(backend, overrides, task, out, &error) != STATUS_OK) fail_msg("%s", error.detail);
    overrides_free(overrides);
}

/* `kept` ascending: those columns stay, the others are what the method alone makes of them. */
static void check_kept(struct backend *backend, struct quantize_method method, struct weights *w, bool seen,
                       const int *kept)
{
    float before[ROWS * COLUMNS];
    struct quantized_layer layer = {0}, alone = {0};
    struct quantize_linear linear = {"layer", matrix_of(w->whole, ROWS, COLUMNS, 4)},
                           rest = {"layer", matrix_of(w->rest, ROWS, LEFT, 4)};
    struct quantize_task task = {.linears = &linear, .count = 1}, rest_task = {.linears = &rest, .count = 1};
    struct error error;
    reduce(w, kept);
    if (seen) task.inputs.hessian = matrix_of(w->hessian, COLUMNS, COLUMNS, 4);
    if (seen) rest_task.inputs.hessian = matrix_of(w->rest_hessian, LEFT, LEFT, 4);
    memcpy(before, w->whole, sizeof before);
    method.options.keep_outliers = KEPT;
    quantize(backend, &method, &task, &layer);
    assert_int_equal(quantizer_by_id(method.quantizer)->quantize(backend, &method, &rest_task, &alone, &error),
                     STATUS_OK);
    assert_int_equal(layer.kept, KEPT);
    for (int k = 0; k < KEPT; k++) {
        if (layer.kept_columns[k] != kept[k])
            fail_msg("column %d is kept, expected %d", (int)layer.kept_columns[k], kept[k]);
        for (int r = 0; r < ROWS; r++) assert_true(w->whole[r * COLUMNS + kept[k]] == before[r * COLUMNS + kept[k]]);
    }
    for (int r = 0, c = 0, k = 0; r < ROWS; r++, c = k = 0)
        for (int i = 0; i < COLUMNS; i++)
            if (k < KEPT && kept[k] == i)
                k++;
            else
                assert_true(w->whole[r * COLUMNS + i] == w->rest[r * LEFT + c++]);
    assert_memory_equal(layer.codes, alone.codes, ROWS * LEFT);
    const double proxy = energy(before, w->whole, seen ? w->hessian : NULL);
    assert_true(fabs(layer.proxy_error - proxy) < 1e-4 * proxy);
    const double share = proxy / energy(before, NULL, seen ? w->hessian : NULL);
    assert_true(fabs(layer.relative_error - share) < 1e-4 * share);
    /* a kept column: 16 bits a weight and 32 for its place */
    assert_int_equal(quantized_layer_bits(&layer), quantized_layer_bits(&alone) + KEPT * (16 * ROWS + 32));
    quantized_layer_reset(&layer);
    quantized_layer_reset(&alone);
}

static void test_columns_with_the_largest_inputs_are_kept(void **state)
{
    static const int middle[] = {10, 11, 12, 13};
    struct weights w;
    fill(&w, 1);
    for (int r = 0; r < ROWS; r++) w.whole[r * COLUMNS + 3] *= 50; /* large weights have no say */
    check_kept(*state, (struct quantize_method){.quantizer = QUANTIZER_RTN, .rtn = {3, 8, true}}, &w, true, middle);
    fill(&w, 2);
    check_kept(*state, (struct quantize_method){.quantizer = QUANTIZER_GPTQ, .gptq = {3, 8, false, true, false, 0.01}},
               &w, true, middle);
}

/* Columns 0, 7, 20 and, of all others which are alike, the first. */
static void test_without_inputs_columns_with_the_largest_weights_are_kept(void **state)
{
    static const int largest[] = {0, 1, 7, 20};
    struct weights w;
    fill(&w, 3);
    for (int i = 0; i < ROWS * COLUMNS; i++) w.whole[i] = (w.whole[i] > 0 ? 1.F : -1.F);
    for (int r = 0; r < ROWS; r++)
        w.whole[r * COLUMNS + 0] *= 3, w.whole[r * COLUMNS + 7] *= 4, w.whole[r * COLUMNS + 20] *= 2;
    check_kept(*state, (struct quantize_method){.quantizer = QUANTIZER_RTN, .rtn = {2, -1, false}}, &w, false, largest);
}

/* q: the method's, k: skipped, v and o: 8 bits; the first pattern that fits decides. */
static void test_linears_of_one_task_may_differ(void **state)
{
    static const struct quantize_override items[] = {
        {.pattern = "k_proj$", .skip = true}, {.pattern = "[vo]_proj$", .bits = 8}, {.pattern = "v_proj", .bits = 2}};
    static const char *const names[] = {"l.q_proj.weight", "l.k_proj.weight", "l.v_proj.weight", "l.o_proj.weight"};
    static const int bits[] = {4, 16, 8, 8};
    struct quantize_method method = {.quantizer = QUANTIZER_RTN, .rtn = {4, 8, true}};
    struct weights w[4], apart[4];
    struct quantize_linear linears[4];
    struct quantized_layer layers[4] = {0};
    method.options.override_count = 3;
    method.options.overrides = items;
    for (int i = 0; i < 4; i++) {
        fill(&w[i], (uint64_t)i);
        apart[i] = w[i];
        linears[i] = (struct quantize_linear){names[i], matrix_of(w[i].whole, ROWS, COLUMNS, 4)};
    }
    const struct quantize_task task = {.linears = linears, .count = 4};
    quantize(*state, &method, &task, layers);
    for (int i = 0; i < 4; i++) {
        struct quantized_layer alone = {0};
        const struct quantize_method own = {.quantizer = QUANTIZER_RTN, .rtn = {bits[i], 8, true}};
        const struct quantize_linear linear = {names[i], matrix_of(apart[i].whole, ROWS, COLUMNS, 4)};
        assert_int_equal(layers[i].skipped, bits[i] == 16);
        if (bits[i] != 16) fixture_quantize(*state, &own, &linear, 1, NULL, &alone);
        assert_memory_equal(w[i].whole, apart[i].whole, sizeof w[i].whole);
        assert_int_equal(quantized_layer_bits(&layers[i]),
                         ROWS * COLUMNS * bits[i] + (bits[i] == 16 ? 0 : ROWS * 3 * 16));
        quantized_layer_reset(&layers[i]);
        quantized_layer_reset(&alone);
    }
}

/* Inputs of which two are large; three linears, which all read them. */
struct shared_input {
    float x[TOKENS * COLUMNS];
    struct weights w[3];
    struct quantize_linear linears[3];
    struct quantized_layer layers[3];
};

static void quantize_shared(struct backend *backend, struct quantize_method method,
                            const struct quantize_override *items, int64_t count, struct shared_input *s)
{
    static const char *const names[] = {"l.q_proj.weight", "l.k_proj.weight", "l.v_proj.weight"};
    struct statistics_collector collector;
    *s = (struct shared_input){.x = {0}};
    for (int i = 0; i < TOKENS * COLUMNS; i++)
        s->x[i] = (float)(random_normal(9, 0, (uint64_t)i) * (i % COLUMNS == 5 || i % COLUMNS == 17 ? 30 : 1));
    for (int i = 0; i < 3; i++) {
        fill(&s->w[i], (uint64_t)i);
        s->linears[i] = (struct quantize_linear){names[i], matrix_of(s->w[i].whole, ROWS, COLUMNS, 4)};
    }
    method.options.override_count = count;
    method.options.overrides = items;
    const struct quantize_task task = {
        .linears = s->linears, .count = 3, .inputs = *fixture_collect(&collector, backend, 7, s->x, TOKENS, COLUMNS)};
    quantize(backend, &method, &task, s->layers);
    statistics_reset(&collector);
}

static void shared_reset(struct shared_input *s)
{
    for (int i = 0; i < 3; i++) quantized_layer_reset(&s->layers[i]);
}

/* The column scales of awq and smoothquant are the input's: overrides do not part its linears, whatever they change. */
static void test_linears_of_one_input_have_one_set_of_column_scales(void **state)
{
    static const struct quantize_override same[] = {{.pattern = "v_proj", .bits = 3}},
                                          wide[] = {{.pattern = "v_proj", .bits = 8}},
                                          apart[] = {{.pattern = "k_proj", .skip = true}};
    static const struct quantize_method methods[] = {
        {.quantizer = QUANTIZER_AWQ,
         .awq = {.bits = 3, .group_size = 8, .grid_points = 20, .clip = true, .duo_scaling = true}},
        {.quantizer = QUANTIZER_SMOOTHQUANT, .smoothquant = {3, 8, 0.5, true}}};
    static struct shared_input plain, found;
    for (int m = 0; m < 2; m++) {
        quantize_shared(*state, methods[m], NULL, 0, &plain);
        quantize_shared(*state, methods[m], same, 1, &found);
        for (int i = 0; i < 3; i++) {
            assert_memory_equal(found.w[i].whole, plain.w[i].whole, sizeof plain.w[i].whole);
            assert_true(found.layers[i].alpha == plain.layers[i].alpha);
        }
        shared_reset(&found);
        shared_reset(&plain);
        quantize_shared(*state, methods[m], wide, 1, &found);
        for (int i = 1; i < 3; i++)
            assert_memory_equal(found.layers[i].column_scales, found.layers[0].column_scales, COLUMNS * sizeof(float));
        assert_true(found.layers[1].coding.bits == 3 && found.layers[2].coding.bits == 8);
        assert_true(found.layers[2].relative_error < found.layers[1].relative_error / 100);
        shared_reset(&found);
        quantize_shared(*state, methods[m], apart, 1, &found);
        assert_true(found.layers[1].skipped);
        assert_memory_equal(found.layers[2].column_scales, found.layers[0].column_scales, COLUMNS * sizeof(float));
        shared_reset(&found);
    }
}

/* Groups of 24 columns beside groups of 4: the search for clips has scratch for the widest. */
static void test_linears_of_one_input_have_their_own_groups(void **state)
{
    static const struct quantize_override items[] = {{.pattern = "q_proj", .group_size = -1},
                                                     {.pattern = "v_proj", .group_size = 4}};
    const struct quantize_method method = {.quantizer = QUANTIZER_AWQ,
                                           .awq = {.bits = 3, .group_size = 8, .grid_points = 20, .clip = true}};
    static const int64_t groups[] = {1, 3, 6};
    static struct shared_input found;
    quantize_shared(*state, method, items, 2, &found);
    for (int i = 0; i < 3; i++) assert_int_equal(found.layers[i].groups, groups[i]);
    shared_reset(&found);
}

/* Every method with statistics counts them, and one that needs inputs and has none says so. */
static void test_inputs_that_are_zero_are_counted(void **state)
{
    static const struct quantize_method methods[] = {
        {.quantizer = QUANTIZER_RTN, .rtn = {4, 8, true}},
        {.quantizer = QUANTIZER_GPTQ, .gptq = {.bits = 4, .group_size = 8, .sym = true, .damp_percent = 0.05}},
        {.quantizer = QUANTIZER_AWQ, .awq = {.bits = 4, .group_size = 8, .grid_points = 4, .clip = true}},
        {.quantizer = QUANTIZER_SMOOTHQUANT, .smoothquant = {8, 8, 0.5, false}}};
    for (size_t m = 0; m < sizeof methods / sizeof methods[0]; m++)
        for (int silent = 0; silent < 2; silent++) {
            float x[TOKENS * COLUMNS];
            struct weights w;
            struct statistics_collector collector;
            struct quantized_layer layer = {0};
            fill(&w, 4);
            for (int i = 0; i < TOKENS * COLUMNS; i++)
                x[i] = silent || i % COLUMNS % 8 == 3 ? 0 : (float)random_normal(9, 0, (uint64_t)i);
            const struct quantize_linear linear = {"layer", matrix_of(w.whole, ROWS, COLUMNS, 4)};
            struct quantize_task task = {
                .linears = &linear, .count = 1, .inputs = *fixture_collect(&collector, *state, 7, x, TOKENS, COLUMNS)};
            quantize(*state, &methods[m], &task, &layer);
            assert_int_equal(layer.dead_columns, silent ? COLUMNS : 3);
            assert_int_equal(layer.degraded, silent && m > 0 ? DEGRADED_SILENT : DEGRADED_NO);
            quantized_layer_reset(&layer);
            statistics_reset(&collector);
            task.inputs = (struct statistics){.mean = NULL};
            if (m == 0) quantize(*state, &methods[m], &task, &layer);
            assert_true(m > 0 || layer.dead_columns == -1);
            quantized_layer_reset(&layer);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns_with_the_largest_inputs_are_kept),
        cmocka_unit_test(test_without_inputs_columns_with_the_largest_weights_are_kept),
        cmocka_unit_test(test_linears_of_one_task_may_differ),
        cmocka_unit_test(test_linears_of_one_input_have_one_set_of_column_scales),
        cmocka_unit_test(test_linears_of_one_input_have_their_own_groups),
        cmocka_unit_test(test_inputs_that_are_zero_are_counted),
    };
    return cmocka_run_group_tests_name("subset", tests, fixture_setup, fixture_teardown);
}
