#include "quant/quantize_each.h"

#include "quant/check.h"

enum status quantize_each(struct backend *backend, const struct quantize_task *task, void *owner, quantize_each_encoder *encode,
                          struct quantized_layer *out, struct error *error)
{
    enum status status;
    if ((status = check_task(backend, task, error)) != STATUS_OK) return status;
    for (int64_t i = 0; i < task->count; i++) {
        const struct quantize_linear *linear = &task->linears[i];
        if ((status = encode(owner, backend, linear, &out[i], error)) != STATUS_OK) return status;
        if ((status = check_scales(&out[i], linear->name, error)) != STATUS_OK) return status;
        if ((status = quantized_layer_measure(&out[i], backend, linear->weight, task->inputs.hessian, error)) != STATUS_OK)
            return status;
    }
    for (int64_t i = 0; i < task->count; i++) quantized_layer_dequantize(&out[i], backend->team, task->linears[i].weight);
    return STATUS_OK;
}
