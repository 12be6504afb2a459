/* quantize_bits.h: the size of a quantized model. */
#ifndef QUANTIZE_QUANTIZE_BITS_H
#define QUANTIZE_QUANTIZE_BITS_H

#include "model/model.h"
#include "quant/quantize_method.h"
#include "quant/sequential.h"

/* Bits per parameter of a whole checkpoint: quantized linears, embeddings and outputs with their scales and zero points
 * (`layers` of `count`, `end_bits`), and all other tensors, including skipped layers, at their stored width. A matrix
 * that is both embedding and output counts once if it is rounded to the same bits as both, or as neither; else a
 * checkpoint needs two, and both count. */
double quantize_bits_of_model(const struct model *model, const struct quantize_options *options,
                              const struct layer_summary *layers, int64_t count, int64_t end_bits);

#endif
