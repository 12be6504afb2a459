/* Whole quantizations of tiny random models: what must not change the result, what is refused, and that stopping is
 * clean. */
#include "engine/jobs/tiny_model.h"
#include "eval/bootstrap.h"
#include "jobs/quantize/quantize.h"

struct fixture {
    struct team *team;
    struct backend *backend;
    struct scratch scratch;
    struct model *model;
    int64_t starts[13], long_starts[13];
    uint32_t tokens[12 * 24], long_tokens[12 * 40];
    struct sequences evaluation, calibration; /* 12 sequences of 24; 12 of 5, 8, … 38 */
};

static void open_fixture(struct fixture *f, const char *config, struct tiny_change change)
{
    struct error error;
    memset(f, 0, sizeof *f);
    tiny_write(&f->scratch, config, change);
    assert_int_equal(team_new(2, &f->team, &error), STATUS_OK);
    assert_int_equal(backend_cpu_new(f->team, &f->backend, &error), STATUS_OK);
    if (model_open(f->scratch.directory, &f->model, &error) != STATUS_OK) fail_msg("%s", error.detail);
    for (int i = 0; i < 12; i++) {
        f->starts[i + 1] = f->starts[i] + 24;
        f->long_starts[i + 1] = f->long_starts[i] + 5 + 3 * i;
    }
    for (int i = 0; i < 12 * 24; i++) f->tokens[i] = (uint32_t)random_below(1, 0, (uint64_t)i, 50);
    for (int i = 0; i < 12 * 40; i++) f->long_tokens[i] = (uint32_t)random_below(1, 1, (uint64_t)i, 50);
    f->evaluation = (struct sequences){12, f->starts, f->tokens};
    f->calibration = (struct sequences){12, f->long_starts, f->long_tokens};
}

static void close_fixture(struct fixture *f)
{
    model_close(f->model);
    backend_free(f->backend);
    team_free(f->team);
    scratch_close(&f->scratch);
}

static struct quantize_request request_of(const struct fixture *f)
{
    return (struct quantize_request){
        .model = f->model,
        .backend = f->backend,
        .method = {.quantizer = QUANTIZER_GPTQ, .gptq = {4, 16, true, false, true, 0.05}},
        .calibration = &f->calibration,
        .evaluation = &f->evaluation,
    };
}

static struct quantize_result run(const struct quantize_request *request)
{
    struct error error;
    struct quantize_result result;
    if (quantize_run(request, &result, &error) != STATUS_OK) fail_msg("%s", error.detail);
    return result;
}

static void refuse(const struct quantize_request *request, enum status status, const char *words)
{
    struct error error = {0};
    struct quantize_result result;
    assert_int_equal(quantize_run(request, &result, &error), status);
    if (strstr(error.detail, words) == NULL) fail_msg("\"%s\" does not say \"%s\"", error.detail, words);
    assert_null(result.layers);
}

static void assert_same(const struct quantize_result *a, const struct quantize_result *b)
{
    assert_int_equal(a->layer_count, b->layer_count);
    assert_memory_equal(a->layers, b->layers, (size_t)a->layer_count * sizeof *a->layers);
    assert_memory_equal(a->q.sequence_losses, b->q.sequence_losses, (size_t)a->q.sequences * sizeof(double));
    assert_true(a->delta == b->delta && a->delta_low == b->delta_low && a->delta_high == b->delta_high);
    assert_true(a->kl == b->kl && a->top1_agreement == b->top1_agreement);
}

/* Nothing held, only what is narrow held, everything held: the same bits. */
static void check_holding_of(const char *config, const struct quantize_method *method)
{
    struct fixture f;
    open_fixture(&f, config, (struct tiny_change){0});
    struct quantize_request request = request_of(&f);
    if (method != NULL) request.method = *method;
    const struct quantize_result everything = run(&request);
    const int64_t token = 4 * f.long_starts[12], budgets[] = {1, 31 * token, 32 * token, 64 * token, 100 * token};
    for (size_t i = 0; i < sizeof budgets / sizeof budgets[0]; i++) {
        request.hold_bytes = budgets[i];
        struct quantize_result result = run(&request);
        assert_same(&everything, &result);
        quantize_result_reset(&result);
    }
    assert_true(everything.delta_low <= everything.delta && everything.delta <= everything.delta_high);
    struct quantize_result copy = everything;
    quantize_result_reset(&copy);
    close_fixture(&f);
}

static void check_holding(const char *config)
{
    check_holding_of(config, NULL);
}

/* Its passes begin where the search's began, and leave the hidden states as they were. */
static void test_what_is_held_does_not_change_what_a_block_judges(void **state)
{
    static const struct quantize_method awq = {.quantizer = QUANTIZER_AWQ,
                                               .awq = {3, 16, 4, .clip = true, .judge = AWQ_JUDGE_BLOCK}};
    (void)state;
    check_holding_of(tiny_llama, &awq);
    check_holding_of(tiny_gpt_neox, &awq);
    check_holding_of(tiny_olmoe, &awq);
}

static void test_what_is_held_does_not_change_llama(void **state)
{
    (void)state;
    check_holding(tiny_llama);
}

static void test_what_is_held_does_not_change_gpt_neox(void **state)
{
    (void)state;
    check_holding(tiny_gpt_neox);
}

static void test_what_is_held_does_not_change_others(void **state)
{
    (void)state;
    check_holding(tiny_gpt2);
    check_holding(tiny_apertus);
    check_holding(tiny_opt);
    check_holding(tiny_olmoe);
    check_holding(tiny_olmoe_wide);
}

/* The means are those of their sequences' values, and each lies in the middle of Student's interval. */
static void check_means(const struct quantize_result *result)
{
    const double *const values[] = {[QUANTIZE_LOSS_FP] = result->fp.sequence_losses,
                                    [QUANTIZE_LOSS_Q] = result->q.sequence_losses,
                                    [QUANTIZE_KL] = result->sequence_kl,
                                    [QUANTIZE_TOP1] = result->sequence_top1};
    const double means[] = {result->fp.loss, result->q.loss, result->kl, result->top1_agreement};
    const int64_t *weights = result->fp.sequence_predictions, count = result->fp.sequences;
    for (int i = 0; i < QUANTIZE_MEANS; i++) {
        double sum = 0;
        for (int64_t s = 0; s < count; s++) sum += (double)weights[s] * values[i][s] / (double)result->fp.predictions;
        assert_true(fabs(sum - means[i]) < 1e-13 * (1 + means[i])); /* some hundred summands in another order */
        const double variance = ratio_variance(NULL, values[i], weights, count);
        const struct ratio_interval wanted = ratio_interval_mean(means[i], variance, (double)(count - 1)),
                                    found = result->intervals[i];
        assert_int_equal(found.method, RATIO_STUDENT);
        assert_true(found.low == fmax(wanted.low, 0) && wanted.low < means[i]);
        assert_true(found.high == (i == QUANTIZE_TOP1 ? fmin(wanted.high, 1) : wanted.high));
    }
}

static void test_full_precision_losses_are_those_of_evaluate(void **state)
{
    (void)state;
    struct fixture f;
    struct error error;
    struct evaluate_result evaluation;
    open_fixture(&f, tiny_gpt_neox, (struct tiny_change){0});
    struct ratio_interval interval;
    struct quantize_request request = request_of(&f);
    request.seed = 4;
    struct quantize_result result = run(&request);
    assert_int_equal(evaluate_run(f.model, f.backend, &f.evaluation, NULL, &evaluation, &error), STATUS_OK);
    assert_memory_equal(result.fp.sequence_losses, evaluation.sequence_losses, 12 * sizeof(double));
    assert_true(result.fp.loss == evaluation.loss);
    assert_true(result.delta == result.q.loss / result.fp.loss - 1);
    assert_int_equal(ratio_interval(result.fp.sequence_losses, result.q.sequence_losses, result.fp.sequence_predictions,
                                    12, result.delta, 4, &interval, &error),
                     STATUS_OK);
    assert_true(result.delta_low == interval.low && result.delta_high == interval.high);
    assert_true(interval.low < interval.high && result.delta_method == RATIO_STUDENT);
    check_means(&result);
    assert_int_equal(result.layer_count, 8);
    assert_string_equal(result.layers[0].name, "gpt_neox.layers.0.attention.query_key_value");
    assert_string_equal(result.layers[7].name, "gpt_neox.layers.1.mlp.dense_4h_to_h");
    assert_true(result.bits_per_weight == 4 + 16.0 / 16);
    evaluate_result_reset(&evaluation);
    quantize_result_reset(&result);
    close_fixture(&f);
}

/* Heads of 24 tokens, given cut or not, in any order of equals. */
static void test_calibration_is_cut_to_the_positions_and_sorted(void **state)
{
    (void)state;
    struct fixture f;
    int64_t starts[13] = {0};
    uint32_t tokens[12 * 24];
    open_fixture(&f, tiny_llama, (struct tiny_change){0});
    struct quantize_request request = request_of(&f);
    struct quantize_result result = run(&request), again;
    for (int i = 0; i < 12; i++) {
        const int64_t length = f.long_starts[i + 1] - f.long_starts[i], cut = length < 24 ? length : 24;
        memcpy(tokens + starts[i], f.long_tokens + f.long_starts[i], (size_t)cut * sizeof *tokens);
        starts[i + 1] = starts[i] + cut;
    }
    const struct sequences head = {12, starts, tokens};
    request.calibration = &head;
    again = run(&request);
    assert_same(&result, &again);
    assert_int_equal(result.calibration_tokens, starts[12]);
    assert_int_equal(result.layers[0].tokens, starts[12]);
    quantize_result_reset(&result);
    quantize_result_reset(&again);
    close_fixture(&f);
}

/* Longest first, whatever the order given. */
static void test_calibration_order_does_not_matter(void **state)
{
    (void)state;
    struct fixture f;
    int64_t starts[8] = {0};
    uint32_t tokens[7 * 24];
    open_fixture(&f, tiny_llama, (struct tiny_change){0});
    struct quantize_request request = request_of(&f);
    f.calibration.count = 7; /* 5, 8, … 23 tokens */
    struct quantize_result result = run(&request), again;
    for (int i = 0; i < 7; i++) {
        const int64_t length = f.long_starts[7 - i] - f.long_starts[6 - i];
        memcpy(tokens + starts[i], f.long_tokens + f.long_starts[6 - i], (size_t)length * sizeof *tokens);
        starts[i + 1] = starts[i] + length;
    }
    const struct sequences reversed = {7, starts, tokens};
    request.calibration = &reversed;
    again = run(&request);
    assert_same(&result, &again);
    quantize_result_reset(&result);
    quantize_result_reset(&again);
    close_fixture(&f);
}

static void test_more_bits_do_less_damage(void **state)
{
    (void)state;
    struct fixture f;
    double kl = INFINITY;
    open_fixture(&f, tiny_llama, (struct tiny_change){0});
    struct quantize_request request = request_of(&f);
    for (int i = 0; i < 4; i++) {
        request.method.gptq.bits = (int[]){2, 3, 4, 8}[i];
        struct quantize_result result = run(&request);
        assert_true(result.kl < kl && result.kl > 0);
        kl = result.kl;
        quantize_result_reset(&result);
    }
    assert_true(kl < 1e-3);
    close_fixture(&f);
}

static void test_rtn_needs_no_calibration_and_gptq_does(void **state)
{
    (void)state;
    struct fixture f;
    struct error error;
    struct quantize_result result, with;
    open_fixture(&f, tiny_llama, (struct tiny_change){0});
    struct quantize_request request = request_of(&f);
    request.calibration = NULL;
    assert_int_equal(quantize_run(&request, &result, &error), STATUS_INVALID);
    assert_string_equal(error.pointer, "/calibration");
    request.method = (struct quantize_method){.quantizer = QUANTIZER_RTN, .rtn = {3, 32, true}};
    result = run(&request);
    request.calibration = &f.calibration;
    with = run(&request);
    assert_int_equal(result.layers[0].tokens, 0);
    assert_int_equal(with.layers[0].tokens, with.calibration_tokens);
    assert_true(result.delta == with.delta && result.layers[5].proxy_error != with.layers[5].proxy_error);
    quantize_result_reset(&result);
    quantize_result_reset(&with);
    close_fixture(&f);
}

static void test_refuses_tokens_that_do_not_fit(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, tiny_llama, (struct tiny_change){0});
    struct quantize_request request = request_of(&f);
    request.evaluation = &f.calibration;
    refuse(&request, STATUS_INVALID, "evaluation: sequence 7 has 26 tokens");
    request.evaluation = &f.evaluation;
    f.long_tokens[3] = 50;
    refuse(&request, STATUS_INVALID, "calibration: token 50");
    f.long_tokens[3] = 0;
    f.tokens[3] = 50;
    refuse(&request, STATUS_INVALID, "evaluation: token 50");
    close_fixture(&f);
}

static void test_refuses_numbers_that_are_not_finite(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, tiny_llama, (struct tiny_change){.name = "model.layers.1.mlp.up_proj.weight", .value = NAN});
    struct quantize_request request = request_of(&f);
    refuse(&request, STATUS_NOT_FINITE, "model.layers.1.mlp.up_proj.weight");
    close_fixture(&f);
    /* finite weights whose activations overflow the Hessian */
    open_fixture(&f, tiny_llama, (struct tiny_change){.name = "model.layers.1.mlp.up_proj.weight", .value = 1e30f});
    request = request_of(&f);
    refuse(&request, STATUS_NOT_FINITE, "model.layers.1.mlp.down_proj.weight: an input activation");
    close_fixture(&f);
}

struct stopper {
    int left;
    int64_t done, total;
};

static enum status stop_soon(void *owner, struct error *error)
{
    struct stopper *stopper = owner;
    if (stopper->left-- > 0) return STATUS_OK;
    return error_set(error, STATUS_CANCELLED, "cancelled");
}

static void note_progress(void *owner, int64_t done, int64_t total, const char *unit)
{
    struct stopper *stopper = owner;
    assert_true(done >= stopper->done && done <= total);
    assert_string_equal(unit, "block");
    stopper->done = done;
    stopper->total = total;
}

/* At each place where a run may be stopped it stops at once and releases everything (which ASan checks). */
static void test_stops_wherever_it_is_asked_to(void **state)
{
    (void)state;
    struct fixture f;
    struct stopper stopper = {1000000, 0, 0};
    const struct monitor monitor = {&stopper, note_progress, NULL, stop_soon};
    open_fixture(&f, tiny_gpt_neox, (struct tiny_change){0});
    struct quantize_request request = request_of(&f);
    request.monitor = &monitor;
    struct quantize_result result = run(&request);
    const int checks = 1000000 - stopper.left;
    assert_int_equal(stopper.done, 3);
    assert_int_equal(stopper.total, 3);
    quantize_result_reset(&result);
    assert_in_range(checks, 10, 1000);
    for (int i = 0; i < checks; i++) {
        stopper = (struct stopper){i, 0, 0};
        refuse(&request, STATUS_CANCELLED, "cancelled");
        assert_int_equal(stopper.left, -1);
    }
    close_fixture(&f);
}

/* [out, in], whatever the file has: groups run along inputs. */
static void test_transposed_weights_are_quantized_along_their_inputs(void **state)
{
    (void)state;
    struct fixture f;
    struct weights_tensor tensor;
    open_fixture(&f, tiny_gpt2, (struct tiny_change){0});
    const struct quantize_request request = request_of(&f);
    struct quantize_result result = run(&request);
    assert_int_equal(result.layer_count, 8);
    assert_string_equal(result.layers[0].name, "transformer.h.0.attn.c_attn");
    assert_string_equal(result.layers[3].name, "transformer.h.0.mlp.c_proj");
    assert_int_equal(result.layers[3].rows, 32);
    assert_int_equal(result.layers[3].columns, 128);
    weights_tensor(f.model->weights, weights_find(f.model->weights, "transformer.h.0.mlp.c_proj.weight"), &tensor);
    assert_int_equal(tensor.shape[0], 128);
    quantize_result_reset(&result);
    close_fixture(&f);
}

static void test_names_without_their_prefix_are_the_same_model(void **state)
{
    (void)state;
    struct fixture full, bare;
    open_fixture(&full, tiny_gpt2, (struct tiny_change){0});
    open_fixture(&bare, tiny_gpt2, (struct tiny_change){.bare = true});
    const struct quantize_request one = request_of(&full), other = request_of(&bare);
    struct quantize_result a = run(&one), b = run(&other);
    assert_string_equal(b.layers[0].name, "h.0.attn.c_attn");
    assert_true(a.fp.loss == b.fp.loss && a.q.loss == b.q.loss && a.kl == b.kl);
    quantize_result_reset(&a);
    quantize_result_reset(&b);
    close_fixture(&full);
    close_fixture(&bare);
}

/* Every token visits K experts of a layer; each expert's linears are layers of their own. */
static void test_experts_are_quantized_with_the_tokens_that_visit_them(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, tiny_olmoe, (struct tiny_change){0});
    const struct quantize_request request = request_of(&f);
    struct quantize_result result = run(&request);
    int64_t visits = 0, experts = 0;
    assert_int_equal(result.layer_count, 2 * (4 + 3 * 5));
    for (int64_t i = 0; i < result.layer_count; i++) {
        const struct layer_summary *layer = &result.layers[i];
        const bool gate = strstr(layer->name, "gate_proj") != NULL;
        if (strstr(layer->name, "experts") == NULL) assert_int_equal(layer->tokens, result.calibration_tokens);
        if (gate) assert_non_null(strstr(result.layers[i + 1].name, "up_proj")); /* one set, one Hessian */
        if (gate) assert_int_equal(layer->tokens, result.layers[i + 1].tokens);
        visits += gate ? layer->tokens : 0;
        experts += gate;
        assert_true(layer->degraded == (layer->tokens * SEQUENTIAL_LEAST_SHARE < result.calibration_tokens));
    }
    assert_int_equal(experts, 10);
    assert_int_equal(visits, 2 * 2 * result.calibration_tokens);
    quantize_result_reset(&result);
    close_fixture(&f);
}

struct seen {
    uint8_t codes[2][16 * 32];
    int count;
};

static enum status see_layer(void *owner, const char *name, const struct quantized_layer *layer, struct matrix weight,
                             struct error *error)
{
    struct seen *seen = owner;
    (void)weight;
    (void)error;
    if (strcmp(name, "model.layers.0.mlp.experts.2.gate_proj") == 0)
        memcpy(seen->codes[seen->count], layer->codes, 16 * 32);
    return STATUS_OK;
}

/* The last expert's logit lies between those of two others: with one expert a token it is never the largest. */
static void test_an_expert_without_tokens_is_rounded_to_nearest_and_says_so(void **state)
{
    (void)state;
    struct fixture f;
    struct seen seen = {.count = 0};
    open_fixture(&f, tiny_olmoe_single, (struct tiny_change){.between = "model.layers.0.mlp.gate.weight"});
    struct quantize_request request = request_of(&f);
    request.hook = (struct sequential_hook){&seen, see_layer};
    struct quantize_result result = run(&request);
    int64_t visits = 0, degraded = 0;
    for (int64_t i = 0; i < result.layer_count; i++) {
        const struct layer_summary *layer = &result.layers[i];
        const bool last = strstr(layer->name, "experts.2.") != NULL;
        visits += strstr(layer->name, "gate_proj") != NULL ? layer->tokens : 0;
        degraded += layer->degraded;
        if (!last) continue;
        assert_int_equal(layer->tokens, 0);
        assert_true(layer->degraded && layer->damp == 0 && layer->proxy_error > 0);
    }
    assert_int_equal(visits, result.calibration_tokens);
    assert_true(degraded >= 3);
    quantize_result_reset(&result);
    seen.count = 1;
    request.method = (struct quantize_method){.quantizer = QUANTIZER_RTN, .rtn = {4, 16, true}};
    request.calibration = NULL;
    result = run(&request);
    for (int64_t i = 0; i < result.layer_count; i++)
        assert_false(result.layers[i].degraded); /* that is what was asked for */
    assert_memory_equal(seen.codes[0], seen.codes[1], sizeof seen.codes[0]);
    quantize_result_reset(&result);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_without_their_prefix_are_the_same_model),
        cmocka_unit_test(test_what_is_held_does_not_change_others),
        cmocka_unit_test(test_transposed_weights_are_quantized_along_their_inputs),
        cmocka_unit_test(test_experts_are_quantized_with_the_tokens_that_visit_them),
        cmocka_unit_test(test_an_expert_without_tokens_is_rounded_to_nearest_and_says_so),
        cmocka_unit_test(test_what_is_held_does_not_change_llama),
        cmocka_unit_test(test_what_is_held_does_not_change_what_a_block_judges),
        cmocka_unit_test(test_what_is_held_does_not_change_gpt_neox),
        cmocka_unit_test(test_full_precision_losses_are_those_of_evaluate),
        cmocka_unit_test(test_calibration_is_cut_to_the_positions_and_sorted),
        cmocka_unit_test(test_calibration_order_does_not_matter),
        cmocka_unit_test(test_more_bits_do_less_damage),
        cmocka_unit_test(test_rtn_needs_no_calibration_and_gptq_does),
        cmocka_unit_test(test_refuses_tokens_that_do_not_fit),
        cmocka_unit_test(test_refuses_numbers_that_are_not_finite),
        cmocka_unit_test(test_stops_wherever_it_is_asked_to),
    };
    return cmocka_run_group_tests_name("quantize", tests, NULL, NULL);
}
