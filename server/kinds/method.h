/* method.h: what kinds that quantize have in common when their parameters are checked. */
#ifndef KINDS_METHOD_H
#define KINDS_METHOD_H

#include "kinds/kind.h"
#include "quant/quantizer.h"

/* Refuses (at /params/calibration) a quantizer without the calibration it needs, and asks its cross-field rules; what they settle
 * is written back into the document's "method". */
MUST_CHECK enum status method_check(const struct kind_request *request, const struct quantize_method *method, bool calibrated,
                                    struct error *error);

#endif
