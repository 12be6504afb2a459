/* Attributions of tiny random models, number by number against plain quantizations whose overrides are written here. */
#include "attribution_requests.h"

static struct attribution_result run(const struct attribution_request *request)
{
    struct error error;
    struct attribution_result result;
    if (attribution_run(request, &result, &error) != STATUS_OK) fail_msg("%s: %s", error.pointer, error.detail);
    return result;
}

/* What a plain quantization gives. */
static void check_number(const struct attribution_request *request, const struct quantize_override *items,
                         int64_t count, const struct attribution_number *number)
{
    struct error error;
    struct quantize_result plain;
    struct quantize_request quantize = {
        .model = request->model,
        .backend = request->backend,
        .method = request->method,
        .calibration = request->calibration,
        .evaluation = request->evaluation,
        .seed = request->seed,
    };
    int64_t bits = 0, weights = 0;
    quantize.method.options.override_count = count;
    quantize.method.options.overrides = items;
    if (quantize_run(&quantize, &plain, &error) != STATUS_OK) fail_msg("%s", error.detail);
    for (int64_t i = 0; i < plain.layer_count; i++) {
        if (plain.layers[i].skipped) continue;
        bits += plain.layers[i].bits;
        weights += plain.layers[i].rows * plain.layers[i].columns;
    }
    assert_true(number->loss == plain.q.loss && number->delta == plain.delta && number->kl == plain.kl);
    assert_true(number->delta_low == plain.delta_low && number->delta_high == plain.delta_high);
    assert_true(number->top1_agreement == plain.top1_agreement);
    assert_int_equal(number->bits, bits);
    assert_int_equal(number->weights, weights);
    quantize_result_reset(&plain);
}

/* A pattern for the modules of a unit's name, or for all others; dots are taken as they come. */
static void pattern_of(const struct attribution_unit *unit, bool block, bool others, char out[256])
{
    const char *star = strchr(unit->name, '*');
    char name[2 * PARAMETER_NAME];
    (void)snprintf(name, sizeof name, "%.*s%s%s", (int)strcspn(unit->name, "*"), unit->name,
                   star != NULL ? "[0-9]+" : "", star != NULL ? star + 1 : "");
    (void)snprintf(out, 256, others ? "^(?!%s%s)" : "^%s%s", name, block ? "[.]" : "$");
}

static void check_against_plain(const struct attribution_request *request)
{
    struct attribution_result found = run(request);
    const bool block = request->part == ATTRIBUTION_BLOCK;
    double alone = 0, marginal = 0;
    for (int64_t i = 0; i < found.unit_count; i++) {
        char own[256], others[256];
        pattern_of(&found.units[i], block, false, own);
        pattern_of(&found.units[i], block, true, others);
        for (int64_t w = 0; w < found.width_count; w++) {
            const struct quantize_override items[] = {{.pattern = others, .skip = true},
                                                      {.pattern = own, .bits = found.widths[w]}};
            check_number(request, items, 2, &found.alone[i * found.width_count + w]);
        }
        const struct quantize_override item = {.pattern = own, .skip = true};
        if (request->left_out) check_number(request, &item, 1, &found.left_out[i]);
        assert_int_equal(found.units[i].weights, found.alone[i * found.width_count].weights);
        alone += found.alone[i * found.width_count + found.own].delta;
        if (request->left_out) marginal += found.whole[found.own].delta - found.left_out[i].delta;
    }
    for (int64_t w = 0; w < found.width_count; w++) {
        const struct quantize_override item = {.pattern = ".", .bits = found.widths[w]};
        check_number(request, &item, 1, &found.whole[w]);
    }
    const struct attribution_additive *sums = &found.additive[found.own];
    assert_true(sums->delta_alone == alone && sums->share == alone / found.whole[found.own].delta);
    if (request->left_out) assert_true(sums->delta_marginal == marginal);
    attribution_result_reset(&found);
}

static void test_units_are_what_quantizations_with_overrides_give(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, tiny_llama, 4, 20);
    struct attribution_request request = request_of(&f);
    request.seed = 3;
    check_against_plain(&request);
    request.part = ATTRIBUTION_BLOCK;
    request.width_count = 0;
    check_against_plain(&request);
    close_fixture(&f);
}

static void test_options_of_the_method_hold_for_units(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, tiny_gpt_neox, 4, 20);
    struct attribution_request request = request_of(&f);
    request.width_count = 0;
    request.method.options =
        (struct quantize_options){.activation_bits = 8, .rotation = ROTATION_HADAMARD, .keep_outliers = 2};
    check_against_plain(&request);
    request.method = (struct quantize_method){.quantizer = QUANTIZER_LLM_INT8, .llm_int8 = {.threshold = 2}};
    check_against_plain(&request);
    close_fixture(&f);
}

static void test_methods_without_bits_have_one_width(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, tiny_gpt2, 4, 20);
    struct attribution_request request = request_of(&f);
    request.width_count = 0;
    request.calibration = NULL;
    request.method = (struct quantize_method){.quantizer = QUANTIZER_NF4, .nf4 = {.block_size = 64}};
    struct attribution_result found = run(&request);
    assert_int_equal(found.width_count, 1);
    assert_int_equal(found.unit_count, 8);
    assert_string_equal(found.units[0].name, "transformer.h.0.attn.c_attn");
    assert_int_equal(found.frontier_count, 0);
    attribution_result_reset(&found);
    check_against_plain(&request);
    close_fixture(&f);
}

static void test_experts_of_a_step_are_one_unit(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, tiny_olmoe, 4, 20);
    struct attribution_request request = request_of(&f);
    request.width_count = 0;
    struct attribution_result found = run(&request);
    assert_int_equal(found.unit_count, 2 * 7);
    assert_string_equal(found.units[4].name, "model.layers.0.mlp.experts.*.gate_proj");
    assert_int_equal(found.units[4].weights, 5 * 16 * 32);
    attribution_result_reset(&found);
    check_against_plain(&request);
    close_fixture(&f);
}

static void test_an_allocation_is_what_its_overrides_give(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, tiny_llama, 4, 20);
    struct attribution_request request = request_of(&f);
    request.left_out = false;
    request.budget = 4.5;
    for (int objective = ATTRIBUTION_LOSS; objective <= ATTRIBUTION_KL; objective++) {
        request.objective = (enum attribution_objective)objective;
        struct attribution_result found = run(&request);
        int64_t bits = 0, weights = 0;
        double kl = 0;
        assert_true(found.allocated && found.frontier_count > 1);
        assert_true(found.frontier[0].bits_per_weight > 3 && found.frontier[0].unit == -1);
        for (int64_t i = 0; i < found.unit_count; i++) {
            int64_t w = 0;
            while (found.widths[w] != found.picked[i]) w++;
            bits += found.alone[i * found.width_count + w].bits;
            weights += found.alone[i * found.width_count + w].weights;
            kl += found.alone[i * found.width_count + w].kl;
        }
        assert_true((double)bits <= 4.5 * (double)weights &&
                    found.predicted.bits_per_weight == (double)bits / (double)weights);
        assert_true(found.predicted.kl == kl);
        assert_true(found.measured.bits == bits && found.measured.weights == weights);
        check_number(&request, found.overrides->items, found.overrides->count, &found.measured);
        attribution_result_reset(&found);
    }
    close_fixture(&f);
}

static void test_a_budget_that_is_too_small_says_what_is_least(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, tiny_gpt_neox, 4, 20);
    struct attribution_request request = request_of(&f);
    request.left_out = false;
    request.part = ATTRIBUTION_BLOCK;
    request.budget = 2.25;
    struct attribution_result found = run(&request);
    assert_true(!found.allocated && found.least == 3);
    assert_true(found.frontier[0].bits_per_weight == 3 && found.frontier[0].bits == 2);
    attribution_result_reset(&found);
    close_fixture(&f);
}

/* ---- attempts ---- */

struct watch {
    int checks_left, lines; /* stops when there are none left */
    int64_t done, total;
    bool fell;
};

static enum status watch_check(void *owner, struct error *error)
{
    struct watch *watch = owner;
    return watch->checks_left-- > 0 ? STATUS_OK : error_set(error, STATUS_CANCELLED, "stopped");
}

static void watch_line(void *owner, const char *line)
{
    ((struct watch *)owner)->lines += strstr(line, ": delta ") != NULL;
}

static void watch_progress(void *owner, int64_t done, int64_t total, const char *unit)
{
    struct watch *watch = owner;
    assert_string_equal(unit, "block");
    watch->fell = watch->fell || done < watch->done || done > total;
    watch->done = done;
    watch->total = total;
}

static void test_an_attempt_goes_on_at_the_next_unit(void **state)
{
    (void)state;
    struct fixture f;
    struct error error;
    open_fixture(&f, tiny_gpt_neox, 4, 20);
    struct attribution_request request = request_of(&f);
    struct watch watch = {.checks_left = INT32_MAX};
    const struct monitor monitor = {&watch, watch_progress, watch_line, watch_check};
    request.monitor = &monitor;
    request.budget = 5;
    struct attribution_result whole = run(&request), found = {0};
    const int lines = watch.lines;
    assert_int_equal(lines, 8 * 3 + 8);
    assert_true(!watch.fell && watch.done == watch.total && watch.total > 0);
    request.work_directory = f.work.directory;
    int attempts = 0, seen = 0, most = 0;
    for (enum status status = STATUS_CANCELLED; status != STATUS_OK; attempts++) {
        watch = (struct watch){.checks_left = 150};
        status = attribution_run(&request, &found, &error);
        if (status != STATUS_OK) assert_int_equal(status, STATUS_CANCELLED);
        assert_true(attempts < 200 && !watch.fell);
        seen += watch.lines;
        if (watch.lines > most) most = watch.lines;
    }
    assert_true(attempts > 2 && most < lines);
    assert_true(seen >= lines);
    assert_memory_equal(found.alone, whole.alone, (size_t)(found.unit_count * found.width_count) * sizeof *found.alone);
    assert_memory_equal(found.left_out, whole.left_out, (size_t)found.unit_count * sizeof *found.left_out);
    assert_memory_equal(found.whole, whole.whole, sizeof found.whole);
    assert_memory_equal(&found.measured, &whole.measured, sizeof found.measured);
    attribution_result_reset(&found);
    attribution_result_reset(&whole);
    close_fixture(&f);
}

static void refuse(const struct attribution_request *request, const char *pointer)
{
    struct error error = {0};
    struct attribution_result result;
    assert_int_equal(attribution_run(request, &result, &error), STATUS_INVALID);
    assert_string_equal(error.pointer, pointer);
    assert_null(result.units);
}

static void test_what_cannot_be_attributed_is_refused(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, tiny_gpt_neox, 4, 20);
    const struct quantize_override item = {.pattern = ".", .skip = true};
    struct attribution_request request = request_of(&f);
    request.method.options.override_count = 1;
    request.method.options.overrides = &item;
    refuse(&request, "/method/overrides");
    request = request_of(&f);
    request.method.options.lm_head_bits = 8;
    refuse(&request, "/method/lm_head_bits");
    request = request_of(&f);
    request.width_count = 0;
    request.budget = 4;
    refuse(&request, "/budget");
    request = request_of(&f);
    request.method = (struct quantize_method){.quantizer = QUANTIZER_NF4, .nf4 = {.block_size = 64}};
    refuse(&request, "/bits");
    request = request_of(&f);
    request.calibration = NULL;
    refuse(&request, "/calibration");
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_units_are_what_quantizations_with_overrides_give),
        cmocka_unit_test(test_options_of_the_method_hold_for_units),
        cmocka_unit_test(test_methods_without_bits_have_one_width),
        cmocka_unit_test(test_experts_of_a_step_are_one_unit),
        cmocka_unit_test(test_an_allocation_is_what_its_overrides_give),
        cmocka_unit_test(test_a_budget_that_is_too_small_says_what_is_least),
        cmocka_unit_test(test_an_attempt_goes_on_at_the_next_unit),
        cmocka_unit_test(test_what_cannot_be_attributed_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
