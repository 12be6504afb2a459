/* GPTQ's format as GPTQModel, Transformers and vLLM read it. Codes are packed along the inputs, zero points along the
 * outputs:
 *
 *   qweight  [columns * bits / 32, rows]
 *   qzeros   [groups, rows * bits / 32]
 *   scales   [groups, rows]
 *   g_idx    [columns]
 *
 * The first version of the format stores zero - 1, so that a zero point of 0, which asymmetric grids have, is the code
 * of none: those are stored in the second version, which has the zero itself. */
#include "quant/export_format.h"

#include "base/memory.h"
#include "base/version.h"
#include "quant/packing.h"

enum { CODES = 32 }; /* that whole words hold, whatever the bits */

static enum status check(const struct export_grid *grid, struct error *error)
{
    (void)grid; /* 2, 3, 4 and 8 bits, in any order */
    (void)error;
    return STATUS_OK;
}

static enum status fits(const struct export_grid *grid, const char *name, int64_t rows, int64_t columns,
                        struct error *error)
{
    (void)grid;
    if (rows % CODES == 0 && columns % CODES == 0) return STATUS_OK;
    return error_set_at(
        error, STATUS_UNSUPPORTED, "/export",
        "\"gptq\" packs %d rows and columns at a time and %s is [%lld, %lld]: skip it with an override, or use "
        "\"dequantized\"",
        CODES, name, (long long)rows, (long long)columns);
}

static int tensors(const struct export_grid *grid, int64_t rows, int64_t columns,
                   struct export_tensor out[EXPORT_TENSORS])
{
    const int64_t groups = export_format_groups(grid, columns);
    out[0] = (struct export_tensor){"qweight", DTYPE_I32, 2, {packing_words(columns, grid->bits), rows}};
    out[1] = (struct export_tensor){"qzeros", DTYPE_I32, 2, {groups, packing_words(rows, grid->bits)}};
    out[2] = (struct export_tensor){"scales", DTYPE_F16, 2, {groups, rows}};
    out[3] = (struct export_tensor){"g_idx", DTYPE_I32, 1, {columns}};
    return 4;
}

static enum status write_codes(const struct quantized_layer *layer, struct weights_writer *writer, int64_t index,
                               struct error *error)
{
    uint32_t *words = NULL;
    enum status status = memory_new(layer->coding.bits * layer->rows, sizeof *words, "packed codes", &words, error);
    for (int64_t c = 0; c < layer->columns && status == STATUS_OK; c += CODES) {
        for (int64_t r = 0; r < layer->rows; r++)
            packing_pack(layer->codes + r * layer->columns + c, 1, CODES, layer->coding.bits, words + r, layer->rows);
        status = weights_writer_bytes(writer, index, words, layer->coding.bits * layer->rows * (int64_t)sizeof *words,
                                      error);
    }
    memory_free(words);
    return status;
}

static enum status write_zeros(const struct quantized_layer *layer, struct weights_writer *writer, int64_t index,
                               struct error *error)
{
    const int64_t count = packing_words(layer->rows, layer->coding.bits);
    uint32_t *words = NULL;
    uint8_t *stored = NULL;
    enum status status = memory_new(count, sizeof *words, "packed zero points", &words, error);
    if (status == STATUS_OK) status = memory_new(layer->rows, sizeof *stored, "packed zero points", &stored, error);
    for (int64_t g = 0; g < layer->groups && status == STATUS_OK; g++) {
        for (int64_t r = 0; r < layer->rows; r++)
            stored[r] = (uint8_t)(layer->zeros[r * layer->groups + g] - layer->coding.sym);
        packing_pack(stored, 1, layer->rows, layer->coding.bits, words, 1);
        status = weights_writer_bytes(writer, index, words, count * (int64_t)sizeof *words, error);
    }
    memory_free(stored);
    memory_free(words);
    return status;
}

static enum status write(const struct export_grid *grid, const struct quantized_layer *layer,
                         const struct export_place *place, struct error *error)
{
    enum status status;
    (void)grid;
    if ((status = write_codes(layer, place->writer, place->first, error)) != STATUS_OK) return status;
    if ((status = write_zeros(layer, place->writer, place->first + 1, error)) != STATUS_OK) return status;
    if ((status = export_format_scales(layer, true, DTYPE_F16, place->writer, place->first + 2, error)) != STATUS_OK)
        return status;
    return weights_writer_bytes(place->writer, place->first + 3, layer->g_idx,
                                layer->columns * (int64_t)sizeof *layer->g_idx, error);
}

/* Readers take one word for all modules: whether columns are ordered in any. Of a single group g_idx is 0 anyway. */
static bool is_ordered(const struct export_grid *grid, const struct export_modules *modules)
{
    bool ordered = grid->ordered;
    for (int64_t i = 0; i < modules->count; i++)
        ordered = ordered || (modules->list[i].grid != NULL && modules->list[i].grid->ordered);
    return ordered;
}

static void configure(const struct export_grid *grid, const struct export_modules *modules, FILE *out)
{
    const char *version = grid->sym ? "gptq" : "gptq_v2";
    (void)fprintf(
        out,
        "{\"quant_method\": \"gptq\", \"bits\": %d, \"group_size\": %lld, \"desc_act\": %s, \"sym\": %s, \"lm_head\": "
        "false, \"checkpoint_format\": \"%s\", \"pack_dtype\": \"int32\", ",
        grid->bits, (long long)grid->group_size, is_ordered(grid, modules) ? "true" : "false",
        grid->sym ? "true" : "false", version);
    export_format_dynamic(grid, modules, out);
    (void)fprintf(out, "\"meta\": {\"quantizer\": [\"deltaq:%s\"]}}", DELTAQ_VERSION);
}

static const int64_t groups[] = {-1, 16, 32, 64, 128, 256, 512, 1024, 0}; /* as GPTQModel has them */

const struct export_format export_gptq = {
    .name = "gptq",
    .configuration = "quantize_config.json",
    .mixed = true,
    .transposed = true,
    .experts = true,
    .groups = groups,
    .check = check,
    .fits = fits,
    .tensors = tensors,
    .scales = export_format_half_scales,
    .write = write,
    .configure = configure,
};
