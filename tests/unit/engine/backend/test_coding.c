/* Grids against their definition, and at the edges: ties, groups without negatives, zeros, ends of float's range. */
#include "backend/coding.h"

#include "base/random.h"
#include "unit.h"

#include <string.h>

static void encode(int bits, bool sym, const float *weights, int64_t count, double scale, double zero, uint8_t *codes)
{
    coding_encode((struct coding){.bits = bits, .sym = sym}, NULL, weights, count, scale, zero, codes);
}

static void find(int bits, bool sym, const float *weights, int64_t count, double *scale, double *zero)
{
    coding_find((struct coding){.bits = bits, .sym = sym}, weights, count, scale, zero);
}

static void test_symmetric_extreme_lies_on_a_tie(void **state)
{
    (void)state;
    const float weights[] = {-1.0f, 0.5f};
    double scale, zero;
    uint8_t codes[2];
    find(4, true, weights, 2, &scale, &zero);
    assert_true(scale == 2.0 / 15.0);
    assert_true(zero == 8);
    encode(4, true, weights, 2, scale, zero, codes);
    assert_true(-1.0 / scale == -7.5);
    assert_int_equal(codes[0], 0); /* half to even: -8 */
    assert_int_equal(codes[1], 12);
}

static void test_group_without_negatives_keeps_half_the_step(void **state)
{
    (void)state;
    const float weights[] = {0.25f, 1.5f, 0.75f};
    double scale, zero;
    uint8_t codes[3];
    find(4, true, weights, 3, &scale, &zero);
    assert_true(scale == 1.5 / 15);
    assert_true(zero == 8);
    encode(4, true, weights, 3, scale, zero, codes);
    assert_int_equal(codes[1], 15); /* clips */
}

/* As in AutoAWQ: the grid reaches from the least to the largest value, and its zero point is a code. */
static void test_zero_points_of_ranges_on_one_side_are_codes(void **state)
{
    (void)state;
    const struct coding coding = {.bits = 4, .rule = SCALE_RANGE};
    double scale, zero;
    coding_grid(coding, 1, 2.5, &scale, &zero);
    assert_true(scale == 1.5 / 15 && zero == 0);
    coding_grid(coding, -2.5, -1, &scale, &zero);
    assert_true(scale == 1.5 / 15 && zero == 15);
    coding_grid(coding, -0.5, 1, &scale, &zero);
    assert_true(scale == 1.5 / 15 && zero == 5);
}

static void test_zero_group_gets_the_zero_point(void **state)
{
    (void)state;
    const float weights[130] = {0};
    for (int bits = 2; bits <= 8; bits++)
        for (int sym = 0; sym < 2; sym++) {
            double scale, zero;
            uint8_t codes[130];
            find(bits, sym != 0, weights, 130, &scale, &zero);
            assert_true(scale > 0);
            encode(bits, sym != 0, weights, 130, scale, zero, codes);
            for (int i = 0; i < 130; i++) assert_int_equal(codes[i], (int)zero);
        }
}

static void test_rounds_half_to_even(void **state)
{
    (void)state;
    const float weights[] = {-2.5f, -1.5f, -0.5f, 0.5f, 1.5f, 2.5f};
    const uint8_t expected[] = {2, 2, 4, 4, 6, 6};
    uint8_t codes[6];
    encode(3, false, weights, 6, 1, 4, codes);
    assert_memory_equal(codes, expected, sizeof expected);
}

static void test_ends_of_the_range_stay_in_the_grid(void **state)
{
    (void)state;
    const float tiny[] = {-1e-45f, 1e-45f, 0}, huge[] = {-3e38f, 3e38f}, mixed[] = {FLT_MAX, 1e-30f};
    double scale, zero;
    uint8_t codes[3];
    find(4, false, tiny, 3, &scale, &zero);
    assert_true(scale == (double)FLT_MIN);
    encode(4, false, tiny, 3, scale, zero, codes);
    assert_int_equal(codes[2], (int)zero);
    find(4, true, huge, 2, &scale, &zero);
    assert_true(scale == 2 * (double)3e38f / 15);
    find(8, false, mixed, 2, &scale, &zero);
    encode(8, false, mixed, 2, scale, zero, codes);
    assert_int_equal(codes[0], 255);
    assert_int_equal(codes[1], 0);
}

static void test_nan_gives_a_code_in_range(void **state)
{
    (void)state;
    const float weights[] = {NAN, INFINITY, -INFINITY};
    uint8_t codes[3];
    encode(2, true, weights, 3, 1, 2, codes);
    assert_int_equal(codes[0], 0);
    assert_int_equal(codes[1], 3);
    assert_int_equal(codes[2], 0);
}

/* The definition with library functions. */
static void test_random_groups_match_the_definition(void **state)
{
    (void)state;
    for (uint64_t trial = 0; trial < 4000; trial++) {
        const int bits = (int[]){2, 3, 4, 8}[trial % 4];
        const bool sym = (trial / 4) % 2 == 0;
        const int64_t count = 1 + (int64_t)random_below(5, 0, trial, 40);
        float weights[40];
        double lo = 0, hi = 0, scale, zero;
        uint8_t codes[40];
        for (int64_t i = 0; i < count; i++) {
            weights[i] = (float)random_normal(5, 1, trial * 64 + (uint64_t)i);
            if (trial % 7 == 0) weights[i] = fabsf(weights[i]);
            lo = fmin(lo, (double)weights[i]);
            hi = fmax(hi, (double)weights[i]);
        }
        const double top = (1 << bits) - 1;
        if (sym) {
            hi = fmax(fabs(lo), hi);
            if (lo < 0) lo = -hi;
        }
        const double step = (hi - lo) / top, point = sym ? (double)(1 << (bits - 1)) : rint(-lo / step);
        find(bits, sym, weights, count, &scale, &zero);
        assert_true(scale == step && zero == point);
        encode(bits, sym, weights, count, scale, zero, codes);
        for (int64_t i = 0; i < count; i++)
            assert_int_equal(codes[i], (int)fmin(fmax(rint((double)weights[i] / step) + point, 0), top));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_symmetric_extreme_lies_on_a_tie),
        cmocka_unit_test(test_group_without_negatives_keeps_half_the_step),
        cmocka_unit_test(test_zero_points_of_ranges_on_one_side_are_codes),
        cmocka_unit_test(test_zero_group_gets_the_zero_point),
        cmocka_unit_test(test_rounds_half_to_even),
        cmocka_unit_test(test_ends_of_the_range_stay_in_the_grid),
        cmocka_unit_test(test_nan_gives_a_code_in_range),
        cmocka_unit_test(test_random_groups_match_the_definition),
    };
    return cmocka_run_group_tests_name("coding", tests, NULL, NULL);
}
