/* rtn.c: rounding to the nearest point of the min-max grid, each group on its own (coding.h has the equations). */
#include "quant/check.h"
#include "quant/export_format.h"
#include "quant/quantize_each.h"

const struct param rtn_params[] = {
    QUANTIZE_GRID_PARAMS(rtn, "true"), QUANTIZE_ACTIVATION_PARAM, QUANTIZE_OPTION_PARAMS, {0}};

static enum status rtn_complete(struct quantize_method *method, struct error *error)
{
    return check_group_size(method->rtn.group_size, error);
}

static enum status rtn_encode(void *owner, struct backend *backend, const struct quantize_linear *linear,
                              struct quantized_layer *layer, struct coded *coded, struct error *error)
{
    const struct rtn_params *params = owner;
    const struct coding coding = {.bits = (int)params->bits, .sym = params->sym, .group_size = params->group_size};
    return quantize_each_coding(backend, linear, coding, layer, coded, error);
}

static enum status rtn_quantize(struct backend *backend, const struct quantize_method *method,
                                const struct quantize_task *task, struct quantized_layer *out, struct error *error)
{
    struct rtn_params params = method->rtn;
    return quantize_each(backend, task, &params, rtn_encode, out, error);
}

static struct export_grid rtn_grid(const struct quantize_method *method)
{
    const struct rtn_params *rtn = &method->rtn;
    return (struct export_grid){.bits = (int)rtn->bits, .group_size = rtn->group_size, .sym = rtn->sym};
}

const struct quantizer quantizer_rtn = {.name = "rtn",
                                        .params = rtn_params,
                                        .needs = 0,
                                        .grid = rtn_grid,
                                        .complete = rtn_complete,
                                        .quantize = rtn_quantize};
