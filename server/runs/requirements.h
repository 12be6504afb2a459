/* requirements.h: what a request says of the worker that its runs need: {"device", "labels", "memory_bytes"}. */
#ifndef RUNS_REQUIREMENTS_H
#define RUNS_REQUIREMENTS_H

#include "base/param.h"
#include "schema/faults.h"
#include "store/runs.h"

struct requirements {
    int device;
    struct param_list labels;
    int64_t memory_bytes;
};

extern const struct param requirements_params[];

/* What `given` (checked by the table; NULL or null: nothing) requires, without what it leaves open, into *out: a new
 * reference, or NULL. STATUS_NO_MEMORY. */
MUST_CHECK enum status requirements_make(const json_t *given, json_t **out, struct error *error);

/* Puts it into the row. STATUS_INVALID at "/requires/device": the run itself needs another kind of device. */
MUST_CHECK enum status requirements_put(const json_t *requires, struct run_new *row, struct error *error);

#endif
