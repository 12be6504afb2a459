/* rates.h: the speed of a device's products and copies, measured for some hundredths of a second each. */
#ifndef SELFTEST_RATES_H
#define SELFTEST_RATES_H

#include "selftest/selftest.h"

/* Adds the rate of products of this kind to the report, and after products in f32 also those of squares (xᵀ x) and of
 * copies. Sizes double until one product takes long enough to be measured. STATUS_DEVICE, STATUS_NO_MEMORY. */
MUST_CHECK enum status rates_measure(struct backend *backend, const char *kind, struct selftest_report *report,
                                     struct error *error);

#endif
