/* quantize_bits.h: the room that a quantized model takes. */
#ifndef QUANTIZE_QUANTIZE_BITS_H
#define QUANTIZE_QUANTIZE_BITS_H

#include "model/model.h"
#include "quant/quantize_method.h"
#include "quant/sequential.h"

/* Bits of a whole checkpoint, a parameter: quantized linears, embeddings and outputs with their scales and zero points
 * (`layers` of `count`, `end_bits`), and all others, layers left as they are among them, at the width that they are
 * stored in. A matrix that is the embedding and the output is there once; twice when one of the two is rounded
 * alone. */
double quantize_bits_of_model(const struct model *model, const struct quantize_options *options,
                              const struct layer_summary *layers, int64_t count, int64_t end_bits);

#endif
