/* Whole jobs on the device (emulated, or a real one: stand_in.h) held against the CPU: losses of every architecture, quantizations,
 * what is refused, and the same bits twice. Not a unit test of its own: `make check` runs it over the emulated device, `make
 * check-gpu` on a real one. */
#include "engine/backend/cuda/stand_in.h"
#undef backend_cpu_new /* both are wanted here */

#include "engine/jobs/tiny_fixture.h"
#include "jobs/quantize.h"

static const char tiny_mamba[] =
    "{\"model_type\": \"mamba\", \"vocab_size\": 50, \"hidden_size\": 24, \"num_hidden_layers\": 2, \"state_size\": 4,"
    " \"time_step_rank\": 3, \"conv_kernel\": 4}";

struct devices {
    struct fixture host;
    struct backend *device;
};

static void open_devices(struct devices *d, const char *config)
{
    struct error error;
    open_fixture(&d->host, config, 8, 24);
    if (stand_in_new(d->host.team, &d->device, &error) != STATUS_OK) fail_msg("%s", error.detail);
}

static void close_devices(struct devices *d)
{
    backend_free(d->device);
    close_fixture(&d->host);
}

static const struct quantize_method gptq = {.quantizer = QUANTIZER_GPTQ, .gptq = {4, 16, false, false, true, 0.05}};

static enum status quantize_on(struct devices *d, struct backend *backend, const struct quantize_method *method,
                               struct quantize_result *out, struct error *error)
{
    struct quantize_request request = {.model = d->host.model,
                                       .backend = backend,
                                       .method = *method,
                                       .calibration = &d->host.calibration,
                                       .evaluation = &d->host.evaluation};
    const enum status status = quantize_method_settle(&request.method, error);
    return status == STATUS_OK ? quantize_run(&request, out, error) : status;
}

static void hold(const char *what, double found, double expected, double bound)
{
    if (!(fabs(found - expected) <= bound)) fail_msg("%s: %.9g, not %.9g within %.3g", what, found, expected, bound);
}

/* A token's loss passes some twenty sums of at most 100 terms; each leaves about 6 sqrt(100) roundings of its size (cpu_rows). */
static double loss_bound(double loss)
{
    return 20 * 60 * 0x1p-24 * (1 + loss);
}

static void test_losses_of_every_architecture_agree(void **state)
{
    (void)state;
    const char *const configs[] = {tiny_llama, tiny_gpt_neox, tiny_gpt2, tiny_apertus, tiny_opt, tiny_mamba};
    for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++) {
        struct devices d;
        struct evaluate_result cpu, device;
        struct error error;
        open_devices(&d, configs[i]);
        if (evaluate_run(d.host.model, d.host.backend, &d.host.evaluation, NULL, &cpu, &error) != STATUS_OK ||
            evaluate_run(d.host.model, d.device, &d.host.evaluation, NULL, &device, &error) != STATUS_OK)
            fail_msg("%s", error.detail);
        for (int s = 0; s < 8; s++)
            hold(configs[i], device.sequence_losses[s], cpu.sequence_losses[s], loss_bound(cpu.sequence_losses[s]));
        evaluate_result_reset(&cpu);
        evaluate_result_reset(&device);
        close_devices(&d);
    }
}

/* Rounding to nearest sees the very same weights: its errors are those of the CPU. What follows a Hessian may round a few of some
 * thousand weights the other way, each by one step: layers' errors to a twentieth, the loss to a tenth of the divergence. */
static void test_quantizations_agree_and_repeat(void **state)
{
    (void)state;
    const struct quantize_method methods[] = {
        {.quantizer = QUANTIZER_RTN, .rtn = {4, 16, true}, .options = {.embedding_bits = 8, .lm_head_bits = 8}},
        {.quantizer = QUANTIZER_NF4, .nf4 = {.block_size = 64}},
        gptq,
        {.quantizer = QUANTIZER_GPTQ, .gptq = {4, 16, false, false, true, 0.05}, .options = {.keep_outliers = 2}},
        {.quantizer = QUANTIZER_AWQ, .awq = {4, 16, 5, false, true}},
    };
    const char *const configs[] = {tiny_llama, tiny_gpt2};
    for (int i = 0; i < 10; i++) {
        struct devices d;
        struct quantize_result cpu, device, again;
        struct error error;
        const struct quantize_method *method = &methods[i % 5];
        const bool white = method->quantizer == QUANTIZER_RTN || method->quantizer == QUANTIZER_NF4;
        open_devices(&d, configs[i / 5]);
        if (quantize_on(&d, d.host.backend, method, &cpu, &error) != STATUS_OK ||
            quantize_on(&d, d.device, method, &device, &error) != STATUS_OK ||
            quantize_on(&d, d.device, method, &again, &error) != STATUS_OK)
            fail_msg("method %d: %s", i % 5, error.detail);
        assert_int_equal(device.layer_count, cpu.layer_count);
        for (int64_t k = 0; k < cpu.layer_count; k++)
            hold(cpu.layers[k].name, device.layers[k].proxy_error, cpu.layers[k].proxy_error,
                 (white ? 1e-4 : 0.05) * cpu.layers[k].proxy_error);
        hold("fp loss", device.fp.loss, cpu.fp.loss, loss_bound(cpu.fp.loss));
        hold("q loss", device.q.loss, cpu.q.loss, loss_bound(cpu.q.loss) + (white ? 0 : 0.1 * cpu.kl));
        assert_memory_equal(device.layers, again.layers, (size_t)device.layer_count * sizeof *device.layers);
        assert_memory_equal(device.q.sequence_losses, again.q.sequence_losses, 8 * sizeof(double));
        quantize_result_reset(&cpu);
        quantize_result_reset(&device);
        quantize_result_reset(&again);
        close_devices(&d);
    }
}

static void refuse(struct devices *d, const struct quantize_method *method, enum status status, const char *words)
{
    struct error error = {0};
    struct quantize_result result;
    assert_int_equal(quantize_on(d, d->device, method, &result, &error), status);
    if (strstr(error.detail, words) == NULL) fail_msg("\"%s\" does not say \"%s\"", error.detail, words);
}

static void test_what_a_device_cannot_do_is_refused_in_words(void **state)
{
    (void)state;
    struct devices d;
    struct quantize_method rounded = gptq, turned = gptq;
    const struct quantize_method llm_int8 = {.quantizer = QUANTIZER_LLM_INT8, .llm_int8 = {6, 0}};
    rounded.options.activation_bits = 8;
    turned.options.rotation = ROTATION_HADAMARD;
    open_devices(&d, tiny_llama);
    refuse(&d, &rounded, STATUS_UNSUPPORTED, "--device cpu");
    refuse(&d, &turned, STATUS_UNSUPPORTED, "--device cpu");
    refuse(&d, &llm_int8, STATUS_UNSUPPORTED, "--device cpu");
    close_devices(&d);
    open_devices(&d, tiny_olmoe);
    refuse(&d, &gptq, STATUS_UNSUPPORTED, "experts");
    close_devices(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_losses_of_every_architecture_agree),
        cmocka_unit_test(test_quantizations_agree_and_repeat),
        cmocka_unit_test(test_what_a_device_cannot_do_is_refused_in_words),
    };
    return cmocka_run_group_tests_name("whole models on a device", tests, NULL, NULL);
}
