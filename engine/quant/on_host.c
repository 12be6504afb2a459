#include "quant/on_host.h"

#include "base/memory.h"

enum status on_host_init(struct on_host *copy, struct backend *backend, const struct quantize_task *task, struct error *error)
{
    const struct matrix hessian = task->inputs.hessian;
    const bool device = backend->host != NULL;
    int64_t elements = 0;
    enum status status;
    *copy = (struct on_host){.device = backend, .from = task, .backend = device ? backend->host : backend, .task = *task};
    if (!device) return STATUS_OK;
    for (int64_t i = 0; i < task->count; i++) elements += task->linears[i].weight.rows * task->linears[i].weight.columns;
    if ((status = memory_new(task->count, sizeof *copy->linears, "linears", &copy->linears, error)) != STATUS_OK) return status;
    if ((status = memory_new(elements, sizeof(float), "weights on the host", &copy->weights, error)) != STATUS_OK) return status;
    float *at = copy->weights;
    for (int64_t i = 0; i < task->count; i++) {
        const struct matrix weight = task->linears[i].weight;
        copy->linears[i] =
            (struct quantize_linear){task->linears[i].name, matrix_of(at, weight.rows, weight.columns, sizeof(float))};
        backend->ops->download(backend, weight, at, DTYPE_F32);
        at += weight.rows * weight.columns;
    }
    copy->task.linears = copy->linears;
    if (hessian.data != NULL) {
        status = memory_new(hessian.rows * hessian.columns, sizeof(float), "Hessian on the host", &copy->hessian, error);
        if (status != STATUS_OK) return status;
        backend->ops->download(backend, hessian, copy->hessian, DTYPE_F32);
        copy->task.inputs.hessian = matrix_of(copy->hessian, hessian.rows, hessian.columns, sizeof(float));
    }
    return backend->ops->sync(backend, error);
}

void on_host_return(const struct on_host *copy)
{
    struct backend *device = copy->device;
    for (int64_t i = 0; copy->linears != NULL && i < copy->from->count; i++)
        device->ops->upload(device, copy->from->linears[i].weight, copy->linears[i].weight.data, DTYPE_F32);
}

void on_host_reset(struct on_host *copy)
{
    memory_free(copy->hessian);
    memory_free(copy->weights);
    memory_free(copy->linears);
    *copy = (struct on_host){0};
}
