/* Whole jobs on the device (emulated, or a real one: stand_in.h) held against the CPU: losses and gradients of every
 * architecture, quantizations, what these take of the device's memory, and the same bits twice. Not a unit test of its
 * own: `make check` runs it over the emulated device, `make check-gpu` on a real one. */
#include "engine/backend/cuda/stand_in.h"
#undef backend_cpu_new /* both are wanted here */

#include "engine/jobs/tiny_fixture.h"
#include "jobs/quantize/quantize.h"
#include "model/gradient.h"

static const char tiny_mamba[] =
    "{\"model_type\": \"mamba\", \"vocab_size\": 50, \"hidden_size\": 24, \"num_hidden_layers\": 2, \"state_size\": 4,"
    " \"time_step_rank\": 3, \"conv_kernel\": 4}";

/* where blocks take more than the head */
static const char broad_olmoe[] =
    "{\"model_type\": \"olmoe\", \"vocab_size\": 50, \"hidden_size\": 96, \"num_hidden_layers\": 1,"
    " \"num_attention_heads\": 4,"
    " \"intermediate_size\": 80, \"max_position_embeddings\": 24, \"num_experts\": 9, \"num_experts_per_tok\": 2}";
static const char *const every[] = {tiny_llama, tiny_gpt_neox, tiny_gpt2, tiny_apertus,
                                    tiny_opt,   tiny_mamba,    tiny_olmoe};

struct devices {
    struct fixture host;
    struct backend *device;
    bool calibrated;
};

static void open_devices(struct devices *d, const char *config)
{
    struct error error;
    d->calibrated = true;
    open_fixture(&d->host, config, 8, 24);
    if (stand_in_new(d->host.team, &d->device, &error) != STATUS_OK) fail_msg("%s", error.detail);
}

static void close_devices(struct devices *d)
{
    backend_free(d->device);
    close_fixture(&d->host);
}

static enum status quantize_on(struct devices *d, struct backend *backend, const struct quantize_method *method,
                               struct quantize_result *out, struct error *error)
{
    struct quantize_request request = {.model = d->host.model,
                                       .backend = backend,
                                       .method = *method,
                                       .calibration = d->calibrated ? &d->host.calibration : NULL,
                                       .evaluation = &d->host.evaluation};
    const enum status status = quantize_method_complete(&request.method, error);
    return status == STATUS_OK ? quantize_run(&request, out, error) : status;
}

static void hold(const char *what, double found, double expected, double bound)
{
    if (!(fabs(found - expected) <= bound)) fail_msg("%s: %.9g, not %.9g within %.3g", what, found, expected, bound);
}

/* A token's loss passes some twenty sums of at most 100 terms; each leaves about 6 sqrt(100) roundings of its size
 * (cpu_rows). */
static double loss_bound(double loss)
{
    return 20 * 60 * 0x1p-24 * (1 + loss);
}

static void test_losses_of_every_architecture_agree(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof every / sizeof every[0]; i++) {
        struct devices d;
        struct evaluate_result cpu, device;
        struct error error;
        open_devices(&d, every[i]);
        if (evaluate_run(d.host.model, d.host.backend, &d.host.evaluation, NULL, &cpu, &error) != STATUS_OK ||
            evaluate_run(d.host.model, d.device, &d.host.evaluation, NULL, &device, &error) != STATUS_OK)
            fail_msg("%s", error.detail);
        for (int s = 0; s < 8; s++)
            hold(every[i], device.sequence_losses[s], cpu.sequence_losses[s], loss_bound(cpu.sequence_losses[s]));
        evaluate_result_reset(&cpu);
        evaluate_result_reset(&device);
        close_devices(&d);
    }
}

/* The gradient of the mean loss by all parameters, in host memory. */
static float *gradient_on(struct devices *d, struct backend *backend, enum gradient_mode mode,
                          struct parameters_layout *layout)
{
    struct parameters parameters, sums;
    struct gradient *gradient = NULL;
    struct chunks chunks;
    struct error error;
    double losses[8 * 24];
    float *found = calloc((size_t)layout->elements, sizeof *found);
    assert_non_null(found);
    if (parameters_init(&parameters, layout, backend, "parameters", &error) != STATUS_OK ||
        parameters_init(&sums, layout, backend, "gradients", &error) != STATUS_OK ||
        parameters_read(&parameters, d->host.model, &error) != STATUS_OK ||
        chunks_init(&d->host.evaluation, 100, &chunks, &error) != STATUS_OK ||
        gradient_new(&parameters, mode, chunks.largest, chunks.longest, &gradient, &error) != STATUS_OK)
        fail_msg("%s", error.detail);
    for (int64_t i = 0; i < chunks.count; i++)
        gradient_add(gradient, &chunks.chunks[i].batch, 1 / (double)chunks.predictions, losses, &sums);
    backend->ops->download(backend, parameters_all(&sums), found, DTYPE_F32);
    if (backend->ops->sync(backend, &error) != STATUS_OK) fail_msg("%s", error.detail);
    gradient_free(gradient);
    chunks_reset(&chunks);
    parameters_reset(&sums);
    parameters_reset(&parameters);
    return found;
}

/* Each tensor of the gradient apart, by Euclidean norm: it passes the twenty sums of the loss twice. */
static void hold_gradient(const struct parameters_layout *layout, const float *found, const float *expected)
{
    for (int64_t i = 0; i < layout->tensor_count; i++) {
        const struct parameters_tensor *tensor = &layout->tensors[i];
        double apart = 0, size = 0;
        for (int64_t k = tensor->offset; k < tensor->offset + tensor->parameter.rows * tensor->parameter.columns; k++) {
            apart += pow((double)found[k] - (double)expected[k], 2);
            size += (double)expected[k] * (double)expected[k];
        }
        hold(tensor->parameter.name, sqrt(apart), 0, 40 * 60 * 0x1p-24 * (sqrt(size) + 1e-2));
    }
}

static void test_gradients_of_every_architecture_agree(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof every / sizeof every[0]; i++) {
        struct devices d;
        struct parameters_layout *layout = NULL;
        struct error error;
        open_devices(&d, every[i]);
        assert_int_equal(parameters_layout_new(&d.host.model->config, &layout, &error), STATUS_OK);
        float *host = gradient_on(&d, d.host.backend, GRADIENT_KEEP, layout);
        float *device = gradient_on(&d, d.device, GRADIENT_KEEP, layout);
        hold_gradient(layout, device, host);
        if (every[i] == tiny_olmoe) { /* where an expert's rows begin is read again for every way through a block */
            float *again = gradient_on(&d, d.device, GRADIENT_RECOMPUTE, layout);
            assert_memory_equal(device, again, (size_t)layout->elements * sizeof *device);
            free(again);
        }
        free(host);
        free(device);
        parameters_layout_free(layout);
        close_devices(&d);
    }
}

/* A method on a model, and the part of a layer's error that may differ from the CPU's. Rounding to nearest sees the
 * very same weights: its errors are those of the CPU. What follows a Hessian, or inputs that were rounded, may round a
 * few of some thousand numbers the other way, each by one step: layers' errors to a twentieth, the loss to a tenth of
 * the divergence. Where the scales of columns follow the largest input, one such step rounds columns of later layers
 * anew, by another alpha when that is searched: only the first layer's error is the CPU's, the others' are within a
 * half. Then a token's loss moves by about sqrt(2 kl) either way, and the mean of 8 * 23 of them by that over their
 * square root: the difference of two such is held to four times its size. */
struct quantization {
    const char *config;
    double layers;
    struct quantize_method method;
};

#define SAME 1e-4
#define NEAR 0.05
#define ANEW 0.5
#define GPTQ .quantizer = QUANTIZER_GPTQ, .gptq = {4, 16, false, false, true, 0.05}
#define RTN  .quantizer = QUANTIZER_RTN, .rtn = {4, 16, true}

static const struct quantization quantizations[] = {
    {tiny_llama, SAME, {RTN, .options = {.embedding_bits = 8, .lm_head_bits = 8}}},
    {tiny_llama, SAME, {.quantizer = QUANTIZER_NF4, .nf4 = {.block_size = 20, .double_quant = true}}},
    {tiny_gpt2, SAME, {.quantizer = QUANTIZER_FP4, .fp4 = {.block_size = 64, .values = 1}}},
    {tiny_llama, SAME, {.quantizer = QUANTIZER_MXFP4}},
    {tiny_gpt2, SAME, {.quantizer = QUANTIZER_NVFP4, .options = {.keep_outliers = 2}}},
    {tiny_llama, SAME, {.quantizer = QUANTIZER_FP8, .fp8 = {.scales = FP8_SCALES_TENSOR}}},
    {tiny_olmoe, SAME, {.quantizer = QUANTIZER_FP8, .fp8 = {.scales = FP8_SCALES_BLOCK}}},
    {tiny_llama, NEAR, {GPTQ}},
    {tiny_llama, NEAR, {.quantizer = QUANTIZER_GPTQ_FP4, .gptq_fp4 = {1, true, 0.05}}},
    {tiny_gpt2, NEAR, {GPTQ, .options = {.keep_outliers = 2}}},
    /* where two exponents are nearly as good, the two may choose differently: no such layer here */
    {tiny_llama, NEAR, {.quantizer = QUANTIZER_AWQ, .awq = {4, 16, 5, false, true, false, AWQ_SCALE_O_PROJ_ALWAYS}}},
    {tiny_llama, NEAR, {.quantizer = QUANTIZER_AWQ, .awq = {3, 16, 3, true, true}}},
    {tiny_llama, NEAR, {.quantizer = QUANTIZER_AWQ, .awq = {4, 16, 5, .judge = AWQ_JUDGE_BLOCK}}},
    {tiny_gpt2, NEAR, {.quantizer = QUANTIZER_AWQ, .awq = {3, 8, 4, true, true, true, .judge = AWQ_JUDGE_BLOCK}}},
    {tiny_llama, NEAR, {.quantizer = QUANTIZER_LLM_INT8, .llm_int8 = {1.5, 0}}},
    {tiny_gpt2, NEAR, {.quantizer = QUANTIZER_LLM_INT8, .llm_int8 = {1.5, 1}, .options = {.keep_outliers = 2}}},
    {tiny_llama, ANEW, {.quantizer = QUANTIZER_SMOOTHQUANT, .smoothquant = {8, 8, 0.5, false}}},
    {tiny_gpt2,
     ANEW,
     {.quantizer = QUANTIZER_SMOOTHQUANT, .smoothquant = {8, 8, 0.5, true}, .options = {.keep_outliers = 2}}},
    {tiny_gpt2, NEAR, {RTN, .options = {.activation_bits = 8}}},
    {tiny_llama, NEAR, {RTN, .options = {.rotation = ROTATION_HADAMARD}}},
    {tiny_olmoe, SAME, {RTN, .options = {.embedding_bits = 8, .lm_head_bits = 8}}},
    {tiny_olmoe, NEAR, {GPTQ}},
    {tiny_olmoe_single, NEAR, {.quantizer = QUANTIZER_AWQ, .awq = {4, 16, 5, false, true}}},
    {tiny_olmoe, NEAR, {RTN, .options = {.rotation = ROTATION_HADAMARD}}},
    {tiny_gpt2,
     NEAR,
     {.quantizer = QUANTIZER_NF4,
      .nf4 = {.block_size = 64, .double_quant = true},
      .options = {.activation_bits = 8, .rotation = ROTATION_HADAMARD, .keep_outliers = 3}}},
};

static double loss_slack(const struct quantization *quantization, double kl)
{
    return quantization->layers == SAME ? 0 : quantization->layers == NEAR ? 0.1 * kl : 8 * sqrt(kl / (8 * 23));
}

static void compare_quantizations(struct devices *d, const struct quantization *quantization, const char *name)
{
    struct quantize_result cpu, device, again;
    struct error error;
    if (quantize_on(d, d->host.backend, &quantization->method, &cpu, &error) != STATUS_OK ||
        quantize_on(d, d->device, &quantization->method, &device, &error) != STATUS_OK ||
        quantize_on(d, d->device, &quantization->method, &again, &error) != STATUS_OK)
        fail_msg("%s: %s", name, error.detail);
    assert_int_equal(device.layer_count, cpu.layer_count);
    for (int64_t k = 0; k < cpu.layer_count; k++) {
        const double part = quantization->layers == ANEW && k == 0 ? SAME : quantization->layers;
        hold(name, (double)device.layers[k].tokens, (double)cpu.layers[k].tokens,
             2); /* an expert's may go to another */
        hold(name, device.layers[k].proxy_error, cpu.layers[k].proxy_error, part * cpu.layers[k].proxy_error);
    }
    assert_true(isnan(cpu.layers[0].alpha) ? isnan(device.layers[0].alpha)
                                           : device.layers[0].alpha == cpu.layers[0].alpha);
    hold("fp loss", device.fp.loss, cpu.fp.loss, loss_bound(cpu.fp.loss));
    hold(name, device.q.loss, cpu.q.loss, loss_bound(cpu.q.loss) + loss_slack(quantization, cpu.kl));
    assert_memory_equal(device.layers, again.layers, (size_t)device.layer_count * sizeof *device.layers);
    assert_memory_equal(device.q.sequence_losses, again.q.sequence_losses, 8 * sizeof(double));
    quantize_result_reset(&cpu);
    quantize_result_reset(&device);
    quantize_result_reset(&again);
}

static void test_quantizations_agree_and_repeat(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof quantizations / sizeof quantizations[0]; i++) {
        struct devices d;
        char name[32];
        (void)snprintf(name, sizeof name, "quantization %d", (int)i);
        open_devices(&d, quantizations[i].config);
        compare_quantizations(&d, &quantizations[i], name);
        close_devices(&d);
    }
}

/* Without calibration: the kept columns are those whose weights are largest. */
static void test_columns_are_kept_without_calibration(void **state)
{
    (void)state;
    struct devices d;
    const struct quantization quantization = {tiny_llama, SAME, {RTN, .options = {.keep_outliers = 3}}};
    open_devices(&d, quantization.config);
    d.calibrated = false;
    compare_quantizations(&d, &quantization, "without calibration");
    close_devices(&d);
}

/* A device's table of slots with an eye on what is taken and given back. */
struct counted {
    struct backend_ops ops;
    const struct backend_ops *own;
    struct {
        const void *block;
        int64_t bytes;
    } taken[256];
    int64_t live, peak;
};

static enum status counted_allocate(struct backend *backend, int64_t elements, const char *what, void **out,
                                    struct error *error)
{
    struct counted *counted = (struct counted *)(uintptr_t)backend->ops;
    const enum status status = counted->own->allocate(backend, elements, what, out, error);
    for (size_t i = 0; status == STATUS_OK; i++) {
        assert_true(i < sizeof counted->taken / sizeof counted->taken[0]);
        if (counted->taken[i].block != NULL) continue;
        counted->taken[i].block = *out;
        counted->taken[i].bytes = elements * (int64_t)sizeof(float);
        counted->live += counted->taken[i].bytes;
        if (counted->live > counted->peak) counted->peak = counted->live;
        break;
    }
    return status;
}

static void counted_release(struct backend *backend, void *block)
{
    struct counted *counted = (struct counted *)(uintptr_t)backend->ops;
    for (size_t i = 0; i < sizeof counted->taken / sizeof counted->taken[0]; i++)
        if (counted->taken[i].block == block) {
            counted->live -= counted->taken[i].bytes;
            counted->taken[i].block = NULL;
        }
    counted->own->release(backend, block);
}

/* What is taken of the device lies between four fifths of the plan and the plan; scratch of single slots is not
 * planned. */
static void hold_plan(const struct quantize_method *method)
{
    static const struct plan_budget unbounded = {.bytes = {INT64_MAX, INT64_MAX, INT64_MAX}};
    struct devices d;
    struct counted counted = {.live = 0};
    struct quantize_result result;
    struct run_plan plan;
    struct error error;
    open_devices(&d, broad_olmoe);
    const struct quantize_request request = {.model = d.host.model,
                                             .backend = d.device,
                                             .method = *method,
                                             .calibration = &d.host.calibration,
                                             .evaluation = &d.host.evaluation};
    counted.own = d.device->ops;
    counted.ops = *d.device->ops;
    counted.ops.allocate = counted_allocate;
    counted.ops.release = counted_release;
    d.device->ops = &counted.ops;
    if (quantize_plan(&request, 1, &unbounded, &plan, &error) != STATUS_OK ||
        quantize_run(&request, &result, &error) != STATUS_OK)
        fail_msg("%s", error.detail);
    const double planned = (double)plan.peak[PLAN_DEVICE];
    hold(broad_olmoe, (double)counted.peak, 0.9 * planned, 0.1 * planned);
    quantize_result_reset(&result);
    d.device->ops = counted.own;
    close_devices(&d);
}

static void test_a_mixture_takes_of_the_device_what_its_plan_says(void **state)
{
    (void)state;
    const struct quantize_method methods[] = {
        {GPTQ},
        {.quantizer = QUANTIZER_LLM_INT8, .llm_int8 = {2, 1}},
        {.quantizer = QUANTIZER_SMOOTHQUANT, .smoothquant = {8, 8, 0.5, false}, .options = {.keep_outliers = 2}},
        {GPTQ, .options = {.activation_bits = 8, .rotation = ROTATION_HADAMARD}},
    };
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) hold_plan(&methods[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_losses_of_every_architecture_agree),
        cmocka_unit_test(test_gradients_of_every_architecture_agree),
        cmocka_unit_test(test_quantizations_agree_and_repeat),
        cmocka_unit_test(test_columns_are_kept_without_calibration),
        cmocka_unit_test(test_a_mixture_takes_of_the_device_what_its_plan_says),
    };
    return cmocka_run_group_tests_name("whole models on a device", tests, NULL, NULL);
}
