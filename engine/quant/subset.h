/* subset.h: a set of linears with common inputs, quantized as a method has it for each of them: its overrides, and the
 * columns that it keeps (Zhao et al., "Atom", arXiv 2310.19102; Ashkboos et al., "QUIK", arXiv 2310.09259).
 *
 * The columns kept are the `keep_outliers` inputs with the largest second moment (without calibration: those where the
 * weights are largest). They leave the task before the quantizer sees it, whichever it is: it is given the other
 * columns, their part of the statistics, and groups are runs of those. Kept weights stay as they are. */
#ifndef QUANT_SUBSET_H
#define QUANT_SUBSET_H

#include "quant/overrides.h"
#include "quant/quantizer.h"

/* As `quantize` of a quantizer, for the linears of `task`: out[0 … count) belong to the caller also after a failure.
 * Layers that are left alone are `skipped`. STATUS_INVALID too: nothing left beside the kept columns. */
MUST_CHECK enum status subset_quantize(struct backend *backend, const struct overrides *overrides,
                                       const struct quantize_task *task, struct quantized_layer *out,
                                       struct error *error);

#endif
