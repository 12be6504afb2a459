/* attribution_report.h: what an attribution found, as the result of its run and as a number for curves. */
#ifndef KINDS_ATTRIBUTION_REPORT_H
#define KINDS_ATTRIBUTION_REPORT_H

#include "inputs/recipes.h"
#include "jobs/attribution/attribution.h"
#include "kinds/protocol.h"
#include "store/measurements.h"

#include <jansson.h>

/* What a run found, and what its numbers are of. All lent. */
struct attribution_findings {
    const struct attribution_request *request;
    const struct attribution_result *result;
    char recipe[RECIPE_TEXT], protocol[PROTOCOL_TEXT]; /* of the method; of the evaluation */
};

/* The result (attribution_table.h), a new reference, and the numbers of it that curves are made of, which are those of
 * `series`. STATUS_NO_MEMORY. */
MUST_CHECK enum status attribution_report_make(const struct attribution_findings *findings,
                                               const struct measurement *series, json_t **result,
                                               struct measurements *out, struct error *error);

#endif
