/* baselines.h: the directory where a worker keeps full-precision hidden states (eval/baseline.h) for later runs on the
 * same checkpoint and tokens: $DATA/tmp/baselines. Its size is bounded and the oldest file is removed first. Losing a
 * file costs only time. */
#ifndef KINDS_BASELINES_H
#define KINDS_BASELINES_H

#include "inputs/inputs.h"

/* The path for an evaluation of this checkpoint on these tokens: a hash of everything that decides the states: content,
 * tokens, version and backend. Makes space first. *out is NULL when the states are too large to keep, or when the hash
 * of the content is not known. The caller frees *out. STATUS_NO_MEMORY. */
MUST_CHECK enum status baselines_path(const struct run_context *context, const struct inputs *inputs,
                                      const struct sequences *evaluation, char **out, struct error *error);

#endif
