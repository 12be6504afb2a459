/* registry.c: the quantizers there are. */
#include "quant/quantizer.h"

#include <assert.h>

static const struct quantizer *const quantizers[] = {
    [QUANTIZER_RTN] = &quantizer_rtn,
    [QUANTIZER_GPTQ] = &quantizer_gptq,
    [QUANTIZER_NF4] = &quantizer_nf4,
    [QUANTIZER_FP4] = &quantizer_fp4,
    [QUANTIZER_AWQ] = &quantizer_awq,
    [QUANTIZER_LLM_INT8] = &quantizer_llm_int8,
    [QUANTIZER_SMOOTHQUANT] = &quantizer_smoothquant,

};
static_assert(sizeof quantizers / sizeof quantizers[0] == QUANTIZER_COUNT, "a row for every quantizer");

const struct quantizer *quantizer_by_id(int id)
{
    assert(id >= 0 && id < QUANTIZER_COUNT);
    return quantizers[id];
}

const int64_t quantize_method_bits[] = {2, 3, 4, 8, 0};
const int64_t quantize_method_activation_bits[] = {4, 8, 0};

bool quantize_method_treats_inputs(const struct quantize_method *method)
{
    return quantizer_by_id(method->quantizer)->treats_inputs || method->options.activation_bits > 0;
}

enum status quantize_method_settle(struct quantize_method *method, struct error *error)
{
    return quantizer_by_id(method->quantizer)->settle(method, error);
}
