#include "quant/quantized_layer.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

enum status quantized_layer_init(struct quantized_layer *layer, int64_t rows, int64_t columns, int64_t bits,
                                 int64_t group_size, bool sym, struct error *error)
{
    enum status status;
    *layer = (struct quantized_layer){
        .rows = rows, .columns = columns, .bits = (int)bits, .sym = sym, .scale_bits = 16, .alpha = NAN};
    layer->group_size = group_size == -1 ? columns : group_size;
    layer->groups = columns / layer->group_size + (columns % layer->group_size != 0);
    if ((status = memory_new(rows * columns, sizeof *layer->codes, "quantized codes", &layer->codes, error)) !=
            STATUS_OK ||
        (status = memory_new(rows * layer->groups, sizeof *layer->scales, "scales", &layer->scales, error)) !=
            STATUS_OK ||
        (status = memory_new(rows * layer->groups, sizeof *layer->zeros, "zero points", &layer->zeros, error)) !=
            STATUS_OK ||
        (status = memory_new(columns, sizeof *layer->g_idx, "group indices", &layer->g_idx, error)) != STATUS_OK)
        return status;
    for (int64_t c = 0; c < columns; c++) layer->g_idx[c] = (int32_t)(c / layer->group_size);
    return STATUS_OK;
}

enum status quantized_layer_init_codebook(struct quantized_layer *layer, int64_t rows, int64_t columns,
                                          int64_t block_size, const float *codebook, struct error *error)
{
    enum status status;
    *layer = (struct quantized_layer){.rows = rows,
                                      .columns = columns,
                                      .group_size = block_size,
                                      .bits = 4,
                                      .sym = true,
                                      .codebook = codebook,
                                      .scale_bits = 32,
                                      .alpha = NAN};
    layer->groups = (rows * columns + block_size - 1) / block_size;
    if ((status = memory_new(rows * columns, sizeof *layer->codes, "quantized codes", &layer->codes, error)) !=
        STATUS_OK)
        return status;
    return memory_new(layer->groups, sizeof *layer->scales, "scales", &layer->scales, error);
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

int64_t quantized_layer_bits(const struct quantized_layer *layer)
{
    const int64_t groups = layer->codebook != NULL ? layer->groups : layer->rows * layer->groups;
    const int64_t column_bits = (layer->ordered ? 32 : 0) + (layer->column_scales != NULL ? 16 : 0);
    if (layer->skipped) return layer->rows * layer->columns * 16;
    return layer->kept * (16 * layer->rows + 32) + layer->rows * layer->columns * layer->bits +
           groups * (layer->scale_bits + (layer->sym ? 0 : layer->bits)) + layer->columns * column_bits +
           layer->extra_bits;
}
