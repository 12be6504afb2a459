#include "quant/quantize_each.h"

#include "base/memory.h"
#include "quant/check.h"

enum status quantize_each(struct backend *backend, const struct quantize_task *task, void *owner,
                          quantize_each_encoder *encode, struct quantized_layer *out, struct error *error)
{
    enum status status;
    struct coded *coded = NULL;
    if ((status = check_task(backend, task, error)) != STATUS_OK) return status;
    if ((status = memory_new(task->count, sizeof *coded, "codes", &coded, error)) != STATUS_OK) return status;
    for (int64_t i = 0; i < task->count; i++) {
        const struct quantize_linear *linear = &task->linears[i];
        if ((status = encode(owner, backend, linear, &out[i], &coded[i], error)) != STATUS_OK) goto done;
        if ((status = coded_pull(&coded[i], error)) != STATUS_OK) goto done;
        if ((status = check_scales(&out[i], linear->name, error)) != STATUS_OK) goto done;
        if (task->half_scales && (status = coded_round_scales(&coded[i], linear->name, error)) != STATUS_OK) goto done;
        if ((status = coded_measure(&coded[i], linear->name, linear->weight, task->inputs.hessian, error)) != STATUS_OK)
            goto done;
    }
    for (int64_t i = 0; i < task->count; i++) coded_decode(&coded[i], task->linears[i].weight);
done:
    for (int64_t i = 0; i < task->count; i++) coded_reset(&coded[i]);
    memory_free(coded);
    return status;
}

enum status quantize_each_coding(struct backend *backend, const struct quantize_linear *linear, struct coding coding,
                                 struct quantized_layer *layer, struct coded *coded, struct error *error)
{
    enum status status = quantized_layer_init(layer, linear->weight.rows, linear->weight.columns, coding, error);
    if (status == STATUS_OK) status = coded_init(coded, backend, layer, NULL, error);
    if (status != STATUS_OK) return status;
    coded_push(coded);
    coded_encode(coded, linear->weight);
    return STATUS_OK;
}

enum status quantize_each_complete(struct quantize_method *method, struct error *error)
{
    (void)method, (void)error;
    return STATUS_OK;
}
