#include "quant/export_format.h"

#include "base/memory.h"
#include "quant/quantizer.h"

#include <math.h>
#include <string.h>

static const struct export_format *const formats[] = {
    [EXPORT_GPTQ] = &export_gptq,
    [EXPORT_COMPRESSED_TENSORS] = &export_compressed_tensors,
    [EXPORT_DEQUANTIZED] = &export_dequantized,
    [EXPORT_AWQ] = &export_awq,
    [EXPORT_GGUF] = &export_gguf,
};
_Static_assert(sizeof formats / sizeof formats[0] == EXPORT_COUNT, "a row for every format");

/* Values as they are. */
const struct export_format export_dequantized = {.name = "dequantized"};

const struct export_format *export_format_by_id(int id)
{
    return formats[id];
}

static enum status refuse(struct error *error, const char *detail)
{
    return error_set_at(error, STATUS_UNSUPPORTED, "/export", "%s", detail);
}

/* Refuses options that no file of weights can express. */
static enum status check_values(const struct quantize_method *method, struct error *error)
{
    const struct quantize_options *options = &method->options;
    if (options->rotation != ROTATION_NONE)
        return refuse(error,
                      "a rotated model is no checkpoint of its architecture: export without a rotation, or use null");
    if (options->embedding_bits != 0 || options->lm_head_bits != 0)
        return refuse(error,
                      "quantized embeddings and outputs are not exported: leave embedding_bits and lm_head_bits null");
    if (quantize_method_treats_inputs(method))
        return refuse(
            error, "the method rounds the inputs of linears as well, which a file of weights does not say: use null");
    return STATUS_OK;
}

enum status export_format_grid(const struct quantize_method *method, struct export_grid *grid, struct error *error)
{
    const struct quantizer *quantizer = quantizer_by_id(method->quantizer);
    if (quantizer->grid == NULL)
        return error_set_at(
            error, STATUS_UNSUPPORTED, "/export",
            "packed formats store the uniform grids of rtn, gptq and awq, and \"%s\" is none of them: use "
            "\"dequantized\"",
            quantizer->name);
    *grid = quantizer->grid(method);
    return STATUS_OK;
}

enum status export_format_check(const struct export_format *format, const struct quantize_method *method,
                                struct export_grid *grid, struct error *error)
{
    enum status status;
    *grid = (struct export_grid){.group_size = -1};
    if ((status = check_values(method, error)) != STATUS_OK || format->check == NULL) return status;
    if ((status = export_format_grid(method, grid, error)) != STATUS_OK) return status;
    if (method->options.keep_outliers != 0)
        return refuse(
            error, "packed formats have no place for columns that are kept as they are: leave keep_outliers 0, or use "
                   "\"dequantized\"");
    return format->check(grid, error);
}

bool export_format_same(const struct export_grid *a, const struct export_grid *b)
{
    return a->bits == b->bits && a->group_size == b->group_size;
}

int64_t export_format_groups(const struct export_grid *grid, int64_t columns)
{
    return grid->group_size == -1 ? 1 : (columns + grid->group_size - 1) / grid->group_size;
}

enum dtype export_format_half_scales(const struct export_grid *grid)
{
    (void)grid;
    return DTYPE_F16;
}

enum status export_format_half(const char *what, float value, uint16_t *out, struct error *error)
{
    static const float largest = 65504;
    const bool small = fabsf(value) <= largest;
    dtype_info(DTYPE_F16)->from_f32(&value, out, 1);
    if (small && (value == 0 || (*out & 0x7fff) != 0)) return STATUS_OK;
    return error_set(error, STATUS_UNSUPPORTED,
                     "a %s of %g is too %s for float16: skip the module with an override, or use \"dequantized\"", what,
                     (double)value, small ? "small" : "large");
}

enum status export_format_scales(const struct quantized_layer *layer, bool turned, enum dtype dtype,
                                 struct weights_writer *writer, int64_t index, struct error *error)
{
    const int64_t rows = turned ? layer->groups : layer->rows, columns = turned ? layer->rows : layer->groups;
    float *line = NULL;
    uint16_t half;
    enum status status = memory_new(columns, sizeof *line, "scales", &line, error);
    for (int64_t r = 0; r < rows && status == STATUS_OK; r++) {
        for (int64_t c = 0; c < columns && status == STATUS_OK; c++) {
            line[c] = layer->scales[turned ? c * layer->groups + r : r * layer->groups + c];
            if (dtype == DTYPE_F16) status = export_format_half("scale", line[c], &half, error);
        }
        if (status == STATUS_OK) status = weights_writer_f32(writer, index, line, columns, error);
    }
    memory_free(line);
    return status;
}

/* A name as a regular expression in a JSON string. */
static void put_pattern(const char *name, FILE *out)
{
    for (; *name != '\0'; name++) {
        if (*name == '.') (void)fputs("\\\\", out);
        (void)fputc(*name, out);
    }
}

void export_format_dynamic(const struct export_grid *grid, const struct export_modules *modules, FILE *out)
{
    const char *between = "\"dynamic\": {";
    for (int64_t i = 0; i < modules->count; i++) {
        const struct export_grid *own = modules->list[i].grid;
        if (own != NULL && export_format_same(own, grid)) continue;
        (void)fprintf(out, "%s\"%s:^", between, own == NULL ? "-" : "+");
        put_pattern(modules->list[i].name, out);
        if (own == NULL)
            (void)fputs("$\": {}", out);
        else
            (void)fprintf(out, "$\": {\"bits\": %d, \"group_size\": %lld}", own->bits, (long long)own->group_size);
        between = ", ";
    }
    if (strcmp(between, ", ") == 0) (void)fputs("}, ", out);
}

void export_format_names(const struct export_modules *modules, FILE *out)
{
    (void)fprintf(out, "[\"lm_head\"");
    if (strcmp(modules->output, "lm_head") != 0) (void)fprintf(out, ", \"%s\"", modules->output);
    for (int64_t i = 0; i < modules->count; i++)
        if (modules->list[i].grid == NULL) (void)fprintf(out, ", \"%s\"", modules->list[i].name);
    (void)fputc(']', out);
}
