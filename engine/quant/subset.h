/* subset.h: quantizes a set of linears with common inputs, with the method's overrides for each of them, and with the
 * columns that it keeps (Zhao et al., "Atom", arXiv 2310.19102; Ashkboos et al., "QUIK", arXiv 2310.09259).
 *
 * The kept columns are the `keep_outliers` inputs with the largest second moment (without calibration: those with the
 * largest weights). They are removed from the task before the quantizer sees it: any quantizer gets the other columns
 * and their part of the statistics, and groups are runs of those. Kept weights are not quantized.
 *
 * Linears with different overrides are quantized apart, unless the quantizer has scales of columns: those belong to the
 * input, so all its linears are one task, and each has its own grid. */
#ifndef QUANT_SUBSET_H
#define QUANT_SUBSET_H

#include "quant/overrides.h"
#include "quant/quantizer.h"

/* Like `quantize` of a quantizer, for the linears of `task`: out[0 … count) belong to the caller also after a failure.
 * Skipped layers are marked `skipped`; the others get the method's activation_bits unless the quantizer rounds inputs
 * itself. Sets dead_columns, and `degraded` where all inputs are dead and the quantizer needs them. Also
 * STATUS_INVALID: no columns left beside the kept ones. */
MUST_CHECK enum status subset_quantize(struct backend *backend, const struct overrides *overrides,
                                       const struct quantize_task *task, struct quantized_layer *out,
                                       struct error *error);

#endif
