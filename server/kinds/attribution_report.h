/* attribution_report.h: the result of an attribution run, and its numbers for curves. */
#ifndef KINDS_ATTRIBUTION_REPORT_H
#define KINDS_ATTRIBUTION_REPORT_H

#include "inputs/recipes.h"
#include "jobs/attribution/attribution.h"
#include "kinds/protocol.h"
#include "store/measurements.h"

#include <jansson.h>

/* The findings of a run and the objects that they belong to. All lent. */
struct attribution_findings {
    const struct attribution_request *request;
    const struct attribution_result *result;
    char recipe[RECIPE_TEXT], protocol[PROTOCOL_TEXT]; /* of the method; of the evaluation */
};

/* Makes the result (attribution_table.h), a new reference, and lists its numbers for curves in the series `series`.
 * STATUS_NO_MEMORY. */
MUST_CHECK enum status attribution_report_make(const struct attribution_findings *findings,
                                               const struct measurement *series, json_t **result,
                                               struct measurements *out, struct error *error);

#endif
