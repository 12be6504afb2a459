/* quantize_each.h: the frame of quantizers that treat one linear at a time: encodes it, checks and measures the result,
 * and replaces the weights by the dequantized ones if all went well. */
#ifndef QUANT_QUANTIZE_EACH_H
#define QUANT_QUANTIZE_EACH_H

#include "quant/coded.h"
#include "quant/quantizer.h"

/* Fills `layer` (quantized_layer_init and the rest) from linear->weight, which it does not change, and makes `coded`
 * from it; results on a device are pulled afterwards. */
typedef enum status quantize_each_encoder(void *owner, struct backend *backend, const struct quantize_linear *linear,
                                          struct quantized_layer *layer, struct coded *coded, struct error *error);

/* The `quantize` of a row (quantizer.h), with `encode` for its linears. */
MUST_CHECK enum status quantize_each(struct backend *backend, const struct quantize_task *task, void *owner,
                                     quantize_each_encoder *encode, struct quantized_layer *out, struct error *error);

/* Makes the layer in this coding, with its codes; most encoders end with this. */
MUST_CHECK enum status quantize_each_coding(struct backend *backend, const struct quantize_linear *linear,
                                            struct coding coding, struct quantized_layer *layer, struct coded *coded,
                                            struct error *error);

/* The `complete` of a row whose parameters need no completion. */
MUST_CHECK enum status quantize_each_complete(struct quantize_method *method, struct error *error);

#endif
