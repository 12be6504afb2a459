#include "quant/ends.h"

#include "quant/check.h"
#include "quant/on_host.h"

enum status ends_round(struct backend *backend, const char *name, struct matrix matrix, int64_t bits, int64_t *stored_bits,
                       struct error *error)
{
    const struct quantize_linear linear = {name, matrix};
    const struct quantize_task task = {&linear, 1, {.sample = {0}}};
    struct quantized_layer layer = {0};
    struct on_host copy;
    enum status status;
    if ((status = on_host_init(&copy, backend, &task, error)) != STATUS_OK) goto done;
    const struct matrix values = copy.task.linears[0].weight;
    if ((status = check_task(copy.backend, &copy.task, error)) != STATUS_OK) goto done;
    status = quantized_layer_init(&layer, matrix.rows, matrix.columns, bits, ENDS_GROUP, true, error);
    if (status != STATUS_OK) goto done;
    quantized_layer_encode(&layer, backend->team, (struct grid){.bits = (int)bits, .sym = true}, values);
    if ((status = check_scales(&layer, name, error)) != STATUS_OK) goto done;
    quantized_layer_dequantize(&layer, backend->team, values);
    on_host_return(&copy);
    *stored_bits = quantized_layer_bits(&layer);
done:
    on_host_reset(&copy);
    quantized_layer_reset(&layer);
    return status;
}
