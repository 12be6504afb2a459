/* fp8.c: weights in E4M3 (OCP 8-bit Floating Point Specification v1.0: no infinities, largest 448), with a scale as a
 * float for each row, for the matrix, or for each block of 128 rows and columns.
 *
 *     scale = max |w| / 448
 *     code  = the nearest of E4M3's numbers to w / scale, of ties the even one
 *
 * Inputs stay as they are. A matrix with one scale is coded by rows that are all given it. */
#include "quant/element.h"
#include "quant/quantize_each.h"

enum { BLOCK = 128, SCALE_BITS = 32 };

static const char *const scales[] = {
    [FP8_SCALES_CHANNEL] = "channel", [FP8_SCALES_TENSOR] = "tensor", [FP8_SCALES_BLOCK] = "block", NULL};

const struct param fp8_params[] = {
    {.name = "scales",
     .type = PARAM_CHOICE,
     .offset = QUANTIZE_AT(fp8.scales),
     .fallback = "\"channel\"",
     .choices = scales,
     .help = "What has a scale: each output channel, the whole tensor, or each block of 128 rows and 128 columns"},
    QUANTIZE_ACTIVATION_PARAM,
    QUANTIZE_OPTION_PARAMS,
    {0},
};

/* One scale for all rows. */
static enum status encode_tensor(struct backend *backend, const struct quantize_linear *linear, struct coding coding,
                                 struct quantized_layer *layer, struct coded *coded, struct error *error)
{
    float most;
    enum status status;
    coding.given = true;
    if ((status = element_largest(backend, linear->weight, &most, error)) != STATUS_OK) return status;
    status = quantized_layer_init(layer, linear->weight.rows, linear->weight.columns, coding, error);
    if (status == STATUS_OK) status = coded_init(coded, backend, layer, NULL, error);
    if (status != STATUS_OK) return status;
    for (int64_t r = 0; r < layer->rows; r++) layer->scales[r] = (float)((double)most / CODING_E4M3_LARGEST);
    layer->scale_bits = 0;
    layer->extra_bits = SCALE_BITS;
    coded_push(coded);
    coded_encode(coded, linear->weight);
    return STATUS_OK;
}

static enum status fp8_encode(void *owner, struct backend *backend, const struct quantize_linear *linear,
                              struct quantized_layer *layer, struct coded *coded, struct error *error)
{
    const struct fp8_params *params = owner;
    struct coding coding = element_coding_e4m3();
    coding.rule = SCALE_ABSMAX;
    coding.type = SCALE_TYPE_F32;
    coding.group_size = -1;
    if (params->scales == FP8_SCALES_TENSOR) return encode_tensor(backend, linear, coding, layer, coded, error);
    if (params->scales == FP8_SCALES_BLOCK) {
        coding.layout = LAYOUT_TILES;
        coding.group_rows = coding.group_size = BLOCK;
    }
    return quantize_each_coding(backend, linear, coding, layer, coded, error);
}

static enum status fp8_quantize(struct backend *backend, const struct quantize_method *method,
                                const struct quantize_task *task, struct quantized_layer *out, struct error *error)
{
    struct fp8_params params = method->fp8;
    return quantize_each(backend, task, &params, fp8_encode, out, error);
}

const struct quantizer quantizer_fp8 = {
    .name = "fp8", .params = fp8_params, .bits = 8, .complete = quantize_each_complete, .quantize = fp8_quantize};
