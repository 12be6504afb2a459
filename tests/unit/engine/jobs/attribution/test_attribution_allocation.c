/* Widths under a budget, against all that there are: small enough to try every one. */
#include "unit.h"

#include "base/random.h"
#include "jobs/attribution/attribution_allocation.h"

#include <math.h>

enum { UNITS = 5, WIDTHS = 3, ALL = 243 };

static struct attribution_choice choices[UNITS * WIDTHS];

/* Sizes with a common divisor, harms that fall with the width but for some noise. */
static void draw(uint64_t seed)
{
    for (int u = 0; u < UNITS; u++) {
        const int64_t weights = 128 * (1 + (int64_t)random_below(seed, 0, (uint64_t)u, 9));
        for (int w = 0; w < WIDTHS; w++)
            choices[u * WIDTHS + w] = (struct attribution_choice){
                weights * (2 + w),
                (double)weights * exp(-2.0 * w) + 40 * random_normal(seed, 1, (uint64_t)(u * WIDTHS + w))};
    }
}

static void add_up(int all, int64_t *bits, double *harm)
{
    *bits = 0;
    *harm = 0;
    for (int u = 0; u < UNITS; u++, all /= WIDTHS) {
        *bits += choices[u * WIDTHS + all % WIDTHS].bits;
        *harm += choices[u * WIDTHS + all % WIDTHS].harm;
    }
}

static double best_below(int64_t budget)
{
    double best = INFINITY, harm;
    int64_t bits;
    for (int all = 0; all < ALL; all++) {
        add_up(all, &bits, &harm);
        if (bits <= budget) best = fmin(best, harm);
    }
    return best;
}

static void picked_sums(const int64_t *picked, int64_t *bits, double *harm)
{
    *bits = 0;
    *harm = 0;
    for (int u = 0; u < UNITS; u++) {
        *bits += choices[u * WIDTHS + picked[u]].bits;
        *harm += choices[u * WIDTHS + picked[u]].harm;
    }
}

static void test_no_allocation_is_better(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct error error;
        int64_t picked[UNITS], least, bits, most;
        double harm;
        draw(seed);
        add_up(0, &bits, &harm);
        add_up(ALL - 1, &most, &harm);
        for (int64_t budget = bits; budget <= most + 256; budget += 64) {
            int64_t taken;
            assert_int_equal(attribution_allocation_find(choices, UNITS, WIDTHS, budget, picked, &least, &error),
                             STATUS_OK);
            picked_sums(picked, &taken, &harm);
            assert_true(taken <= budget && least == bits);
            assert_true(fabs(harm - best_below(budget)) < 1e-9);
        }
    }
}

static void test_a_budget_below_the_least_widths_is_not_found(void **state)
{
    (void)state;
    struct error error;
    int64_t picked[UNITS], least, bits;
    double harm;
    draw(1);
    add_up(0, &bits, &harm);
    assert_int_equal(attribution_allocation_find(choices, UNITS, WIDTHS, bits - 1, picked, &least, &error),
                     STATUS_NOT_FOUND);
    assert_int_equal(least, bits);
}

/* Sizes without a common divisor are rounded up: the budget holds, and little is given away. */
static void test_odd_sizes_stay_below_the_budget(void **state)
{
    (void)state;
    struct error error;
    int64_t picked[UNITS], least, bits, most;
    double harm;
    draw(3);
    for (int i = 0; i < UNITS * WIDTHS; i++) choices[i].bits = choices[i].bits * 100003 + i % WIDTHS * 7 + i % 2;
    add_up(0, &least, &harm);
    add_up(ALL - 1, &most, &harm);
    for (int64_t budget = least; budget <= most; budget += (most - least) / 37) {
        const int64_t spare = UNITS * ((budget - least) / 65535 + 1);
        assert_int_equal(attribution_allocation_find(choices, UNITS, WIDTHS, budget, picked, &least, &error),
                         STATUS_OK);
        picked_sums(picked, &bits, &harm);
        assert_true(bits <= budget);
        assert_true(harm <= best_below(budget - spare) + 1e-9);
    }
}

static void test_the_frontier_is_the_best_for_the_bits_it_takes(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct error error;
        struct attribution_step steps[UNITS * (WIDTHS - 1)];
        int64_t picked[UNITS] = {0}, count, bits;
        double harm, before, rate = INFINITY;
        draw(seed);
        assert_int_equal(attribution_allocation_frontier(choices, UNITS, WIDTHS, steps, &count, &error), STATUS_OK);
        picked_sums(picked, &bits, &before);
        for (int64_t i = 0; i < count; i++) {
            const int64_t last = bits;
            picked[steps[i].unit] = steps[i].width;
            picked_sums(picked, &bits, &harm);
            assert_true(harm < before && bits > last);
            assert_true((before - harm) / (double)(bits - last) <= rate * (1 + 1e-9));
            assert_true(fabs(harm - best_below(bits)) < 1e-9);
            rate = (before - harm) / (double)(bits - last);
            before = harm;
        }
        assert_true(fabs(before - best_below(INT64_MAX)) < 1e-9);
    }
}

static void test_a_loss_that_is_no_number_is_avoided(void **state)
{
    (void)state;
    struct error error;
    struct attribution_step steps[UNITS * (WIDTHS - 1)];
    int64_t picked[UNITS], least, count, bits;
    double harm;
    draw(2);
    choices[0].harm = INFINITY;
    choices[WIDTHS].harm = NAN;
    for (int u = 0; u < UNITS; u++) choices[u * WIDTHS + 1].harm = 5 + u;
    add_up(0, &bits, &harm);
    const int64_t budget = bits + choices[1].bits - choices[0].bits + choices[WIDTHS + 1].bits - choices[WIDTHS].bits;
    assert_int_equal(attribution_allocation_find(choices, UNITS, WIDTHS, budget, picked, &least, &error), STATUS_OK);
    assert_true(picked[0] == 1 && picked[1] == 1);
    assert_int_equal(attribution_allocation_frontier(choices, UNITS, WIDTHS, steps, &count, &error), STATUS_OK);
    assert_true(count >= 2 && steps[0].unit < 2 && steps[1].unit < 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_allocation_is_better),
        cmocka_unit_test(test_a_budget_below_the_least_widths_is_not_found),
        cmocka_unit_test(test_odd_sizes_stay_below_the_budget),
        cmocka_unit_test(test_the_frontier_is_the_best_for_the_bits_it_takes),
        cmocka_unit_test(test_a_loss_that_is_no_number_is_avoided),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
