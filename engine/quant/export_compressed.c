/* The format of compressed-tensors (llm-compressor, vLLM), "pack-quantized": codes packed along the inputs.
 *
 *   weight_packed      [rows, columns * bits / 32]    the last word of a row filled with zeros
 *   weight_scale       [rows, groups]
 *   weight_shape
 *   weight_zero_point  [rows * bits / 32, groups]     of asymmetric grids, packed along the outputs
 *
 * It counts codes from -2^(bits-1) and packs them from 0, which is where ours begin. */
#include "quant/export_format.h"

#include "base/memory.h"
#include "quant/packing.h"

static enum status check(const struct export_grid *grid, struct error *error)
{
    if (grid->bits != 4 && grid->bits != 8)
        return error_set_at(
            error, STATUS_UNSUPPORTED, "/export",
            "\"compressed-tensors\" stores codes of 4 or 8 bits, not %d: use \"gptq\" or \"dequantized\"", grid->bits);
    if (grid->ordered)
        return error_set_at(
            error, STATUS_UNSUPPORTED, "/export",
            "\"compressed-tensors\" has groups of neighbouring columns only: leave desc_act off, or use \"gptq\"");
    return STATUS_OK;
}

static enum status fits(const struct export_grid *grid, const char *name, int64_t rows, int64_t columns,
                        struct error *error)
{
    (void)rows;
    if (grid->group_size == -1 || columns % grid->group_size == 0) return STATUS_OK;
    return error_set_at(
        error, STATUS_UNSUPPORTED, "/export",
        "\"compressed-tensors\" needs whole groups and %s has %lld columns in groups of %lld: take another "
        "group_size, or use \"dequantized\"",
        name, (long long)columns, (long long)grid->group_size);
}

/* Float32 if the weights were stored in 32 bits or more, otherwise float16. */
static enum dtype scale_dtype(const struct export_grid *grid)
{
    return grid->stored == DTYPE_F32 || grid->stored == DTYPE_F64 ? DTYPE_F32 : DTYPE_F16;
}

static int tensors(const struct export_grid *grid, int64_t rows, int64_t columns,
                   struct export_tensor out[EXPORT_TENSORS])
{
    const int64_t groups = export_format_groups(grid, columns);
    out[0] = (struct export_tensor){"weight_packed", DTYPE_I32, 2, {rows, packing_words(columns, grid->bits)}};
    out[1] = (struct export_tensor){"weight_scale", scale_dtype(grid), 2, {rows, groups}};
    out[2] = (struct export_tensor){"weight_shape", DTYPE_I64, 1, {2}};
    out[3] = (struct export_tensor){"weight_zero_point", DTYPE_I32, 2, {packing_words(rows, grid->bits), groups}};
    return grid->sym ? 3 : 4;
}

static enum status write_codes(const struct quantized_layer *layer, struct weights_writer *writer, int64_t index,
                               struct error *error)
{
    const int64_t count = packing_words(layer->columns, layer->coding.bits);
    uint32_t *words = NULL;
    enum status status = memory_new(count, sizeof *words, "packed codes", &words, error);
    for (int64_t r = 0; r < layer->rows && status == STATUS_OK; r++) {
        packing_pack(layer->codes + r * layer->columns, 1, layer->columns, layer->coding.bits, words, 1);
        status = weights_writer_bytes(writer, index, words, count * (int64_t)sizeof *words, error);
    }
    memory_free(words);
    return status;
}

static enum status write_zeros(const struct quantized_layer *layer, struct weights_writer *writer, int64_t index,
                               struct error *error)
{
    const int64_t count = packing_words(layer->rows, layer->coding.bits) * layer->groups;
    uint32_t *words = NULL;
    enum status status = memory_new(count, sizeof *words, "packed zero points", &words, error);
    if (status != STATUS_OK) return status;
    for (int64_t g = 0; g < layer->groups; g++)
        packing_pack(layer->zeros + g, layer->groups, layer->rows, layer->coding.bits, words + g, layer->groups);
    status = weights_writer_bytes(writer, index, words, count * (int64_t)sizeof *words, error);
    memory_free(words);
    return status;
}

static enum status write(const struct export_grid *grid, const struct quantized_layer *layer,
                         const struct export_place *place, struct error *error)
{
    const int64_t shape[] = {layer->rows, layer->columns};
    enum status status;
    if ((status = write_codes(layer, place->writer, place->first, error)) != STATUS_OK) return status;
    if ((status = export_format_scales(layer, false, scale_dtype(grid), place->writer, place->first + 1, error)) !=
        STATUS_OK)
        return status;
    if ((status = weights_writer_bytes(place->writer, place->first + 2, shape, sizeof shape, error)) != STATUS_OK ||
        grid->sym)
        return status;
    return write_zeros(layer, place->writer, place->first + 3, error);
}

static void put_group(const struct export_grid *grid, const struct export_modules *modules, bool only, FILE *out)
{
    char group[64] = "\"strategy\": \"channel\", \"group_size\": null";
    const char *between = "";
    if (grid->group_size != -1)
        (void)snprintf(group, sizeof group, "\"strategy\": \"group\", \"group_size\": %lld",
                       (long long)grid->group_size);
    (void)fputs("{\"targets\": [", out);
    for (int64_t i = 0; i < modules->count && !only; i++) {
        const struct export_grid *own = modules->list[i].grid;
        if (own == NULL || !export_format_same(own, grid)) continue;
        (void)fprintf(out, "%s\"%s\"", between, modules->list[i].name);
        between = ", ";
    }
    (void)fprintf(out,
                  "%s], \"weights\": {\"num_bits\": %d, \"type\": \"int\", \"symmetric\": %s, %s, \"dynamic\": false}, "
                  "\"input_activations\": null, \"output_activations\": null}",
                  only ? "\"Linear\"" : "", grid->bits, grid->sym ? "true" : "false", group);
}

/* The grid of module `index` if no earlier module has it; otherwise NULL. */
static const struct export_grid *new_grid(const struct export_modules *modules, int64_t index)
{
    const struct export_grid *grid = modules->list[index].grid;
    for (int64_t i = 0; i < index && grid != NULL; i++)
        if (modules->list[i].grid != NULL && export_format_same(modules->list[i].grid, grid)) return NULL;
    return grid;
}

/* Modules of one grid are a group; if all have the same grid, the group is all linear modules. */
static void configure(const struct export_grid *grid, const struct export_modules *modules, FILE *out)
{
    int64_t grids = 0, group = 0;
    for (int64_t i = 0; i < modules->count; i++) grids += new_grid(modules, i) != NULL;
    (void)fputs("{\"quant_method\": \"compressed-tensors\", \"format\": \"pack-quantized\", \"quantization_status\": "
                "\"compressed\", \"config_groups\": {",
                out);
    for (int64_t i = 0; i < modules->count; i++) {
        const struct export_grid *own = new_grid(modules, i);
        if (own == NULL) continue;
        (void)fprintf(out, "%s\"group_%lld\": ", group > 0 ? ", " : "", (long long)group);
        put_group(own, modules, grids == 1, out);
        group++;
    }
    (void)grid;
    (void)fputs("}, \"kv_cache_scheme\": null, \"ignore\": ", out);
    export_format_names(modules, out);
    (void)fputc('}', out);
}

const struct export_format export_compressed_tensors = {
    .name = "compressed-tensors",
    .mixed = true,
    .experts = true,
    .check = check,
    .fits = fits,
    .tensors = tensors,
    .scales = scale_dtype,
    .write = write,
    .configure = configure,
};
