#include "quant/quantized_layer.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

enum status quantized_layer_init(struct quantized_layer *layer, int64_t rows, int64_t columns, struct coding coding,
                                 struct error *error)
{
    static const int64_t scale_bits[] = {
        [SCALE_TYPE_F16] = 16, [SCALE_TYPE_F32] = 32, [SCALE_TYPE_E8M0] = 8, [SCALE_TYPE_E4M3] = 8};
    const bool runs = coding.layout == LAYOUT_RUNS;
    const int64_t across = runs ? rows * columns : columns;
    enum status status;
    *layer = (struct quantized_layer){
        .coding = coding, .rows = rows, .columns = columns, .scale_bits = scale_bits[coding.type], .alpha = NAN};
    if (coding.group_size == -1) layer->coding.group_size = columns;
    layer->groups = across / layer->coding.group_size + (across % layer->coding.group_size != 0);
    const int64_t scales = quantized_layer_scales(layer);
    if ((status = memory_new(rows * columns, sizeof *layer->codes, "quantized codes", &layer->codes, error)) !=
            STATUS_OK ||
        (status = memory_new(scales, sizeof *layer->scales, "scales", &layer->scales, error)) != STATUS_OK || runs)
        return status;
    if (coding.values == NULL &&
        (status = memory_new(scales, sizeof *layer->zeros, "zero points", &layer->zeros, error)) != STATUS_OK)
        return status;
    if ((status = memory_new(columns, sizeof *layer->g_idx, "group indices", &layer->g_idx, error)) != STATUS_OK)
        return status;
    for (int64_t c = 0; c < columns; c++) layer->g_idx[c] = (int32_t)(c / layer->coding.group_size);
    return STATUS_OK;
}

void quantized_layer_reset(struct quantized_layer *layer)
{
    memory_free(layer->codes);
    memory_free(layer->scales);
    memory_free(layer->zeros);
    memory_free(layer->g_idx);
    memory_free(layer->column_scales);
    memory_free(layer->original);
    memory_free(layer->kept_columns);
    *layer = (struct quantized_layer){0};
}

int64_t quantized_layer_scales(const struct quantized_layer *layer)
{
    const struct codes codes = {.coding = layer->coding, .rows = layer->rows, .groups = layer->groups};
    return codes_all_groups(&codes);
}

int64_t quantized_layer_bits(const struct quantized_layer *layer)
{
    const int64_t bits = layer->coding.bits, zero_bits = layer->zeros == NULL || layer->coding.sym ? 0 : bits;
    const int64_t column_bits = (layer->ordered ? 32 : 0) + (layer->column_scales != NULL && !layer->folded ? 16 : 0);
    if (layer->skipped) return layer->rows * layer->columns * 16;
    return layer->kept * (16 * layer->rows + 32) + layer->rows * layer->columns * bits +
           quantized_layer_scales(layer) * (layer->scale_bits + zero_bits) + layer->columns * column_bits +
           layer->extra_bits;
}
