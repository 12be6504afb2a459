/* Whole quantizations of a tiny random model with every method, plain and with options: the same twice, with losses in
 * bounds. Apart from test_methods.c because it takes half a minute over the emulated CUDA device. */
#include "engine/jobs/quantized_loss.h"

static void test_every_method_runs_with_every_option(void **state)
{
    (void)state;
    static const struct quantize_method methods[] = {
        {.quantizer = QUANTIZER_RTN, .rtn = {4, 16, true}},
        {.quantizer = QUANTIZER_GPTQ, .gptq = {4, 16, true, false, true, 0.05}},
        {.quantizer = QUANTIZER_NF4, .nf4 = {.block_size = 64, .double_quant = true}},
        {.quantizer = QUANTIZER_FP4, .fp4 = {.block_size = 64}},
        {.quantizer = QUANTIZER_AWQ, .awq = {4, 16, 20, false, true}},
        {.quantizer = QUANTIZER_LLM_INT8, .llm_int8 = {6, 0}},
        {.quantizer = QUANTIZER_LLM_INT8, .llm_int8 = {3, 1}},
        {.quantizer = QUANTIZER_SMOOTHQUANT, .smoothquant = {8, 8, 0.5, true}},
    };
    struct fixture f;
    open_fixture(&f, tiny_llama, 12, 24);
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        struct quantize_method method = methods[i];
        const double plain = kl_of(&f, method), again = kl_of(&f, method);
        const char *name = quantizer_by_id(method.quantizer)->name;
        if (!(plain == again && plain > 0 && plain < 1)) fail_msg("%s: %g, %g", name, plain, again);
        method.options.rotation = ROTATION_HADAMARD;
        method.options.keep_outliers = 4;
        const double with = kl_of(&f, method);
        if (!(with > 0 && with < 2 * plain)) fail_msg("%s: %g became %g", name, plain, with);
    }
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_method_runs_with_every_option)};
    return cmocka_run_group_tests_name("every method", tests, NULL, NULL);
}
