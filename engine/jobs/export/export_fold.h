/* export_fold.h: AWQ's scales of columns, for which packed formats have no place, divided out of what makes the inputs
 * of a layer (Lin et al., arXiv 2306.00978): the norm before queries, keys and values and that before gate and up; the
 * rows of the values for the attention's output, and those of up for down. The codes stay as they are; the numbers are
 * those of the measured model, but for rounding. A layer whose rows are divided by what only its consumer knows is held
 * until that one comes by: two layers at most. */
#ifndef EXPORT_EXPORT_FOLD_H
#define EXPORT_EXPORT_FOLD_H

#include "model/model.h"
#include "quant/quantized_layer.h"

struct export_fold;

/* What is ready to be written: tensor numbers of the original, and layers that are lent until the next call. */
struct export_fold_ready {
    int count;
    int64_t tensors[2];
    const struct quantized_layer *layers[2];
};

/* `skipped` [tensors] says which linears are left as they are; `scaled_outputs`, whether the attention's output has
 * scales where heads share their values. The caller owns *out (export_fold_free).
 * STATUS_UNSUPPORTED with the pointer "/export": a model in which the scales have no place to go. STATUS_NO_MEMORY. */
MUST_CHECK enum status export_fold_new(const struct model *model, const bool *skipped, bool scaled_outputs,
                                       struct export_fold **out, struct error *error);
void export_fold_free(struct export_fold *fold); /* NULL is fine */

/* Takes notice of a quantized layer. STATUS_INTERNAL: it does not go with those before it. STATUS_NO_MEMORY. */
MUST_CHECK enum status export_fold_layer(struct export_fold *fold, int64_t tensor, const struct quantized_layer *layer,
                                         struct export_fold_ready *out, struct error *error);

/* Whether a tensor, a norm or a bias, is divided, and in which block it lies; whether the layers that say by what came
 * by; and once all layers came by, by what [elements]; NULL: by nothing. Lent. */
bool export_fold_divides(const struct export_fold *fold, int64_t tensor);
int64_t export_fold_block(const struct export_fold *fold, int64_t tensor);
bool export_fold_is_noted(const struct export_fold *fold, int64_t tensor);
const float *export_fold_divisors(const struct export_fold *fold, int64_t tensor);

#endif
