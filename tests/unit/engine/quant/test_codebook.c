/* NF4 and FP4: the reference codes, blocks and double quantization; books, rounding and maxima as the papers say, at
 * any block size; and the order of the 4-bit methods' errors on weights with tails like those of trained ones. */
#include "base/random.h"
#include "quantizer_fixture.h"

static void run(struct backend *backend, struct quantize_method method, struct matrix weight,
                struct quantized_layer *layer)
{
    const struct quantize_linear linear = {"layer", weight};
    const struct quantize_task task = {.linears = &linear, .count = 1};
    struct error error;
    if (quantizer_by_id(method.quantizer)->quantize(backend, &method, &task, layer, &error) != STATUS_OK)
        fail_msg("%s", error.detail);
}

static struct quantize_method nf4_of(int64_t block, bool double_quant)
{
    return (struct quantize_method){.quantizer = QUANTIZER_NF4,
                                    .nf4 = {.block_size = block, .double_quant = double_quant}};
}

static struct quantize_method fp4_of(int64_t block)
{
    return (struct quantize_method){.quantizer = QUANTIZER_FP4, .fp4 = {.block_size = block, .values = 0}};
}

static void check_reference(struct backend *backend, const char *file, bool double_quant)
{
    float *weight = shared_tensor(file, "W", NULL),
          *expected = shared_tensor(file, double_quant ? "dq.dequant" : "dequant", NULL);
    uint8_t *codes = shared_tensor(file, "codes", NULL);
    double *maxima = shared_tensor(file, "absmax", NULL);
    struct quantized_layer layer = {0};
    int wrong = 0;
    run(backend, nf4_of(64, double_quant), matrix_of(weight, 200, 96, 4), &layer);
    assert_int_equal(layer.groups, 300);
    for (int i = 0; i < 200 * 96; i++) {
        wrong += layer.codes[i] != codes[i];
        if (fabsf(weight[i] - expected[i]) > 1e-6f)
            fail_msg("value %d: %g, expected %g", i, (double)weight[i], (double)expected[i]);
    }
    assert_int_equal(wrong, 0);
    for (int i = 0; i < 300 && !double_quant; i++) assert_true((double)layer.scales[i] == maxima[i]);
    assert_int_equal(quantized_layer_bits(&layer), 200 * 96 * 4 + (double_quant ? 300 * 8 + 3 * 32 : 300 * 32));
    quantized_layer_reset(&layer);
    free(weight);
    free(expected);
    free(codes);
    free(maxima);
}

static void test_reference_codes_and_values(void **state)
{
    char file[512];
    (void)shared_require("reference/quant/nf4.safetensors", file, sizeof file);
    check_reference(*state, file, false);
    check_reference(*state, file, true);
}

/* Blocks of 4 over rows of 3 in a strided matrix: the second block has the end of row 1 and the start of row 2. */
static void test_blocks_cross_rows(void **state)
{
    float weight[3 * 5] = {1, -2, 0.6f, 9, 9, 4, 0, 0, 9, 9, 0, 0, -8, 9, 9};
    const float expected[3 * 3] = {1, -2, 0.6f, 4, 0, 0, 0, 0, -8};
    struct quantized_layer layer = {0};
    struct matrix matrix = matrix_of(weight, 3, 3, 4);
    matrix.stride = 5;
    run(*state, fp4_of(4), matrix, &layer);
    assert_int_equal(layer.groups, 3);
    /* maxima 4, 0, 8; values are 4 {0, 1/12, 1/6, 1/4, …}, all zero, and 8 alone */
    assert_true(layer.scales[0] == 4 && layer.scales[1] == 0 && layer.scales[2] == 8);
    for (int r = 0; r < 3; r++)
        for (int c = 0; c < 3; c++) {
            const float want = r == 0 && c == 2 ? 4.0f / 6 : expected[r * 3 + c];
            if (fabsf(weight[r * 5 + c] - want) > 1e-6f) fail_msg("%d %d: %g", r, c, (double)weight[r * 5 + c]);
        }
    assert_true(weight[3] == 9 && weight[14] == 9);
    quantized_layer_reset(&layer);
}

/* Halves of the books' values next to 0 are exact. */
static void test_midpoints_take_the_lower_value(void **state)
{
    float weight[4] = {1, 0.07958029955625534f / 2, -0.09105003625154495f / 2, 0.0398f};
    struct quantized_layer layer = {0};
    run(*state, nf4_of(64, false), matrix_of(weight, 1, 4, 4), &layer);
    assert_true(weight[1] == 0 && weight[2] == -0.09105003625154495f && weight[3] == 0.07958029955625534f);
    quantized_layer_reset(&layer);
}

static void test_the_library_s_fp4_has_a_hole_around_zero(void **state)
{
    float weight[4] = {12, 1, 0.5f, 0.03f};
    struct quantize_method method = fp4_of(64);
    struct quantized_layer layer = {0};
    method.fp4.values = 1;
    run(*state, method, matrix_of(weight, 1, 4, 4), &layer);
    assert_true(weight[0] == 12 && fabsf(weight[1] - 0.0625f) < 1e-6f && fabsf(weight[2] - 0.0625f) < 1e-6f &&
                weight[3] == 0);
    quantized_layer_reset(&layer);
}

/* ---- the books and the coding of maxima as the papers have them ---- */

/* Where the standard normal distribution has the share p below it. */
static double normal_quantile(double p)
{
    double low = -10, high = 10;
    for (int i = 0; i < 200; i++) {
        const double middle = (low + high) / 2;
        if (0.5 * erfc(-middle / sqrt(2)) < p)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* QLoRA: eight quantiles above zero and seven below, at equal distances from a half to 0.9677083, over the largest. */
static void nf4_book(double values[16])
{
    const double largest = normal_quantile(0.9677083);
    for (int i = 0; i < 8; i++) values[15 - i] = normal_quantile(0.9677083 + (0.5 - 0.9677083) * i / 8) / largest;
    for (int i = 0; i < 7; i++) values[i] = -normal_quantile(0.9677083 + (0.5 - 0.9677083) * i / 7) / largest;
    values[7] = 0;
}

/* Sign, two bits of exponent, one of mantissa: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives, over 6. */
static void fp4_book(double values[16])
{
    static const double half[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    for (int i = 0; i < 8; i++) {
        values[8 + i] = half[i] / 6;
        values[7 - i] = -half[i] / 6;
    }
}

static double nearest(const double *values, int count, double x)
{
    double best = values[0];
    for (int i = 1; i < count; i++)
        if (fabs(values[i] - x) < fabs(best - x)) best = values[i];
    return best;
}

/* Dynamic codes: for each of seven powers of ten the means of neighbours among 2^i + 1 numbers from 0.1 to 1; 0
 * and 1. */
static void dynamic_book(double values[256])
{
    int count = 0;
    for (int i = 0; i < 7; i++)
        for (int j = 0; j < 1 << i; j++) {
            const double a = 0.1 + 0.9 * j / (1 << i), b = 0.1 + 0.9 * (j + 1) / (1 << i);
            values[count++] = (a + b) / 2 * pow(10, i - 6);
            values[count] = -values[count - 1];
            count++;
        }
    values[count++] = 0;
    values[count++] = 1;
    assert_int_equal(count, 256);
}

enum { BOOK_ROWS = 37, BOOK_COLUMNS = 100, BOOK_WEIGHTS = BOOK_ROWS * BOOK_COLUMNS };

/* Blocks' maxima, coded eight bits each when asked for: less their mean, over the largest of 256. */
static void find_maxima(const float *weight, int block, bool coded, double *maxima, int groups)
{
    double values[256], mean = 0;
    dynamic_book(values);
    for (int g = 0; g < groups; g++) {
        maxima[g] = 0;
        for (int i = g * block; i < (g + 1) * block && i < BOOK_WEIGHTS; i++)
            maxima[g] = fmax(maxima[g], fabs((double)weight[i]));
        mean += maxima[g] / groups;
    }
    for (int first = 0; first < groups && coded; first += 256) {
        const int end = first + 256 < groups ? first + 256 : groups;
        double most = 0;
        for (int g = first; g < end; g++) most = fmax(most, fabs(maxima[g] - mean));
        for (int g = first; g < end; g++) maxima[g] = nearest(values, 256, (maxima[g] - mean) / most) * most + mean;
    }
}

static void check_book(struct backend *backend, bool nf4, int block, bool coded)
{
    static float weight[BOOK_WEIGHTS], before[BOOK_WEIGHTS];
    static double maxima[BOOK_WEIGHTS], plain[BOOK_WEIGHTS];
    const int groups = (BOOK_WEIGHTS + block - 1) / block;
    struct quantize_method method = nf4 ? nf4_of(block, coded) : fp4_of(block);
    struct quantized_layer layer = {0};
    double book[16];
    method.fp4.double_quant = coded;
    if (nf4)
        nf4_book(book);
    else
        fp4_book(book);
    for (int i = 0; i < BOOK_WEIGHTS; i++)
        weight[i] = before[i] =
            (float)(exp(0.5 * random_normal(41, 0, (uint64_t)(i / 50))) * random_normal(41, 1, (uint64_t)i));
    find_maxima(before, block, false, plain, groups);
    find_maxima(before, block, coded, maxima, groups);
    run(backend, method, matrix_of(weight, BOOK_ROWS, BOOK_COLUMNS, 4), &layer);
    assert_int_equal(layer.groups, groups);
    for (int i = 0; i < BOOK_WEIGHTS; i++) {
        const double expected = nearest(book, 16, (double)before[i] / plain[i / block]) * maxima[i / block];
        if (fabs((double)weight[i] - expected) > 1e-6 * plain[i / block])
            fail_msg("%s, blocks of %d, value %d: %g, expected %g", nf4 ? "nf4" : "fp4", block, i, (double)weight[i],
                     expected);
    }
    const int stored = coded ? groups * 8 + (groups + 255) / 256 * 32 + 32 : groups * 32;
    assert_int_equal(quantized_layer_bits(&layer), BOOK_WEIGHTS * 4 + stored);
    quantized_layer_reset(&layer);
}

static void test_any_block_size_is_as_the_papers_say(void **state)
{
    static const int blocks[] = {64, 7, 32, 100, 999, 100000};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        for (int trial = 0; trial < 4; trial++) {
            if (trial % 2 == 1 && blocks[i] > BOOK_WEIGHTS) continue; /* one maximum: nothing to code */
            check_book(*state, trial < 2, blocks[i], trial % 2 == 1);
        }
}

/* Equal maxima leave nothing to code: double quantization gives them back. */
static void test_double_quantization_of_equal_maxima_is_exact(void **state)
{
    float weight[8 * 64], once[8 * 64];
    struct quantized_layer layer = {0};
    for (int i = 0; i < 8 * 64; i++) weight[i] = once[i] = i % 64 == 5 ? -0.75f : 0.01f * (float)(i % 64);
    run(*state, nf4_of(64, true), matrix_of(weight, 8, 64, 4), &layer);
    quantized_layer_reset(&layer);
    run(*state, nf4_of(64, false), matrix_of(once, 8, 64, 4), &layer);
    quantized_layer_reset(&layer);
    assert_memory_equal(weight, once, sizeof weight);
}

static double error_of(struct backend *backend, struct quantize_method method, const float *weight, int rows,
                       int columns)
{
    float *copy = malloc((size_t)(rows * columns) * sizeof(float));
    struct quantized_layer layer = {0};
    memcpy(copy, weight, (size_t)(rows * columns) * sizeof(float));
    run(backend, method, matrix_of(copy, rows, columns, 4), &layer);
    const double found = layer.proxy_error;
    quantized_layer_reset(&layer);
    free(copy);
    return found;
}

/* Weights of a normal distribution whose size varies (as columns and rows of trained matrices do): tails heavier than a
 * normal's. */
static void test_nf4_errs_less_than_fp4_and_that_less_than_int4(void **state)
{
    enum { ROWS = 64, COLUMNS = 256 };
    float *weight = malloc(ROWS * COLUMNS * sizeof(float));
    const struct quantize_method int4 = {.quantizer = QUANTIZER_RTN, .rtn = {4, 64, true}};
    for (int i = 0; i < ROWS * COLUMNS; i++)
        weight[i] = (float)(0.02 * exp(0.8 * random_normal(5, 0, (uint64_t)i)) * random_normal(5, 1, (uint64_t)i));
    const double nf4 = error_of(*state, nf4_of(64, false), weight, ROWS, COLUMNS);
    const double fp4 = error_of(*state, fp4_of(64), weight, ROWS, COLUMNS);
    const double rounding = error_of(*state, int4, weight, ROWS, COLUMNS);
    if (!(nf4 < fp4 && fp4 < rounding)) fail_msg("nf4 %g, fp4 %g, int4 %g", nf4, fp4, rounding);
    free(weight);
}

static void test_codes_and_errors_do_not_depend_on_threads(void **state)
{
    (void)state;
    float first[50 * 70], again[50 * 70];
    struct quantized_layer layers[2] = {0};
    for (int i = 0; i < 50 * 70; i++) first[i] = again[i] = (float)random_normal(9, 0, (uint64_t)i);
    for (int i = 0; i < 2; i++) {
        struct error error;
        struct team *team;
        struct backend *backend;
        assert_int_equal(team_new(1 + 2 * i, &team, &error), STATUS_OK);
        assert_int_equal(backend_cpu_new(team, &backend, &error), STATUS_OK);
        run(backend, nf4_of(16, true), matrix_of(i == 0 ? first : again, 50, 70, 4), &layers[i]);
        backend_free(backend);
        team_free(team);
    }
    assert_memory_equal(first, again, sizeof first);
    assert_true(layers[0].proxy_error == layers[1].proxy_error);
    quantized_layer_reset(&layers[0]);
    quantized_layer_reset(&layers[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_codes_and_values),
        cmocka_unit_test(test_any_block_size_is_as_the_papers_say),
        cmocka_unit_test(test_blocks_cross_rows),
        cmocka_unit_test(test_midpoints_take_the_lower_value),
        cmocka_unit_test(test_the_library_s_fp4_has_a_hole_around_zero),
        cmocka_unit_test(test_double_quantization_of_equal_maxima_is_exact),
        cmocka_unit_test(test_nf4_errs_less_than_fp4_and_that_less_than_int4),
        cmocka_unit_test(test_codes_and_errors_do_not_depend_on_threads),
    };
    return cmocka_run_group_tests_name("codebooks", tests, fixture_setup_reference, fixture_teardown);
}
