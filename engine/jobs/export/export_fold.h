/* export_fold.h: AWQ's scales of columns have no place in packed formats, so they are divided out of the operation that
 * makes the inputs of a layer (Lin et al., arXiv 2306.00978): the norm before queries, keys and values and that before
 * gate and up; the rows of the values for the attention's output, and those of up for down. The codes stay; the numbers
 * are those of the measured model, except for rounding. A layer whose rows must be divided by scales of a later layer
 * is held until that one comes: two layers at most. */
#ifndef EXPORT_EXPORT_FOLD_H
#define EXPORT_EXPORT_FOLD_H

#include "model/model.h"
#include "quant/quantized_layer.h"

struct export_fold;

/* Layers that are ready to be written: tensor numbers of the original, and layers that are lent until the next call. */
struct export_fold_ready {
    int count;
    int64_t tensors[2];
    const struct quantized_layer *layers[2];
};

/* `skipped` [tensors]: linears that are not quantized; `scaled_outputs`: whether the attention's output has scales
 * although heads share their values. The caller owns *out (export_fold_free). STATUS_UNSUPPORTED with the pointer
 * "/export": the model has no place for the scales. STATUS_NO_MEMORY. */
MUST_CHECK enum status export_fold_new(const struct model *model, const bool *skipped, bool scaled_outputs,
                                       struct export_fold **out, struct error *error);
void export_fold_free(struct export_fold *fold); /* NULL is fine */

/* Takes a quantized layer. STATUS_INTERNAL: its scales contradict earlier layers. STATUS_NO_MEMORY. */
MUST_CHECK enum status export_fold_layer(struct export_fold *fold, int64_t tensor, const struct quantized_layer *layer,
                                         struct export_fold_ready *out, struct error *error);

/* For a tensor, a norm or a bias: whether it is divided; the block in which it is; whether its divisors are known
 * already; and, after all layers, its divisors [elements], lent; NULL: none. */
bool export_fold_divides(const struct export_fold *fold, int64_t tensor);
int64_t export_fold_block(const struct export_fold *fold, int64_t tensor);
bool export_fold_is_noted(const struct export_fold *fold, int64_t tensor);
const float *export_fold_divisors(const struct export_fold *fold, int64_t tensor);

#endif
