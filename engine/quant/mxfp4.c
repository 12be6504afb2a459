/* mxfp4.c: MXFP4 (OCP Microscaling Formats v1.0): blocks of 32 columns of a row share a scale, a power of two in E8M0;
 * weights are E2M1.
 *
 *     scale = 2^(floor(log2 max |w|) - 2)     section 6.3; 2 is the exponent of E2M1's largest number, 6
 *     code  = the nearest of E2M1's numbers to w / scale, of ties the even one; beyond 6 it is 6
 *
 * 4 bits and 8 / 32 of a scale for each weight. A block of zeros has the smallest scale, 2^-127. */
#include "quant/element.h"
#include "quant/quantize_each.h"

const struct param mxfp4_params[] = {QUANTIZE_ACTIVATION_PARAM, QUANTIZE_OPTION_PARAMS, {0}};

static enum status mxfp4_encode(void *owner, struct backend *backend, const struct quantize_linear *linear,
                                struct quantized_layer *layer, struct coded *coded, struct error *error)
{
    (void)owner;
    return quantize_each_coding(backend, linear, element_mxfp4(), layer, coded, error);
}

static enum status mxfp4_quantize(struct backend *backend, const struct quantize_method *method,
                                  const struct quantize_task *task, struct quantized_layer *out, struct error *error)
{
    (void)method;
    return quantize_each(backend, task, NULL, mxfp4_encode, out, error);
}

const struct quantizer quantizer_mxfp4 = {
    .name = "mxfp4", .params = mxfp4_params, .bits = 4, .complete = quantize_each_complete, .quantize = mxfp4_quantize};
