/* check.h: the checks that every quantizer makes of its task before it changes anything. */
#ifndef QUANT_CHECK_H
#define QUANT_CHECK_H

#include "quant/quantizer.h"

/* STATUS_INVALID at "/group_size" unless it is -1 or at least 1. */
MUST_CHECK enum status check_group_size(int64_t group_size, struct error *error);

/* Checks that weights are finite floats of one width and that the Hessian (if any) is finite and of that width; mirrors
 * its lower triangle. STATUS_NOT_FINITE (names the linear), STATUS_UNSUPPORTED, STATUS_INTERNAL (shapes). */
MUST_CHECK enum status check_task(struct backend *backend, const struct quantize_task *task, struct error *error);

/* Refuses grids whose ends do not fit a float (weights near the end of its range). STATUS_NOT_FINITE. */
MUST_CHECK enum status check_scales(const struct quantized_layer *layer, const char *name, struct error *error);

#endif
