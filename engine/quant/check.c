#include "quant/check.h"

#include <inttypes.h>
#include <math.h>

enum status check_group_size(int64_t group_size, struct error *error)
{
    if (group_size == -1 || (group_size >= 1 && group_size <= GROUP_SIZE_MAXIMUM)) return STATUS_OK;
    return error_set_at(error, STATUS_INVALID, "/group_size",
                        "found %" PRId64 ", expected a number of columns, or -1 for a whole row", group_size);
}

enum status check_task(struct backend *backend, const struct quantize_task *task, struct error *error)
{
    struct matrix hessian = task->inputs.hessian;
    if (backend->ops->element != sizeof(float))
        return error_set(error, STATUS_UNSUPPORTED, "backend %s: quantization runs on floats; use the cpu backend",
                         backend->ops->name);
    for (int64_t i = 0; i < task->count; i++) {
        const struct quantize_linear *linear = &task->linears[i];
        if (linear->weight.columns != task->linears[0].weight.columns)
            return error_set(error, STATUS_INTERNAL, "%s: %" PRId64 " inputs, %s has %" PRId64, linear->name,
                             linear->weight.columns, task->linears[0].name, task->linears[0].weight.columns);
        const bool finite = backend->ops->finite(backend, linear->weight);
        const enum status status = backend->ops->sync(backend, error);
        if (status != STATUS_OK) return status;
        if (!finite) return error_set(error, STATUS_NOT_FINITE, "%s: a weight is NaN or infinite", linear->name);
    }
    if (hessian.data == NULL) return STATUS_OK;
    if (hessian.rows != hessian.columns || hessian.columns != task->linears[0].weight.columns)
        return error_set(error, STATUS_INTERNAL, "%s: Hessian of %" PRId64 " inputs, expected %" PRId64,
                         task->linears[0].name, hessian.columns, task->linears[0].weight.columns);
    backend->ops->mirror(backend, hessian);
    const bool finite = backend->ops->finite(backend, hessian);
    const enum status status = backend->ops->sync(backend, error);
    if (status != STATUS_OK) return status;
    if (!finite)
        return error_set(error, STATUS_NOT_FINITE,
                         "%s: an input activation is NaN or infinite (or too large for a float Hessian)",
                         task->linears[0].name);
    return STATUS_OK;
}

enum status check_scales(const struct quantized_layer *layer, const char *name, struct error *error)
{
    for (int64_t i = 0; layer->zeros != NULL && i < layer->rows * layer->groups; i++) {
        const int zero = layer->zeros[i], above = (1 << layer->coding.bits) - 1 - zero;
        if (!isfinite((float)(zero > above ? zero : above) * layer->scales[i]))
            return error_set(error, STATUS_NOT_FINITE, "%s: row %" PRId64 ": weights too large for a float grid", name,
                             i / layer->groups);
    }
    return STATUS_OK;
}
