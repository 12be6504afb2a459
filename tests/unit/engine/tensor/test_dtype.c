/* Conversions between float32 and the stored types, against plain arithmetic in double. */
#include "unit.h"

#include "base/random.h"
#include "tensor/dtype.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HALVES = 65536 };

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* What a 16-bit pattern with this many bits of fraction means, in double. */
static double value_of(uint16_t pattern, int fraction_bits)
{
    const int exponent_bits = 15 - fraction_bits, bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = pattern >> fraction_bits & ((1 << exponent_bits) - 1),
              fraction = pattern & ((1 << fraction_bits) - 1);
    const double sign = pattern & 0x8000 ? -1 : 1;
    if (exponent == (1 << exponent_bits) - 1) return fraction ? NAN : sign * INFINITY;
    if (exponent == 0) return sign * ldexp(fraction, 1 - bias - fraction_bits);
    return sign * ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
}

/* The pattern nearest to `value` (not NaN), ties to even: the candidates are the values in order, found by
 * bisection. */
static uint16_t nearest(float value, int fraction_bits)
{
    const uint16_t sign = signbit(value) ? 0x8000 : 0;
    const double magnitude = fabs((double)value);
    int low = 0, high = ((1 << (15 - fraction_bits)) - 1) << fraction_bits; /* infinity */
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (value_of((uint16_t)middle, fraction_bits) <= magnitude)
            low = middle;
        else
            high = middle;
    }
    if (isinf(magnitude)) return (uint16_t)(sign | high);
    const double below = value_of((uint16_t)low, fraction_bits);
    /* Rounding to infinity is decided as if the next power of two were there. */
    const double step = below - value_of((uint16_t)(low > 0 ? low - 1 : 0), fraction_bits);
    const double above =
        isinf(value_of((uint16_t)high, fraction_bits)) ? below + step : value_of((uint16_t)high, fraction_bits);
    const double to_below = magnitude - below, to_above = above - magnitude;
    const bool up = to_above < to_below || (to_above == to_below && (low & 1));
    return (uint16_t)(sign | (up ? high : low));
}

static void check_all_patterns(enum dtype dtype, int fraction_bits, uint16_t quiet)
{
    uint16_t *patterns = malloc(HALVES * sizeof *patterns), *back = malloc(HALVES * sizeof *back);
    float *values = malloc(HALVES * sizeof *values);
    assert_true(patterns != NULL && back != NULL && values != NULL);
    for (int i = 0; i < HALVES; i++) patterns[i] = (uint16_t)i;
    dtype_info(dtype)->to_f32(patterns, values, HALVES);
    dtype_info(dtype)->from_f32(values, back, HALVES);
    for (int i = 0; i < HALVES; i++) {
        const double expected = value_of(patterns[i], fraction_bits);
        if (isnan(expected)) {
            assert_true(isnan(values[i]));
            assert_int_equal(back[i], patterns[i] | quiet);
            continue;
        }
        assert_true((double)values[i] == expected && (signbit(values[i]) != 0) == (patterns[i] >> 15));
        assert_int_equal(back[i], patterns[i]);
    }
    free(patterns);
    free(back);
    free(values);
}

static void test_all_halves_round_trip(void **state)
{
    (void)state;
    check_all_patterns(DTYPE_F16, 10, 0x200);
}

static void test_all_bfloats_round_trip(void **state)
{
    (void)state;
    check_all_patterns(DTYPE_BF16, 7, 0x40);
}

static void check_rounding(enum dtype dtype, int fraction_bits, const float *values, int64_t count)
{
    uint16_t *patterns = malloc((size_t)count * sizeof *patterns);
    assert_non_null(patterns);
    dtype_info(dtype)->from_f32(values, patterns, count);
    for (int64_t i = 0; i < count; i++)
        if (patterns[i] != nearest(values[i], fraction_bits))
            fail_msg("%a: got %04x, expected %04x", (double)values[i], patterns[i], nearest(values[i], fraction_bits));
    free(patterns);
}

/* Around every stored value: the middle to the next one (a tie) and the float32 neighbours of both. */
static void check_ties(enum dtype dtype, int fraction_bits)
{
    float *values = malloc(HALVES * 6 * sizeof *values);
    int64_t count = 0;
    assert_non_null(values);
    const int infinity = ((1 << (15 - fraction_bits)) - 1) << fraction_bits;
    for (int i = 0; i < infinity; i++) {
        const double here = value_of((uint16_t)i, fraction_bits), next = value_of((uint16_t)(i + 1), fraction_bits);
        const double before = value_of((uint16_t)(i ? i - 1 : 0), fraction_bits);
        const float tie = (float)(isinf(next) ? here + (here - before) / 2 : (here + next) / 2), same = (float)here;
        const uint32_t around[] = {bits_of(same), bits_of(same) + 1, bits_of(tie) - 1, bits_of(tie), bits_of(tie) + 1};
        for (int k = 0; k < 5; k++)
            if (bits_of(tie) != 0) values[count++] = float_of(around[k] | (i & 2 ? 0x80000000u : 0));
    }
    check_rounding(dtype, fraction_bits, values, count);
    free(values);
}

static void test_halves_round_to_nearest_even(void **state)
{
    (void)state;
    check_ties(DTYPE_F16, 10);
}

static void test_bfloats_round_to_nearest_even(void **state)
{
    (void)state;
    check_ties(DTYPE_BF16, 7);
}

static void test_random_and_extreme_floats_round_to_nearest(void **state)
{
    enum { COUNT = 200003 };
    float *values = malloc(COUNT * sizeof *values);
    (void)state;
    assert_non_null(values);
    for (int i = 0; i < COUNT; i++) {
        const uint32_t bits = (uint32_t)random_bits(1, 2, (uint64_t)i);
        const uint32_t exponent =
            i % 2 ? 0x33000000u + bits % 0x14800000u : bits & 0x7fffffffu; /* half the time near halves */
        values[i] = float_of(exponent | (bits & 0x80000000u));
        if (isnan(values[i])) values[i] = INFINITY;
    }
    const float extremes[] = {0.0f,   -0.0f,   65504.0f, 65519.996f, 65520.0f,   65536.0f, -INFINITY,
                              1e-45f, -1e-45f, 0x1p-24f, 0x1p-25f,   0x1.8p-25f, 3.4e38f,  0x1.fffffep127f};
    memcpy(values, extremes, sizeof extremes);
    check_rounding(DTYPE_F16, 10, values, COUNT);
    check_rounding(DTYPE_BF16, 7, values, COUNT);
    free(values);
}

static void test_short_and_unaligned_runs_match_long_ones(void **state)
{
    enum { COUNT = 67 };
    uint16_t halves[COUNT + 1], back[COUNT + 1];
    float values[COUNT + 1], part[COUNT + 1];
    (void)state;
    for (int i = 0; i <= COUNT; i++) halves[i] = (uint16_t)random_bits(3, 4, (uint64_t)i) & 0xbbff; /* finite as half */
    for (int kind = 0; kind < 2; kind++) {
        const struct dtype_info *dtype = dtype_info(kind ? DTYPE_F16 : DTYPE_BF16);
        dtype->to_f32(halves, values, COUNT + 1);
        for (int count = 0; count <= COUNT; count++) {
            part[count] = 7;
            back[count] = 7;
            dtype->to_f32(halves + 1, part, count);
            dtype->from_f32(values + 1, back, count);
            assert_memory_equal(part, values + 1, (size_t)count * sizeof *part);
            assert_memory_equal(back, halves + 1, (size_t)count * sizeof *back);
            assert_true(part[count] == 7 && back[count] == 7);
        }
    }
}

static void test_nan_stays_nan(void **state)
{
    const float values[] = {NAN, -NAN, float_of(0x7f800001u), float_of(0xff80ffffu), float_of(0x7fffffffu)};
    uint16_t patterns[5];
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        dtype_info(kind ? DTYPE_F16 : DTYPE_BF16)->from_f32(values, patterns, 5);
        for (int i = 0; i < 5; i++) assert_true(isnan(value_of(patterns[i], kind ? 10 : 7)));
    }
}

static void test_doubles_convert_with_one_rounding(void **state)
{
    const double values[] = {0.1, -1e300, 1e-320, 0x1.0000010000001p0, 0x1.000001p0};
    const float expected[] = {0.1f, -INFINITY, 0.0f, 0x1.000002p0f, 0x1p0f};
    float converted[5];
    (void)state;
    dtype_info(DTYPE_F64)->to_f32(values, converted, 5);
    for (int i = 0; i < 5; i++) assert_true(converted[i] == expected[i]);
}

static void test_names_are_found(void **state)
{
    enum dtype found;
    (void)state;
    for (int i = 0; i < DTYPE_COUNT; i++) {
        assert_true(dtype_find(dtype_info((enum dtype)i)->name, &found));
        assert_int_equal(found, i);
    }
    assert_false(dtype_find("f32", &found));
    assert_false(dtype_find("", &found));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_halves_round_trip),
        cmocka_unit_test(test_all_bfloats_round_trip),
        cmocka_unit_test(test_halves_round_to_nearest_even),
        cmocka_unit_test(test_bfloats_round_to_nearest_even),
        cmocka_unit_test(test_random_and_extreme_floats_round_to_nearest),
        cmocka_unit_test(test_short_and_unaligned_runs_match_long_ones),
        cmocka_unit_test(test_nan_stays_nan),
        cmocka_unit_test(test_doubles_convert_with_one_rounding),
        cmocka_unit_test(test_names_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
