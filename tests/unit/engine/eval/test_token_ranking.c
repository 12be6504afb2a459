/* The predictions that lost most, against sorting all of them. */
#include "eval/token_ranking.h"
#include "unit.h"

#include <math.h>
#include <stdbool.h>

enum { COUNT = 997, MOST = 40 };

/* Few different values, so that many are equal. */
static void fill(float *values, uint32_t seed, float step)
{
    for (int i = 0; i < COUNT; i++) {
        seed = seed * 1664525U + 1013904223U;
        values[i] = (float)(seed >> 28) * step;
    }
}

static void hold(const float *losses, const float *reference, int64_t most)
{
    int64_t places[COUNT], kept = token_ranking(losses, reference, COUNT, most, places);
    bool taken[COUNT] = {false};
    assert_int_equal(kept, most < COUNT ? most : COUNT);
    for (int64_t rank = 0; rank < kept; rank++) {
        int64_t best = -1;
        for (int64_t i = 0; i < COUNT; i++) {
            if (taken[i]) continue;
            if (best < 0 || token_ranking_key(losses, reference, i) > token_ranking_key(losses, reference, best))
                best = i;
        }
        assert_int_equal(places[rank], best);
        taken[best] = true;
    }
}

static void test_the_worst_come_first_and_the_earlier_of_equal_ones(void **state)
{
    float losses[COUNT], reference[COUNT];
    (void)state;
    fill(losses, 1, 0.5F);
    fill(reference, 2, 0.25F);
    for (int64_t most = 0; most <= MOST; most += MOST / 8) {
        hold(losses, reference, most);
        hold(losses, NULL, most);
    }
    hold(losses, reference, COUNT + 3);
    assert_int_equal(token_ranking(losses, reference, 0, 5, NULL), 0);
}

static void test_what_is_not_finite_is_worst_unless_it_was_so_before(void **state)
{
    const float losses[] = {3, NAN, 9, INFINITY, NAN, INFINITY, 1};
    const float reference[] = {1, 1, 2, 1, NAN, INFINITY, NAN};
    int64_t places[7];
    (void)state;
    assert_int_equal(token_ranking(losses, reference, 7, 7, places), 4);
    assert_true(places[0] == 1 && places[1] == 3 && places[2] == 2 && places[3] == 0);
    assert_int_equal(token_ranking(losses, NULL, 7, 3, places), 3);
    assert_true(places[0] == 1 && places[1] == 3 && places[2] == 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_worst_come_first_and_the_earlier_of_equal_ones),
        cmocka_unit_test(test_what_is_not_finite_is_worst_unless_it_was_so_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
