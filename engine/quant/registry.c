/* registry.c: the quantizers there are. */
#include "quant/quantizer.h"

#include <assert.h>

static const struct quantizer *const quantizers[] = {
    [QUANTIZER_RTN] = &quantizer_rtn,
    [QUANTIZER_GPTQ] = &quantizer_gptq,
};
static_assert(sizeof quantizers / sizeof quantizers[0] == QUANTIZER_COUNT, "a row for every quantizer");

const struct quantizer *quantizer_by_id(int id)
{
    assert(id >= 0 && id < QUANTIZER_COUNT);
    return quantizers[id];
}

enum status quantize_method_settle(struct quantize_method *method, struct error *error)
{
    return quantizer_by_id(method->quantizer)->settle(method, error);
}
