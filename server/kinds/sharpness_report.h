/* sharpness_report.h: the result of a sharpness run, in the API's shape and as numbers for curves. */
#ifndef KINDS_SHARPNESS_REPORT_H
#define KINDS_SHARPNESS_REPORT_H

#include "base/result.h"
#include "jobs/sharpness/sharpness.h"
#include "store/measurements.h"

#include <jansson.h>

extern const struct result_shape sharpness_report_shape;

/* *result is a new reference; `out` gets the numbers. Numbers of a direction are in the series of `series`' method ("":
 * there was none). `rounded`: as in sharpness_ends_of. STATUS_NO_MEMORY. */
MUST_CHECK enum status sharpness_report(const struct sharpness_settings *settings, const struct sharpness_result *found,
                                        const struct measurement *series, bool rounded, json_t **result,
                                        struct measurements *out, struct error *error);

#endif
