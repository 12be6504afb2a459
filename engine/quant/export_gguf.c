/* GGUF's types that are rounded grids (ggml, docs/gguf.md): blocks of 32 columns with a scale of their own in float16,
 * so any group of whole blocks repeats its scale.
 *
 *     Q8_0   d, 32 signed bytes    value = d q
 *     Q4_0   d, 16 bytes           value = d (q - 8)
 *     Q4_1   d, m, 16 bytes        value = d q + m
 *
 * A byte of four-bit codes has column i below, column i + 16 above. */
#include "quant/export_format.h"

#include "base/memory.h"
#include "model/gguf_names.h"

#include <string.h>

enum { BLOCK = 32, HALF = 16 };

static void put_q8_0(const uint8_t *codes, uint8_t zero, uint8_t *out)
{
    for (int i = 0; i < BLOCK; i++) out[i] = (uint8_t)(codes[i] - zero);
}

static void put_nibbles(const uint8_t *codes, uint8_t zero, uint8_t *out)
{
    (void)zero;
    for (int i = 0; i < HALF; i++) out[i] = (uint8_t)(codes[i] | codes[i + HALF] << 4);
}

static const struct block_type {
    int bits;
    bool sym;
    enum dtype dtype;
    uint32_t file_type; /* general.file_type */
    void (*put)(const uint8_t *codes, uint8_t zero, uint8_t *out);
} types[] = {
    {8, true, DTYPE_Q8_0, 7, put_q8_0},
    {4, true, DTYPE_Q4_0, 2, put_nibbles},
    {4, false, DTYPE_Q4_1, 3, put_nibbles},
};

static const struct block_type *type_of(const struct export_grid *grid)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].bits == grid->bits && types[i].sym == grid->sym) return &types[i];
    return NULL;
}

static enum status check(const struct export_grid *grid, struct error *error)
{
    if (type_of(grid) == NULL)
        return error_set_at(
            error, STATUS_UNSUPPORTED, "/export",
            "\"gguf\" stores 8 bits symmetric (Q8_0), 4 bits symmetric (Q4_0) and 4 bits asymmetric (Q4_1), not "
            "%d bits %s",
            grid->bits, grid->sym ? "symmetric" : "asymmetric");
    if (grid->ordered)
        return error_set_at(error, STATUS_UNSUPPORTED, "/export",
                            "\"gguf\" has blocks of neighbouring columns only: leave desc_act off, or use \"gptq\"");
    if (grid->group_size == -1 || grid->group_size % BLOCK == 0) return STATUS_OK;
    return error_set_at(error, STATUS_UNSUPPORTED, "/export",
                        "\"gguf\" has a scale for every %d columns: group_size may be a multiple of that, or -1",
                        BLOCK);
}

static enum status fits(const struct export_grid *grid, const char *name, int64_t rows, int64_t columns,
                        struct error *error)
{
    (void)grid;
    if (columns % BLOCK == 0) return STATUS_OK;
    return error_set_at(error, STATUS_UNSUPPORTED, "/export",
                        "\"gguf\" needs whole blocks of %d columns and %s is [%lld, %lld]: skip it with an override",
                        BLOCK, name, (long long)rows, (long long)columns);
}

static int tensors(const struct export_grid *grid, int64_t rows, int64_t columns,
                   struct export_tensor out[EXPORT_TENSORS])
{
    out[0] = (struct export_tensor){"weight", type_of(grid)->dtype, 2, {rows, columns}};
    return 1;
}

/* d, and where the type has one m = -zero d. A scale that float16 holds may have a minimum that it does not. */
static enum status put_scales(const struct quantized_layer *layer, int64_t at, uint8_t *out, int *size,
                              struct error *error)
{
    const struct dtype_info *half = dtype_info(DTYPE_F16);
    uint16_t bits;
    float stored;
    enum status status;
    if ((status = export_format_half("scale", layer->scales[at], &bits, error)) != STATUS_OK) return status;
    memcpy(out, &bits, sizeof bits);
    *size = sizeof bits;
    if (layer->coding.sym) return STATUS_OK;
    half->to_f32(&bits, &stored, 1);
    stored *= -(float)layer->zeros[at];
    if ((status = export_format_half("minimum", stored, &bits, error)) != STATUS_OK) return status;
    memcpy(out + *size, &bits, sizeof bits);
    *size += (int)sizeof bits;
    return STATUS_OK;
}

static enum status write(const struct export_grid *grid, const struct quantized_layer *layer,
                         const struct export_place *place, struct error *error)
{
    const struct block_type *type = type_of(grid);
    const int64_t blocks = layer->columns / BLOCK, width = (int64_t)dtype_info(type->dtype)->bits / 8;
    uint8_t *line = NULL;
    enum status status = memory_new(blocks * width, 1, "blocks of codes", &line, error);
    for (int64_t stored = 0; stored < layer->rows && status == STATUS_OK; stored++) {
        const int64_t row = gguf_names_row(stored, place->head_rows);
        for (int64_t b = 0; b < blocks && status == STATUS_OK; b++) {
            const int64_t at = row * layer->groups + b * BLOCK / layer->coding.group_size;
            int size = 0;
            if ((status = put_scales(layer, at, line + b * width, &size, error)) == STATUS_OK)
                type->put(layer->codes + row * layer->columns + b * BLOCK, layer->zeros[at], line + b * width + size);
        }
        if (status == STATUS_OK)
            status = weights_writer_bytes(place->writer, place->first, line, blocks * width, error);
    }
    memory_free(line);
    return status;
}

static void describe(const struct export_grid *grid, struct gguf_metadata *metadata)
{
    gguf_metadata_integer(metadata, "general.file_type", type_of(grid)->file_type);
    gguf_metadata_integer(metadata, "general.quantization_version", 2);
    gguf_metadata_integer(metadata, "general.alignment", BLOCK);
}

const struct export_format export_gguf = {
    .name = "gguf",
    .mixed = true,
    .check = check,
    .fits = fits,
    .tensors = tensors,
    .scales = export_format_half_scales,
    .write = write,
    .describe = describe,
};
