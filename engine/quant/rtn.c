/* rtn.c: rounding to the nearest point of the min-max grid, each group on its own (grid.h has the equations). */
#include "quant/check.h"
#include "quant/grid.h"

#include <inttypes.h>

static const int64_t bits_allowed[] = {2, 3, 4, 8, 0};

const struct param rtn_params[] = {
    {.name = "bits",
     .type = PARAM_INTEGER,
     .offset = offsetof(struct rtn_params, bits),
     .fallback = "4",
     .allowed = bits_allowed,
     .help = "Bits of a code"},
    {.name = "group_size",
     .type = PARAM_INTEGER,
     .offset = offsetof(struct rtn_params, group_size),
     .fallback = "128",
     .minimum = -1,
     .maximum = GROUP_SIZE_MAXIMUM,
     .help = "Columns that share a scale; -1 for a whole row"},
    {.name = "sym",
     .type = PARAM_BOOLEAN,
     .offset = offsetof(struct rtn_params, sym),
     .fallback = "true",
     .help = "Symmetric grid: the zero point is fixed in the middle"},
    {0},
};

static enum status rtn_settle(struct quantize_method *method, struct error *error)
{
    return check_group_size(method->rtn.group_size, error);
}

struct rtn_job {
    struct grid grid;
    struct matrix weight;
    struct quantized_layer *layer;
};

static void rtn_row(void *context, int64_t row, int thread)
{
    (void)thread;
    const struct rtn_job *job = context;
    const struct quantized_layer *layer = job->layer;
    const float *weight = (const float *)job->weight.data + row * job->weight.stride;
    for (int64_t g = 0; g < layer->groups; g++) {
        const int64_t first = g * layer->group_size, left = layer->columns - first;
        const int64_t count = left < layer->group_size ? left : layer->group_size;
        double scale;
        uint8_t zero;
        grid_find(job->grid, weight + first, count, &scale, &zero);
        grid_encode(job->grid, weight + first, count, scale, zero, layer->codes + row * layer->columns + first);
        layer->scales[row * layer->groups + g] = (float)scale;
        layer->zeros[row * layer->groups + g] = zero;
    }
}

static enum status rtn_quantize(struct backend *backend, const struct quantize_method *method, const struct quantize_task *task,
                                struct quantized_layer *out, struct error *error)
{
    const struct rtn_params *params = &method->rtn;
    enum status status;
    if ((status = check_task(backend, task, error)) != STATUS_OK) return status;
    for (int64_t i = 0; i < task->count; i++) {
        const struct quantize_linear *linear = &task->linears[i];
        struct rtn_job job = {{(int)params->bits, params->sym}, linear->weight, &out[i]};
        status = quantized_layer_init(&out[i], linear->weight.rows, linear->weight.columns, params->bits, params->group_size,
                                      params->sym, error);
        if (status != STATUS_OK) return status;
        team_run(backend->team, out[i].rows, rtn_row, &job);
        if ((status = check_scales(&out[i], linear->name, error)) != STATUS_OK) return status;
        if ((status = quantized_layer_measure(&out[i], backend, linear->weight, task->hessian, error)) != STATUS_OK) return status;
    }
    for (int64_t i = 0; i < task->count; i++) quantized_layer_dequantize(&out[i], backend->team, task->linears[i].weight);
    return STATUS_OK;
}

const struct quantizer quantizer_rtn = {
    .name = "rtn", .params = rtn_params, .needs = 0, .settle = rtn_settle, .quantize = rtn_quantize};
