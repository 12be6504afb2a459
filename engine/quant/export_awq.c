/* AWQ's format ("gemm", as AutoAWQ writes it; vLLM, GPTQModel): 4 bits, eight rows in a word, the even ones first:
 * bits 4 i … of word w are of row 8 w + order[i].
 *
 *   qweight  [columns, rows / 8]
 *   qzeros   [groups, rows / 8]
 *   scales   [groups, rows] */
#include "quant/export_format.h"

#include "base/memory.h"
#include "quant/packing.h"

enum { PACKED = 8 };
static const int order[PACKED] = {0, 2, 4, 6, 1, 3, 5, 7};

static enum status check(const struct export_grid *grid, struct error *error)
{
    if (grid->bits != 4)
        return error_set_at(error, STATUS_UNSUPPORTED, "/export",
                            "\"awq\" stores codes of 4 bits, not %d: use \"gptq\"", grid->bits);
    if (grid->ordered)
        return error_set_at(error, STATUS_UNSUPPORTED, "/export",
                            "\"awq\" has groups of neighbouring columns only: leave desc_act off, or use \"gptq\"");
    return STATUS_OK;
}

static enum status fits(const struct export_grid *grid, const char *name, int64_t rows, int64_t columns,
                        struct error *error)
{
    if (rows % PACKED == 0 && (grid->group_size == -1 || columns % grid->group_size == 0)) return STATUS_OK;
    return error_set_at(
        error, STATUS_UNSUPPORTED, "/export",
        "\"awq\" packs %d rows at a time and needs whole groups, and %s is [%lld, %lld] in groups of %lld: skip it "
        "with an override, or use \"dequantized\"",
        PACKED, name, (long long)rows, (long long)columns, (long long)grid->group_size);
}

static int tensors(const struct export_grid *grid, int64_t rows, int64_t columns,
                   struct export_tensor out[EXPORT_TENSORS])
{
    const int64_t groups = export_format_groups(grid, columns);
    out[0] = (struct export_tensor){"qweight", DTYPE_I32, 2, {columns, rows / PACKED}};
    out[1] = (struct export_tensor){"qzeros", DTYPE_I32, 2, {groups, rows / PACKED}};
    out[2] = (struct export_tensor){"scales", DTYPE_F16, 2, {groups, rows}};
    return 3;
}

/* `values` [rows, columns] column by column. */
static enum status write_turned(const uint8_t *values, int64_t rows, int64_t columns, struct weights_writer *writer,
                                int64_t index, struct error *error)
{
    uint32_t *words = NULL;
    enum status status = memory_new(rows / PACKED, sizeof *words, "packed codes", &words, error);
    for (int64_t c = 0; c < columns && status == STATUS_OK; c++) {
        for (int64_t w = 0; w < rows / PACKED; w++) {
            uint8_t codes[PACKED];
            for (int i = 0; i < PACKED; i++) codes[i] = values[(w * PACKED + order[i]) * columns + c];
            packing_pack(codes, 1, PACKED, 4, words + w, 1);
        }
        status = weights_writer_bytes(writer, index, words, rows / PACKED * (int64_t)sizeof *words, error);
    }
    memory_free(words);
    return status;
}

static enum status write(const struct export_grid *grid, const struct quantized_layer *layer,
                         const struct export_place *place, struct error *error)
{
    enum status status;
    (void)grid;
    if ((status = write_turned(layer->codes, layer->rows, layer->columns, place->writer, place->first, error)) !=
        STATUS_OK)
        return status;
    if ((status = write_turned(layer->zeros, layer->rows, layer->groups, place->writer, place->first + 1, error)) !=
        STATUS_OK)
        return status;
    return export_format_scales(layer, true, DTYPE_F16, place->writer, place->first + 2, error);
}

/* Zero points are stored for symmetric grids too: kernels of this format always subtract one. */
static void configure(const struct export_grid *grid, const struct export_modules *modules, FILE *out)
{
    (void)fprintf(
        out,
        "{\"quant_method\": \"awq\", \"bits\": 4, \"group_size\": %lld, \"zero_point\": true, \"version\": \"gemm\", ",
        (long long)grid->group_size);
    export_format_dynamic(grid, modules, out);
    (void)fputs("\"modules_to_not_convert\": ", out);
    export_format_names(modules, out);
    (void)fputc('}', out);
}

static const int64_t groups[] = {-1, 16, 32, 64, 128, 0}; /* as GPTQModel has them */

const struct export_format export_awq = {
    .name = "awq",
    .configuration = "quant_config.json",
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
