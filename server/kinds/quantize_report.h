/* quantize_report.h: the result of a quantize run, in the API's shape and as numbers for curves. */
#ifndef KINDS_QUANTIZE_REPORT_H
#define KINDS_QUANTIZE_REPORT_H

#include "eval/overlap.h"
#include "inputs/inputs.h"
#include "inputs/recipes.h"
#include "jobs/quantize/quantize_draws.h"
#include "kinds/protocol.h"
#include "kinds/quantize_export.h"
#include "kinds/quantize_run.h"

/* The findings of one run. */
struct quantize_findings {
    struct quantize_result result; /* over all calibration draws (quantize_draws_run); owned, like `exported` */
    struct quantize_draws draws;
    struct overlap overlap; /* windows 0: the run had no calibration */
    struct quantize_exported exported;
    bool calibrated_on_heads; /* struct inputs */
    bool half_scales; /* measured with scales in float16, as an export stores them: other numbers, another series */
};

/* What identifies the numbers of a run. */
struct quantize_identity {
    char dataset[STORE_NAME], protocol[PROTOCOL_TEXT], recipe[RECIPE_TEXT];
    struct protocol_calibration calibration;
};

/* The table of the result. */
extern const struct result_shape quantize_report_shape;

/* A new reference; NULL without memory. */
json_t *quantize_report_render(const struct quantize_findings *found, const struct quantize_identity *identity);

/* STATUS_NO_MEMORY. */
MUST_CHECK enum status quantize_report_measure(const struct quantize_params *params, const struct inputs *inputs,
                                               const struct quantize_identity *identity,
                                               const struct quantize_findings *found, struct measurements *out,
                                               struct error *error);

#endif
