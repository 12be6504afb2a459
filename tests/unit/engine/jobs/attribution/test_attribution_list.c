/* The quantizations that an attribution asks for, and a plan as what they need, added up. */
#include "attribution_requests.h"
#include "engine/jobs/planned.h"
#include "jobs/attribution/attribution_list.h"

enum { COUNT = 4, LENGTH = 20, TOKENS = COUNT * LENGTH, UNITS = 8 };

static struct attribution_request with_budget(const struct fixture *f)
{
    struct attribution_request request = request_of(f);
    request.budget = 4.5;
    return request;
}

static void check_entry(const struct attribution_entry *entry, enum attribution_target target, int64_t unit,
                        int64_t width_count, int64_t row, int64_t children)
{
    assert_int_equal(entry->target, target);
    assert_int_equal(entry->unit, unit);
    assert_int_equal(entry->width_count, width_count);
    assert_int_equal(entry->row, row);
    assert_int_equal(entry->children, children);
}

static void test_the_list_has_every_measurement_in_order(void **state)
{
    (void)state;
    struct fixture f;
    struct error error;
    struct attribution_result units = {0};
    struct attribution_list list;
    open_fixture(&f, tiny_gpt_neox, COUNT, LENGTH);
    const struct attribution_request request = with_budget(&f);
    if (attribution_list_new(&request, &units, &list, &error) != STATUS_OK) fail_msg("%s", error.detail);
    assert_int_equal(units.unit_count, UNITS);
    assert_int_equal(list.count, 2 + UNITS + 1 + UNITS + 2 + 1);
    const struct attribution_entry *entry = list.entries;
    check_entry(entry++, ATTRIBUTION_FULL_PRECISION, -1, 1, -1, 0);
    check_entry(entry++, ATTRIBUTION_UNQUANTIZED, -1, 1, -1, UNITS);
    for (int64_t i = 0; i < UNITS; i++) check_entry(entry++, ATTRIBUTION_ALONE, i, 3, 3 * i, 0);
    check_entry(entry++, ATTRIBUTION_ALL, -1, 1, 4 * UNITS, UNITS);
    for (int64_t i = 0; i < UNITS; i++) check_entry(entry++, ATTRIBUTION_LEFT_OUT, i, 1, 3 * UNITS + i, 0);
    check_entry(entry, ATTRIBUTION_ALL, -1, 1, 4 * UNITS + 1, 0);
    assert_int_equal(units.widths[entry++->width], 2);
    check_entry(entry, ATTRIBUTION_ALL, -1, 1, 4 * UNITS + 2, 0);
    assert_int_equal(units.widths[entry++->width], 8);
    check_entry(entry, ATTRIBUTION_ALLOCATION, -1, 1, 4 * UNITS + 3, 0);
    assert_int_equal(list.rows, 4 * UNITS + 4);
    attribution_list_reset(&list);
    attribution_result_reset(&units);
    close_fixture(&f);
}

static void test_streams_are_needed_until_the_last_row_that_begins_at_them(void **state)
{
    (void)state;
    struct fixture f;
    struct error error;
    struct attribution_result units = {0};
    struct attribution_list list;
    open_fixture(&f, tiny_gpt_neox, COUNT, LENGTH);
    const struct attribution_request request = with_budget(&f);
    if (attribution_list_new(&request, &units, &list, &error) != STATUS_OK) fail_msg("%s", error.detail);
    for (int64_t i = 0; i < list.count; i++) {
        const struct attribution_entry *entry = &list.entries[i];
        if (entry->row >= 0) assert_int_equal(entry->last, entry->row + entry->width_count - 1);
        for (int64_t k = 1; k <= entry->children; k++) assert_true(entry[k].last <= entry->last);
        assert_true(entry->last <= list.entries[0].last);
        const struct quantize_handover handover = attribution_list_handover(&list, entry);
        assert_int_equal(handover.lent, i > 0);
        assert_int_equal(handover.shown, i == 0 || entry->children > 0);
        assert_int_equal(handover.start, entry->unit < 0 ? -1 : units.units[entry->unit].layer);
    }
    attribution_list_reset(&list);
    attribution_result_reset(&units);
    close_fixture(&f);
}

static struct run_plan plan_of(const struct attribution_request *request)
{
    struct run_plan plan;
    struct error error;
    if (attribution_plan(request, &unbounded, &plan, &error) != STATUS_OK) fail_msg("%s", error.detail);
    return plan;
}

/* Each measurement takes the evaluation and the calibration past the blocks; so does the pass that quantizes nothing.
 * The full-precision pass takes the evaluation twice: as it is, and through the quantization that shows it. */
static void test_a_plan_adds_up_the_list(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, tiny_gpt_neox, COUNT, LENGTH);
    struct attribution_request request = with_budget(&f);
    const int64_t all = 4 * UNITS + 4;
    struct run_plan plan = plan_of(&request);
    assert_int_equal(plan.tokens, 2 * TOKENS + (all + 1) * 2 * TOKENS);
    assert_true(plan.at_most);
    request.left_out = false;
    request.budget = 0;
    plan = plan_of(&request);
    assert_int_equal(plan.tokens, 2 * TOKENS + (all - UNITS - 1 + 1) * 2 * TOKENS);
    assert_false(plan.at_most);
    request.width_count = 0;
    request.calibration = NULL;
    request.method = (struct quantize_method){.quantizer = QUANTIZER_RTN, .rtn = {.bits = 4, .group_size = 16}};
    assert_int_equal(plan_of(&request).tokens, 2 * TOKENS + (UNITS + 1 + 1) * TOKENS);
    close_fixture(&f);
}

/* A dry run plans on a backend that has no memory and computes nothing. */
static void test_a_plan_needs_no_memory_of_the_backend(void **state)
{
    (void)state;
    struct fixture f;
    struct error error;
    struct backend *paper = NULL;
    open_fixture(&f, tiny_gpt_neox, COUNT, LENGTH);
    if (backend_paper_new(&paper, &error) != STATUS_OK) fail_msg("%s", error.detail);
    struct attribution_request request = with_budget(&f);
    const struct run_plan there = plan_of(&request);
    request.backend = paper;
    const struct run_plan planned = plan_of(&request);
    assert_memory_equal(planned.peak, there.peak, sizeof planned.peak);
    assert_true(planned.flops == there.flops && planned.tokens == there.tokens);
    backend_free(paper);
    close_fixture(&f);
}

/* The full-precision hidden states stay in the backend's memory until the end; nothing else does. */
static void test_hidden_states_stay_live(void **state)
{
    (void)state;
    struct fixture f;
    struct error error;
    struct backend *device = NULL;
    open_fixture(&f, tiny_gpt_neox, COUNT, LENGTH);
    if (backend_cuda_paper_new(1LL << 32, NULL, &device, &error) != STATUS_OK) fail_msg("%s", error.detail);
    struct attribution_request request = with_budget(&f);
    request.backend = device;
    assert_int_equal(plan_of(&request).live[PLAN_DEVICE],
                     TOKENS * f.model->config.hidden_size * (int64_t)device->ops->element);
    backend_free(device);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_list_has_every_measurement_in_order),
        cmocka_unit_test(test_streams_are_needed_until_the_last_row_that_begins_at_them),
        cmocka_unit_test(test_a_plan_adds_up_the_list),
        cmocka_unit_test(test_a_plan_needs_no_memory_of_the_backend),
        cmocka_unit_test(test_hidden_states_stay_live),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
