/* Overlap between calibration and evaluation, counted by hand. */
#include "base/random.h"
#include "eval/overlap.h"
#include "unit.h"

#include <string.h>

static struct overlap find(struct sequences evaluation, struct sequences calibration)
{
    struct overlap found;
    struct error error;
    assert_int_equal(overlap_find(&evaluation, &calibration, &found, &error), STATUS_OK);
    return found;
}

static void fill(uint32_t *tokens, int count, uint64_t seed)
{
    for (int i = 0; i < count; i++) tokens[i] = (uint32_t)random_below(seed, 0, (uint64_t)i, 1000);
}

static void test_other_text_does_not_overlap(void **state)
{
    (void)state;
    uint32_t a[200], b[200];
    int64_t starts[] = {0, 100, 200};
    fill(a, 200, 1);
    fill(b, 200, 2);
    const struct overlap found = find((struct sequences){2, starts, a}, (struct sequences){2, starts, b});
    assert_int_equal(found.window, 32);
    assert_int_equal(found.windows, 6);
    assert_int_equal(found.overlapping, 0);
}

static void test_the_same_text_overlaps_wherever_it_stands(void **state)
{
    (void)state;
    uint32_t a[200], b[200];
    int64_t starts[] = {0, 100, 200}, one[] = {0, 200};
    fill(a, 200, 1);
    fill(b, 200, 2);
    assert_int_equal(find((struct sequences){2, starts, a}, (struct sequences){2, starts, a}).overlapping, 6);
    /* tokens 32 … 95 of the first sequence at an odd place of the calibration: its second and third window */
    memcpy(b + 17, a + 32, 64 * sizeof *a);
    assert_int_equal(find((struct sequences){2, starts, a}, (struct sequences){1, one, b}).overlapping, 2);
    /* one token short of the third */
    b[17 + 63]++;
    assert_int_equal(find((struct sequences){2, starts, a}, (struct sequences){1, one, b}).overlapping, 1);
}

static void test_equal_windows_all_count(void **state)
{
    (void)state;
    uint32_t a[128], b[40];
    int64_t starts[] = {0, 128}, few[] = {0, 40};
    memset(a, 0, sizeof a);
    memset(b, 0, sizeof b);
    const struct overlap found = find((struct sequences){1, starts, a}, (struct sequences){1, few, b});
    assert_int_equal(found.windows, 4);
    assert_int_equal(found.overlapping, 4);
}

static void test_short_sequences_have_shorter_windows(void **state)
{
    (void)state;
    uint32_t a[] = {1, 2, 3, 4, 5, 6, 7, 8}, b[] = {9, 5, 6, 7, 8, 9};
    int64_t starts[] = {0, 4, 8}, one[] = {0, 6};
    const struct overlap found = find((struct sequences){2, starts, a}, (struct sequences){1, one, b});
    assert_int_equal(found.window, 4);
    assert_int_equal(found.windows, 2);
    assert_int_equal(found.overlapping, 1);
    assert_int_equal(find((struct sequences){0, starts, a}, (struct sequences){1, one, b}).windows, 0);
}

/* The only window of a calibration sequence, and the last one of a longer one. */
static void test_a_calibration_sequence_is_looked_through_to_its_end(void **state)
{
    (void)state;
    uint32_t a[] = {1, 2, 3, 4, 5, 6, 7, 8}, whole[] = {5, 6, 7, 8}, last[] = {9, 9, 5, 6, 7, 8},
             cut[] = {9, 9, 9, 5, 6, 7};
    int64_t starts[] = {0, 4, 8}, four[] = {0, 4}, six[] = {0, 6};
    const struct sequences evaluation = {2, starts, a};
    assert_int_equal(find(evaluation, (struct sequences){1, four, whole}).overlapping, 1);
    assert_int_equal(find(evaluation, (struct sequences){1, six, last}).overlapping, 1);
    assert_int_equal(find(evaluation, (struct sequences){1, six, cut}).overlapping, 0);
}

/* With m the multiplier of the hash, 559805 m^2 + 1966853 m + 1137922 is a multiple of 2^64. */
static void test_other_tokens_of_the_same_hash_are_no_overlap(void **state)
{
    (void)state;
    uint32_t a[] = {10, 20, 30}, b[] = {10 + 559805, 20 + 1966853, 30 + 1137922};
    int64_t starts[] = {0, 3};
    const uint64_t m = 0x9E3779B97F4A7C15U;
    assert_true((559805 * m + 1966853) * m + 1137922 == 0);
    assert_int_equal(find((struct sequences){1, starts, a}, (struct sequences){1, starts, b}).overlapping, 0);
    assert_int_equal(find((struct sequences){1, starts, a}, (struct sequences){1, starts, a}).overlapping, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_other_text_does_not_overlap),
        cmocka_unit_test(test_the_same_text_overlaps_wherever_it_stands),
        cmocka_unit_test(test_equal_windows_all_count),
        cmocka_unit_test(test_a_calibration_sequence_is_looked_through_to_its_end),
        cmocka_unit_test(test_other_tokens_of_the_same_hash_are_no_overlap),
        cmocka_unit_test(test_short_sequences_have_shorter_windows),
    };
    return cmocka_run_group_tests_name("overlap", tests, NULL, NULL);
}
