/* quantize_run.h: executes one run of the kind quantize, or several that differ in method, seed and export: shared
 * inputs are opened once, and one forward pass serves all. */
#ifndef KINDS_QUANTIZE_RUN_H
#define KINDS_QUANTIZE_RUN_H

#include "inputs/data_source.h"
#include "kinds/kind.h"
#include "quant/quantize_method.h"

/* Filled by the kind's table (quantize.c). */
struct quantize_params {
    const char *checkpoint;
    struct quantize_method method;
    struct data_use calibration, evaluation; /* calibration.dataset NULL: none */
    int precision, export_as;
    int64_t seed, calibration_draws;
    bool per_token;
};

/* As kind.execute_batch. Members that do not fit into memory beside the others are given back. A run with several
 * calibration draws is executed alone. */
void quantize_run_batch(struct kind_member *members, size_t count);

/* As kind.plan. The files of an export are assumed to be as large as those of the checkpoint. */
MUST_CHECK enum status quantize_run_plan(const struct run_context *context, const void *params,
                                         struct plan_budget *budget, struct run_plan *out, struct error *error);

#endif
