/* attribution_report.h: what an attribution found, as the result of its run. */
#ifndef KINDS_ATTRIBUTION_REPORT_H
#define KINDS_ATTRIBUTION_REPORT_H

#include "base/result.h"
#include "inputs/recipes.h"
#include "jobs/attribution/attribution.h"
#include "kinds/protocol.h"

struct attribution_report {
    const struct attribution_request *request;
    const struct attribution_result *result;
    char recipe[RECIPE_TEXT], protocol[PROTOCOL_TEXT]; /* of the method; of the evaluation */
};

/* What it leaves for curves, of a struct attribution_additive: the share of the cost that is the units' own, over
 * training. */
extern const struct result_shape attribution_report_additive;
extern const struct result_shape *const attribution_report_measured[]; /* that alone, ends with NULL */

/* A new reference. STATUS_NO_MEMORY. */
MUST_CHECK enum status attribution_report_result(const struct attribution_report *report, json_t **out,
                                                 struct error *error);

#endif
