/* requirements.h: the requirements of a request on the workers of its runs: {"device", "labels", "memory_bytes",
 * "device_memory_bytes"}. */
#ifndef RUNS_REQUIREMENTS_H
#define RUNS_REQUIREMENTS_H

#include "base/param.h"
#include "schema/faults.h"
#include "store/runs.h"

struct requirements {
    int device;
    struct param_list labels;
    int64_t memory_bytes, device_memory_bytes;
};

extern const struct param requirements_params[];

/* Makes the requirements from `given` (checked by the table; NULL or null: none) without its empty fields. *out: a new
 * reference, or NULL. STATUS_NO_MEMORY. */
MUST_CHECK enum status requirements_make(const json_t *given, json_t **out, struct error *error);

/* Writes them into the row. STATUS_INVALID at "/requires/device_memory_bytes" for a run on the CPU. */
MUST_CHECK enum status requirements_put(const json_t *requires, struct run_new *row, struct error *error);

#endif
