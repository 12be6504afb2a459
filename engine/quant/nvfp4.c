/* nvfp4.c: NVFP4 (NVIDIA, "Pretraining large language models with NVFP4", arXiv 2509.25149): blocks of 16
 * columns of a row share a scale in E4M3, which a float of the whole matrix multiplies; weights are E2M1.
 *
 *     factor = max |W| / (6 * 448)                    a float
 *     scale  = e4m3(max |w| / 6 / factor) factor      stored: the E4M3 number
 *     code   = the nearest of E2M1's numbers to w / scale, of ties the even one; beyond 6 it is 6
 *
 * 4 bits and 8 / 16 of a scale for each weight, and 32 bits once. A block whose scale rounds to 0 becomes 0. A factor
 * below FLT_MIN becomes FLT_MIN. */
#include "quant/element.h"
#include "quant/quantize_each.h"

const struct param nvfp4_params[] = {QUANTIZE_ACTIVATION_PARAM, QUANTIZE_OPTION_PARAMS, {0}};

static enum status nvfp4_encode(void *owner, struct backend *backend, const struct quantize_linear *linear,
                                struct quantized_layer *layer, struct coded *coded, struct error *error)
{
    struct coding coding = element_nvfp4();
    enum status status = element_nvfp4_factor(backend, linear->weight, &coding, error);
    (void)owner;
    if (status != STATUS_OK) return status;
    status = quantize_each_coding(backend, linear, coding, layer, coded, error);
    layer->extra_bits = ELEMENT_NVFP4_BITS;
    return status;
}

static enum status nvfp4_quantize(struct backend *backend, const struct quantize_method *method,
                                  const struct quantize_task *task, struct quantized_layer *out, struct error *error)
{
    (void)method;
    return quantize_each(backend, task, NULL, nvfp4_encode, out, error);
}

const struct quantizer quantizer_nvfp4 = {
    .name = "nvfp4", .params = nvfp4_params, .bits = 4, .complete = quantize_each_complete, .quantize = nvfp4_quantize};
