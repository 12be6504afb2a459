/* MXFP4, NVFP4 and FP8 written a second time, from the bits of their numbers and by trying every code: codes and scales
 * must be equal, at any shape and over the whole range of a float; and each rule where it can go wrong. */
#include "base/random.h"
#include "quantizer_fixture.h"

enum { ROWS = 150, COLUMNS = 292, STRIDE = 300 }; /* short last blocks of every size */

/* A small floating-point number: the value of a code, without its sign. */
struct small {
    int exponent_bits, mantissa_bits, codes; /* codes from 0 on that are numbers */
};
static const struct small e2m1 = {2, 1, 8}, e4m3 = {4, 3, 127};

static double small_value(struct small kind, int code)
{
    const int bias = (1 << (kind.exponent_bits - 1)) - 1, exponent = code >> kind.mantissa_bits;
    const double fraction = (double)(code % (1 << kind.mantissa_bits)) / (1 << kind.mantissa_bits);
    return exponent == 0 ? ldexp(fraction, 1 - bias) : ldexp(1 + fraction, exponent - bias);
}

/* The code of the number nearest to x, of two the even one; the sign in the highest bit. */
static int small_code(struct small kind, double x)
{
    int best = 0;
    for (int code = 1; code < kind.codes; code++) {
        const double before = fabs(fabs(x) - small_value(kind, best)), now = fabs(fabs(x) - small_value(kind, code));
        if (now < before || (now == before && code % 2 == 0)) best = code;
    }
    return best + (x < 0 ? 1 << (kind.exponent_bits + kind.mantissa_bits) : 0);
}

enum format { MXFP4, NVFP4, FP8_CHANNEL, FP8_TENSOR, FP8_BLOCK, FORMATS };

static struct quantize_method method_of(enum format format)
{
    static const int quantizers[] = {QUANTIZER_MXFP4, QUANTIZER_NVFP4, QUANTIZER_FP8, QUANTIZER_FP8, QUANTIZER_FP8};
    static const int scales[] = {0, 0, FP8_SCALES_CHANNEL, FP8_SCALES_TENSOR, FP8_SCALES_BLOCK};
    return (struct quantize_method){.quantizer = quantizers[format], .fp8 = {.scales = scales[format]}};
}

/* Rows and columns that share a scale. */
static int rows_of(enum format format)
{
    return format == FP8_TENSOR ? ROWS : format == FP8_BLOCK ? 128 : 1;
}

static int columns_of(enum format format)
{
    return (int[]){32, 16, COLUMNS, COLUMNS, 128}[format];
}

static double largest_of(const float *w, int row, int rows, int column, int columns)
{
    double most = 0;
    for (int r = row; r < row + rows && r < ROWS; r++)
        for (int c = column; c < column + columns && c < COLUMNS; c++) {
            const double size = fabs((double)w[r * STRIDE + c]);
            if (size > most) most = size; /* GCC 12 for aarch64 crashes on fmax here */
        }
    return most;
}

static float scale_of(enum format format, double most, double largest)
{
    if (format == MXFP4) {
        const int exponent = most > 0 ? ilogb(most) - 2 : -127;
        return (float)ldexp(1, exponent < -127 ? -127 : exponent);
    }
    if (format != NVFP4) return (float)(most / 448);
    const double whole = (double)(float)(largest / 2688), factor = whole < (double)FLT_MIN ? (double)FLT_MIN : whole;
    return (float)(small_value(e4m3, small_code(e4m3, most / 6 / factor)) * factor);
}

static void quantize(struct backend *backend, enum format format, float *weight, int64_t rows, int64_t columns,
                     int64_t stride, struct quantized_layer *layer)
{
    const struct quantize_method method = method_of(format);
    struct matrix matrix = matrix_of(weight, rows, columns, sizeof(float));
    matrix.stride = stride;
    fixture_quantize(backend, &method, &(struct quantize_linear){"layer", matrix}, 1, NULL, layer);
}

/* Sizes that vary by row and column from `low` to above 1, rows and blocks of zeros, and what lies between. */
static void fill(float *weight, uint64_t seed, double spread)
{
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < STRIDE; c++) {
            const uint64_t i = (uint64_t)(r * STRIDE + c);
            const double size = exp(spread * (random_normal(seed, 0, i / 48) + random_normal(seed, 1, (uint64_t)r)));
            weight[i] = c >= COLUMNS ? 9 : r == 7 || (r == 9 && c < 64) ? 0 : (float)(size * random_normal(seed, 2, i));
        }
}

static void check(struct backend *backend, enum format format, uint64_t seed, double spread)
{
    static float weight[ROWS * STRIDE], before[ROWS * STRIDE];
    const struct small kind = format <= NVFP4 ? e2m1 : e4m3;
    const int down = rows_of(format), across = columns_of(format), groups = (COLUMNS + across - 1) / across;
    struct quantized_layer layer = {0};
    int64_t spoilt = 0;
    fill(weight, seed, spread);
    memcpy(before, weight, sizeof before);
    quantize(backend, format, weight, ROWS, COLUMNS, STRIDE, &layer);
    const double largest = largest_of(before, 0, ROWS, 0, COLUMNS);
    assert_int_equal(layer.groups, groups);
    static float scales[ROWS][COLUMNS]; /* of blocks */
    for (int r = 0; r < ROWS; r += down)
        for (int c = 0; c < COLUMNS; c += across)
            scales[r / down][c / across] = scale_of(format, largest_of(before, r, down, c, across), largest);
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++) {
            const float scale = scales[r / down][c / across], w = before[r * STRIDE + c];
            /* one scale for the tensor lies there for every row */
            const int at = (format == FP8_TENSOR ? r : r / down) * groups + c / across;
            const int code = small_code(kind, scale > 0 ? (double)w / (double)scale : 0);
            const double value = small_value(kind, code % (1 << (layer.coding.bits - 1))) * (w < 0 ? -1 : 1);
            if (layer.scales[at] != scale || layer.codes[r * COLUMNS + c] != code)
                fail_msg("format %d, [%d, %d]: %g is code %d of %g, not %d of %g", format, r, c, (double)w,
                         layer.codes[r * COLUMNS + c], (double)layer.scales[at], code, (double)scale);
            assert_true(weight[r * STRIDE + c] == (float)value * scale);
            spoilt += code % (1 << kind.mantissa_bits) != 0;
        }
    assert_true(spoilt > 100 && weight[COLUMNS] == 9);
    quantized_layer_reset(&layer);
}

static void test_codes_and_scales_are_the_definition_s(void **state)
{
    for (int format = 0; format < FORMATS; format++)
        for (int trial = 0; trial < 3; trial++)
            check(*state, (enum format)format, (uint64_t)(format * 3 + trial), (double[]){0.3, 1.5, 5}[trial]);
}

static void test_bits_count_scales_and_what_is_stored_once(void **state)
{
    const int64_t weights = 64 * 256;
    const int64_t expected[FORMATS] = {weights * 17 / 4, weights * 9 / 2 + 32, weights * 8 + 64 * 32, weights * 8 + 32,
                                       weights * 8 + 2 * 32};
    float *weight = malloc((size_t)weights * sizeof *weight);
    for (int format = 0; format < FORMATS; format++) {
        struct quantized_layer layer = {0};
        for (int64_t i = 0; i < weights; i++) weight[i] = (float)random_normal(3, 0, (uint64_t)i);
        quantize(*state, (enum format)format, weight, 64, 256, 256, &layer);
        assert_int_equal(quantized_layer_bits(&layer), expected[format]);
        quantized_layer_reset(&layer);
    }
    free(weight);
}

/* Halfway between neighbours: 0 to 0.5, 0.5 to 1, … 4 to 6, with the largest number 4, so that the scale is 1. */
static void test_e2m1_ties_go_to_the_even_code(void **state)
{
    float weight[] = {4, 0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, -0.25f, -0.75f, -2.5f, 0};
    const uint8_t expected[] = {6, 0, 2, 2, 4, 4, 6, 8, 10, 12, 0};
    struct quantized_layer layer = {0};
    quantize(*state, MXFP4, weight, 1, 11, 11, &layer);
    assert_true(layer.scales[0] == 1);
    assert_memory_equal(layer.codes, expected, sizeof expected);
    quantized_layer_reset(&layer);
}

/* The rule for the scale leaves 7.9 where 6 is the largest number. */
static void test_mxfp4_saturates_above_six(void **state)
{
    float weight[] = {7.9f, 5, -7, 6.9f}, tie[] = {5, 4};
    struct quantized_layer layer = {0};
    quantize(*state, MXFP4, weight, 1, 4, 4, &layer);
    assert_true(layer.scales[0] == 1 && weight[0] == 6 && weight[1] == 4 && weight[2] == -6 && weight[3] == 6);
    quantized_layer_reset(&layer);
    quantize(*state, MXFP4, tie, 1, 2, 2, &layer);
    assert_true(tie[0] == 4); /* 5 lies between 4 and 6, codes 6 and 7 */
    quantized_layer_reset(&layer);
}

/* E8M0 ends at 2^-127: zeros and the least floats have it. */
static void test_mxfp4_ends_of_the_scale(void **state)
{
    float zeros[33] = {0}, least[] = {0x1p-149f, -0x1p-126f}, most[] = {FLT_MAX, -1};
    struct quantized_layer layer = {0};
    zeros[32] = 3;
    quantize(*state, MXFP4, zeros, 1, 33, 33, &layer);
    assert_true(layer.scales[0] == 0x1p-127f && layer.codes[0] == 0 && zeros[0] == 0 && zeros[32] == 3);
    quantized_layer_reset(&layer);
    quantize(*state, MXFP4, least, 1, 2, 2, &layer);
    assert_true(layer.scales[0] == 0x1p-127f && layer.codes[0] == 0 && least[1] == -0x1p-126f);
    quantized_layer_reset(&layer);
    quantize(*state, MXFP4, most, 1, 2, 2, &layer);
    assert_true(layer.scales[0] == 0x1p125f && most[0] == 0x1.8p127f && most[1] == 0);
    quantized_layer_reset(&layer);
}

/* The largest block has the scale 448 factors; one of 2^-10 of a factor lies on the tie between 0 and E4M3's least
 * number, and becomes 0; one above it has 2^-9, a subnormal number. */
static void test_nvfp4_scales_below_e4m3_s_normal_numbers(void **state)
{
    float weight[3 * 16] = {2688, 0};
    struct quantized_layer layer = {0};
    weight[16] = 6 * 0x1p-10f;
    weight[32] = 6 * 0x1.2p-10f;
    quantize(*state, NVFP4, weight, 1, 48, 48, &layer);
    assert_true(layer.coding.factor == 1 && layer.scales[0] == 448 && weight[0] == 2688);
    assert_true(layer.scales[1] == 0 && layer.codes[16] == 0 && weight[16] == 0);
    assert_true(layer.scales[2] == 0x1p-9f && weight[32] == 3 * 0x1p-9f);
    quantized_layer_reset(&layer);
}

/* A row whose largest is 448 has the scale 1: codes are those of the numbers themselves. */
static void test_e4m3_subnormals_and_ties(void **state)
{
    float weight[] = {448, 0x1p-9f, 0x1p-10f, 0x1.8p-9f, 0x1.cp-7f, 0x1.fp-7f, 17, -19, 440, -0x1p-10f};
    const uint8_t expected[] = {126, 1, 0, 2, 7, 8, 88, 128 + 90, 126, 128};
    struct quantized_layer layer = {0};
    quantize(*state, FP8_CHANNEL, weight, 1, 10, 10, &layer);
    assert_true(layer.scales[0] == 1);
    assert_memory_equal(layer.codes, expected, sizeof expected);
    quantized_layer_reset(&layer);
}

static void test_zeros_stay_zeros(void **state)
{
    for (int format = 0; format < FORMATS; format++) {
        float weight[40] = {0};
        struct quantized_layer layer = {0};
        quantize(*state, (enum format)format, weight, 2, 20, 20, &layer);
        for (int i = 0; i < 40; i++) assert_true(weight[i] == 0 && layer.codes[i] == 0);
        assert_true(layer.proxy_error == 0);
        quantized_layer_reset(&layer);
    }
}

static void test_what_is_not_finite_is_refused(void **state)
{
    for (int format = 0; format < FORMATS; format++)
        for (int i = 0; i < 2; i++) {
            float weight[] = {1, i == 0 ? NAN : -INFINITY, 2};
            const struct quantize_method method = method_of((enum format)format);
            const struct quantize_linear linear = {"layer", matrix_of(weight, 1, 3, sizeof(float))};
            const struct quantize_task task = {.linears = &linear, .count = 1};
            struct quantized_layer layer = {0};
            struct error error;
            assert_int_equal(quantizer_by_id(method.quantizer)->quantize(*state, &method, &task, &layer, &error),
                             STATUS_NOT_FINITE);
            assert_true(weight[0] == 1 && weight[2] == 2);
            quantized_layer_reset(&layer);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_codes_and_scales_are_the_definition_s),
        cmocka_unit_test(test_bits_count_scales_and_what_is_stored_once),
        cmocka_unit_test(test_e2m1_ties_go_to_the_even_code),
        cmocka_unit_test(test_mxfp4_saturates_above_six),
        cmocka_unit_test(test_mxfp4_ends_of_the_scale),
        cmocka_unit_test(test_nvfp4_scales_below_e4m3_s_normal_numbers),
        cmocka_unit_test(test_e4m3_subnormals_and_ties),
        cmocka_unit_test(test_zeros_stay_zeros),
        cmocka_unit_test(test_what_is_not_finite_is_refused),
    };
    const int reference =
        cmocka_run_group_tests_name("formats of blocks, plain loops", tests, fixture_setup_reference, fixture_teardown);
    return reference + cmocka_run_group_tests_name("formats of blocks", tests, fixture_setup, fixture_teardown);
}
