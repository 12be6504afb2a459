/* What runs say that they need, beside what they take; and that a smaller plan gives the same bits. */
#include "engine/jobs/planned.h"
#include "engine/jobs/tiny_fixture.h"
#include "jobs/quantize/quantize.h"
#include "jobs/sharpness/sharpness.h"
#include "train/trainer.h"

static const char deep[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 300, \"hidden_size\": 64, \"num_attention_heads\": 4,"
    " \"num_key_value_heads\": 2,"
    " \"num_hidden_layers\": 3, \"intermediate_size\": 160, \"hidden_act\": \"silu\", \"rms_norm_eps\": 1e-6,"
    " \"rope_theta\": 10000.0,"
    " \"max_position_embeddings\": 128, \"tie_word_embeddings\": true}";
static const char wide[] =
    "{\"model_type\": \"gpt_neox\", \"vocab_size\": 1000, \"hidden_size\": 256, \"num_attention_heads\": 4,"
    " \"num_hidden_layers\": 2,"
    " \"intermediate_size\": 1024, \"hidden_act\": \"gelu\", \"layer_norm_eps\": 1e-5, \"rotary_pct\": 0.25,"
    " \"rotary_emb_base\": 10000, \"max_position_embeddings\": 64, \"use_parallel_residual\": true,"
    " \"tie_word_embeddings\": false}";
static const char mixture[] =
    "{\"model_type\": \"olmoe\", \"vocab_size\": 300, \"hidden_size\": 96, \"num_hidden_layers\": 2,"
    " \"num_attention_heads\": 4,"
    " \"intermediate_size\": 80, \"max_position_embeddings\": 128, \"num_experts\": 9, \"num_experts_per_tok\": 2}";

/* Half as many sequences to calibrate with, of different lengths. */
static void open_ragged(struct fixture *f, const char *config, int count, int length)
{
    open_fixture(f, config, count, length);
    for (int i = 0; i < count / 2; i++) f->calibration_starts[i + 1] = f->calibration_starts[i] + length - i % 7;
    f->calibration.count = count / 2;
}

static struct evaluate_request evaluation_of(const struct fixture *f)
{
    return (struct evaluate_request){
        .model = f->model, .backend = f->backend, .sequences = &f->evaluation, .directory = f->scratch.directory};
}

static struct quantize_request quantization_of(const struct fixture *f, int method)
{
    struct quantize_request request = {
        .model = f->model,
        .backend = f->backend,
        .method = {.quantizer = QUANTIZER_GPTQ, .gptq = {4, 16, true, false, true, 0.05}},
        .calibration = &f->calibration,
        .evaluation = &f->evaluation,
        .directory = f->scratch.directory,
    };
    if (method == 1) request.method.options.rotation = ROTATION_HADAMARD;
    if (method == 2)
        request.method = (struct quantize_method){.quantizer = QUANTIZER_LLM_INT8, .llm_int8 = {.threshold = 2}};
    if (method == 4)
        request.method =
            (struct quantize_method){.quantizer = QUANTIZER_LLM_INT8, .llm_int8 = {.threshold = 2, .variant = 1}};
    if (method == 5)
        request.method = (struct quantize_method){.quantizer = QUANTIZER_AWQ,
                                                  .awq = {4, 16, 2, .clip = true, .judge = AWQ_JUDGE_BLOCK}};
    if (method == 3) {
        request.method =
            (struct quantize_method){.quantizer = QUANTIZER_RTN, .rtn = {.bits = 4, .group_size = 16, .sym = true}};
        request.method.options.lm_head_bits = 8;
        request.calibration = NULL;
    }
    return request;
}

static struct evaluate_result evaluate(const struct evaluate_request *request)
{
    struct evaluate_result result;
    struct error error;
    if (evaluate_asked(request, &result, &error) != STATUS_OK) fail_msg("%s", error.detail);
    return result;
}

static struct quantize_result quantize(const struct quantize_request *request)
{
    struct quantize_result result;
    struct error error;
    if (quantize_run(request, &result, &error) != STATUS_OK) fail_msg("%s", error.detail);
    return result;
}

static void check_evaluate(const char *config, int count, int length)
{
    struct fixture f;
    struct run_plan plan;
    struct error error;
    open_ragged(&f, config, count, length);
    const struct evaluate_request request = evaluation_of(&f);
    assert_int_equal(evaluate_plan(&request, &unbounded, &plan, &error), STATUS_OK);
    assert_int_equal(plan.tokens, count * length);
    assert_int_equal(plan.spilled_tokens, 0);
    assert_int_equal(plan.read_bytes, weights_bytes(f.model->weights));
    const long long begun = counter_begin();
    struct evaluate_result whole = evaluate(&request);
    compare("evaluate", plan.peak[PLAN_HOST], counter_peak(begun));
    evaluate_result_reset(&whole);
    close_fixture(&f);
}

static void test_evaluate_takes_what_its_plan_says(void **state)
{
    (void)state;
    check_evaluate(deep, 40, 128);
    check_evaluate(wide, 30, 64);
}

static void check_quantize(const char *config, int count, int length, int method)
{
    struct fixture f;
    struct run_plan plan;
    struct error error;
    open_ragged(&f, config, count, length);
    const struct quantize_request request = quantization_of(&f, method);
    assert_int_equal(quantize_plan(&request, 1, &unbounded, &plan, &error), STATUS_OK);
    const long long begun = counter_begin();
    struct quantize_result whole = quantize(&request);
    compare(config, plan.peak[PLAN_HOST], counter_peak(begun));
    quantize_result_reset(&whole);
    close_fixture(&f);
}

static void test_quantize_takes_what_its_plan_says(void **state)
{
    (void)state;
    for (int method = 0; method < 6; method++) {
        check_quantize(deep, 24, 128, method);
        check_quantize(wide, 16, 64, method);
        check_quantize(mixture, 24, 64, method);
    }
}

/* `batches`: of gradients for a preconditioner; 0: none. */
static void check_sharpness(const char *config, int count, int length, const struct quantize_method *direction,
                            int batches)
{
    struct fixture f;
    struct run_plan plan;
    struct sharpness_result found;
    struct error error;
    open_ragged(&f, config, count, length);
    const struct sharpness_request request = {
        .model = f.model,
        .backend = f.backend,
        .sequences = &f.evaluation,
        .settings = {.top_eigenvalue = true,
                     .preconditioned = batches > 0,
                     .max_iterations = 8,
                     .tolerance = 1e-9,
                     .probes = 1,
                     .spectrum_probes = 1,
                     .spectrum_steps = 1,
                     .preconditioner = {SHARPNESS_MOMENTS_OF_GRADIENTS, 0, 0, 1e-3, batches}},
        .direction = direction,
    };
    assert_int_equal(sharpness_plan(&request, &unbounded, &plan, &error), STATUS_OK);
    /* of the largest eigenvalue the products of units of sequences; of a direction its quantization in two streams, its
     * product, and gradient and product of units; of a preconditioner its gradients, and the eigenvalue's products */
    const int units = count > 1 ? 1 : 0;
    const int passes = 1 + 8 + units + (direction != NULL ? 2 + 1 + 2 * units : 0) + (batches > 0 ? 1 + 8 + units : 0);
    assert_int_equal(plan.tokens, passes * count * length);
    const long long begun = counter_begin();
    if (sharpness_run(&request, &found, &error) != STATUS_OK) fail_msg("%s", error.detail);
    compare("sharpness", plan.peak[PLAN_HOST], counter_peak(begun));
    sharpness_result_reset(&found);
    close_fixture(&f);
}

static void test_sharpness_takes_what_its_plan_says(void **state)
{
    (void)state;
    static const struct quantize_method rtn = {.quantizer = QUANTIZER_RTN, .rtn = {4, 16, true}};
    check_sharpness(deep, 12, 64, NULL, 0);
    check_sharpness(wide, 6, 48, NULL, 0);
    check_sharpness(mixture, 6, 48, NULL, 0);
    check_sharpness(deep, 12, 64, &rtn, 0);
    check_sharpness(deep, 1, 64, &rtn, 0);
    check_sharpness(deep, 12, 64, NULL, 5);
    check_sharpness(wide, 6, 48, NULL, 6);
    check_sharpness(wide, 6, 48, &rtn, 2);
}

static void check_train(const struct optimizer_kind *optimizer, const char *config, int64_t length,
                        int64_t memory_limit)
{
    struct fixture f;
    struct run_plan plan = {.flops = 0};
    struct parameters_layout *layout = NULL;
    struct trainer trainer;
    struct error error;
    open_ragged(&f, config, 100, 64);
    struct trainer_setup setup = {
        .optimizer = optimizer,
        .settings = {.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .precondition_frequency = 1, .max_precond_dim = 200},
        .schedule = {.kind = SCHEDULE_CONSTANT, .peak = 1e-3, .total = 2},
        .batch_sequences = 4,
        .sequence_length = length,
        .tokens = f.tokens,
        .token_count = 100 * 64,
        .memory_limit = memory_limit,
    };
    assert_int_equal(parameters_layout_new(&f.model->config, &layout, &error), STATUS_OK);
    (void)trainer_plan(layout, f.backend, &setup, &plan);
    if (memory_limit == 0) setup.memory_limit = plan.peak[PLAN_HOST]; /* that of the smallest plan is enough for it */
    const long long begun = counter_begin();
    if (trainer_init(&trainer, layout, f.backend, &setup, &error) != STATUS_OK) fail_msg("%s", error.detail);
    assert_int_equal(trainer_step(&trainer, &error), STATUS_OK);
    compare("train", plan.peak[PLAN_HOST], counter_peak(begun));
    trainer_reset(&trainer);
    parameters_layout_free(layout);
    close_fixture(&f);
}

static void test_training_takes_what_its_plan_says(void **state)
{
    (void)state;
    check_train(&optimizer_adamw, deep, 96, INT64_MAX);
    check_train(&optimizer_adamw, wide, 48, INT64_MAX);
    check_train(&optimizer_adamw, mixture, 96, INT64_MAX);
    check_train(&optimizer_adamw, wide, 48, 0); /* activations are made again */
    check_train(&optimizer_soap, wide, 48, INT64_MAX);
    check_train(&optimizer_soap, mixture, 96, 0);
}

/* Budgets from all that is wanted down to the least: the last token that must be spilled is. */
static void test_an_evaluation_has_the_same_bits_whatever_its_plan(void **state)
{
    struct fixture f;
    struct run_plan whole, least;
    struct error error;
    const struct plan_budget nothing = {.bytes = {0, 0, INT64_MAX}};
    (void)state;
    open_ragged(&f, deep, 66, 128);
    const struct evaluate_request request = evaluation_of(&f);
    struct evaluate_result first = evaluate(&request), small;
    assert_int_equal(evaluate_plan(&request, &unbounded, &whole, &error), STATUS_OK);
    assert_int_equal(evaluate_plan(&request, &nothing, &least, &error), STATUS_OK);
    assert_true(least.peak[PLAN_HOST] < whole.peak[PLAN_HOST] && least.spilled_tokens == least.stream_tokens);
    for (int part = 0; part < 4; part++) {
        f.backend->host_budget = least.peak[PLAN_HOST] + part * (whole.peak[PLAN_HOST] - least.peak[PLAN_HOST]) / 4;
        const long long begun = counter_begin();
        small = evaluate(&request);
        assert_true(counter_peak(begun) <= f.backend->host_budget);
        assert_true(small.loss == first.loss);
        assert_memory_equal(small.sequence_losses, first.sequence_losses, (size_t)first.sequences * sizeof(double));
        evaluate_result_reset(&small);
    }
    f.backend->host_budget = least.peak[PLAN_HOST] - 1;
    const long long begun = counter_begin();
    assert_int_equal(evaluate_asked(&request, &small, &error), STATUS_TOO_LARGE);
    assert_true(counter_peak(begun) < 2 << 20);
    char wanted[64];
    (void)snprintf(wanted, sizeof wanted, "needs %lld bytes of host memory, %lld are", (long long)least.peak[PLAN_HOST],
                   (long long)f.backend->host_budget);
    if (strstr(error.detail, wanted) == NULL) fail_msg("\"%s\" does not say \"%s\"", error.detail, wanted);
    evaluate_result_reset(&first);
    close_fixture(&f);
}

static void assert_same(const struct quantize_result *a, const struct quantize_result *b)
{
    assert_int_equal(a->layer_count, b->layer_count);
    assert_memory_equal(a->layers, b->layers, (size_t)a->layer_count * sizeof *a->layers);
    assert_memory_equal(a->fp.sequence_losses, b->fp.sequence_losses, (size_t)a->fp.sequences * sizeof(double));
    assert_memory_equal(a->q.sequence_losses, b->q.sequence_losses, (size_t)a->q.sequences * sizeof(double));
    assert_true(a->delta == b->delta && a->kl == b->kl && a->top1_agreement == b->top1_agreement);
}

static void check_budgets(struct fixture *f, const struct quantize_request *request)
{
    const struct plan_budget nothing = {.bytes = {0, 0, INT64_MAX}};
    struct run_plan whole, least;
    struct error error;
    f->backend->host_budget = 0;
    struct quantize_result first = quantize(request), small;
    assert_int_equal(quantize_plan(request, 1, &unbounded, &whole, &error), STATUS_OK);
    assert_int_equal(quantize_plan(request, 1, &nothing, &least, &error), STATUS_OK);
    assert_true(least.peak[PLAN_HOST] < whole.peak[PLAN_HOST] && least.spilled_tokens == least.stream_tokens);
    for (int part = 0; part < 2; part++) {
        f->backend->host_budget = least.peak[PLAN_HOST] + part * (whole.peak[PLAN_HOST] - least.peak[PLAN_HOST]) / 2;
        const long long begun = counter_begin();
        small = quantize(request);
        assert_true(counter_peak(begun) <= f->backend->host_budget);
        assert_same(&first, &small);
        quantize_result_reset(&small);
    }
    f->backend->host_budget = least.peak[PLAN_HOST] - 1;
    assert_int_equal(quantize_run(request, &small, &error), STATUS_TOO_LARGE);
    quantize_result_reset(&first);
}

static void test_a_quantization_has_the_same_bits_whatever_its_plan(void **state)
{
    struct fixture f;
    (void)state;
    open_ragged(&f, deep, 66, 128);
    for (int method = 0; method < 4; method++) {
        const struct quantize_request request = quantization_of(&f, method);
        check_budgets(&f, &request);
    }
    close_fixture(&f);
}

/* What is spilled goes through the same files: a baseline, and the streams that a killed run leaves. */
static void test_spilled_streams_are_kept_and_taken_up(void **state)
{
    struct fixture f;
    char baseline[PATH_MAX], keep[PATH_MAX];
    const struct plan_budget nothing = {.bytes = {0, 0, INT64_MAX}};
    struct run_plan least;
    struct error error;
    (void)state;
    open_ragged(&f, deep, 66, 128);
    struct quantize_request request = quantization_of(&f, 0);
    (void)snprintf(baseline, sizeof baseline, "%s", scratch_path(&f.scratch, "baseline"));
    (void)snprintf(keep, sizeof keep, "%s", scratch_path(&f.scratch, "streams"));
    const struct quantize_result first = quantize(&request);
    assert_int_equal(quantize_plan(&request, 1, &nothing, &least, &error), STATUS_OK);
    f.backend->host_budget = least.peak[PLAN_HOST];
    request.save_path = keep;
    request.save_seconds = -1;
    for (int round = 0; round < 3; round++) {
        if (round == 2) request.save_path = NULL, request.baseline = baseline;
        struct quantize_result again = quantize(&request);
        assert_same(&first, &again);
        quantize_result_reset(&again);
    }
    struct quantize_result read = quantize(&request); /* of the baseline */
    assert_same(&first, &read);
    quantize_result_reset(&read);
    read = first;
    quantize_result_reset(&read);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_evaluate_takes_what_its_plan_says),
        cmocka_unit_test(test_quantize_takes_what_its_plan_says),
        cmocka_unit_test(test_sharpness_takes_what_its_plan_says),
        cmocka_unit_test(test_training_takes_what_its_plan_says),
        cmocka_unit_test(test_an_evaluation_has_the_same_bits_whatever_its_plan),
        cmocka_unit_test(test_a_quantization_has_the_same_bits_whatever_its_plan),
        cmocka_unit_test(test_spilled_streams_are_kept_and_taken_up),
    };
    return cmocka_run_group_tests_name("plans", tests, NULL, NULL);
}
