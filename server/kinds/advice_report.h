/* advice_report.h: the result of a plan run, in the API's shape. */
#ifndef KINDS_ADVICE_REPORT_H
#define KINDS_ADVICE_REPORT_H

#include "jobs/advice/advice.h"
#include "kinds/protocol.h"

#include <jansson.h>

extern const struct result_shape advice_report_shape;

/* The objects that the result's numbers belong to; all lent. */
struct advice_subject {
    const char *const *ids; /* ids of the family's members */
    int64_t members;
    const char *method, *recipe, *protocol, *calibration; /* calibration "": none */
};

/* STATUS_NO_MEMORY. */
MUST_CHECK enum status advice_report_render(const struct advice_result *found, const struct advice_subject *subject,
                                            json_t **out, struct error *error);

#endif
