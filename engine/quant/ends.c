#include "quant/ends.h"

#include "quant/check.h"
#include "quant/coded.h"

enum status ends_round(struct backend *backend, const char *name, struct matrix matrix, int64_t bits,
                       int64_t *stored_bits, struct error *error)
{
    const struct quantize_linear linear = {name, matrix};
    const struct quantize_task task = {.linears = &linear, .count = 1};
    const struct coding coding = {.bits = (int)bits, .sym = true, .group_size = ENDS_GROUP};
    struct quantized_layer layer = {0};
    struct coded coded = {0};
    enum status status;
    if ((status = check_task(backend, &task, error)) != STATUS_OK) goto done;
    status = quantized_layer_init(&layer, matrix.rows, matrix.columns, coding, error);
    if (status != STATUS_OK) goto done;
    if ((status = coded_init(&coded, backend, &layer, NULL, error)) != STATUS_OK) goto done;
    coded_encode(&coded, matrix);
    if ((status = coded_pull(&coded, error)) != STATUS_OK) goto done;
    if ((status = check_scales(&layer, name, error)) != STATUS_OK) goto done;
    coded_decode(&coded, matrix);
    *stored_bits = quantized_layer_bits(&layer);
done:
    coded_reset(&coded);
    quantized_layer_reset(&layer);
    return status;
}
