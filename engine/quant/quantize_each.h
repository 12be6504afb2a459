/* quantize_each.h: the frame of quantizers that look at one linear at a time: encode it, check what came out, measure
 * it, and put the dequantized weights in place when all went well. */
#ifndef QUANT_QUANTIZE_EACH_H
#define QUANT_QUANTIZE_EACH_H

#include "quant/coded.h"
#include "quant/quantizer.h"

/* Fills `layer` (quantized_layer_init and what follows) from linear->weight, which it does not change, and makes
 * `coded` of it; what it leaves on a device is pulled afterwards. */
typedef enum status quantize_each_encoder(void *owner, struct backend *backend, const struct quantize_linear *linear,
                                          struct quantized_layer *layer, struct coded *coded, struct error *error);

/* The `quantize` of a row (quantizer.h), with `encode` for its linears. */
MUST_CHECK enum status quantize_each(struct backend *backend, const struct quantize_task *task, void *owner,
                                     quantize_each_encoder *encode, struct quantized_layer *out, struct error *error);

/* What most encoders end with: the layer in this coding, and its codes. */
MUST_CHECK enum status quantize_each_coding(struct backend *backend, const struct quantize_linear *linear,
                                            struct coding coding, struct quantized_layer *layer, struct coded *coded,
                                            struct error *error);

/* The `complete` of a row whose parameters are right as they come. */
MUST_CHECK enum status quantize_each_complete(struct quantize_method *method, struct error *error);

#endif
