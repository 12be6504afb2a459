/* baselines.h: where a worker keeps full-precision hidden states (eval/baseline.h) for later runs on the same
 * checkpoint and tokens: $DATA/tmp/baselines, bounded in size, the oldest going first. Losing it costs time only. */
#ifndef KINDS_BASELINES_H
#define KINDS_BASELINES_H

#include "inputs/inputs.h"

/* Path for the evaluation of this checkpoint on these tokens, named by the hash of everything that decides the states:
 * content, tokens, version and backend. Makes room first. *out NULL when they are too large to keep, or the content is
 * not known by a hash. The caller frees *out. STATUS_NO_MEMORY. */
MUST_CHECK enum status baselines_path(const struct run_context *context, const struct inputs *inputs,
                                      const struct sequences *evaluation, char **out, struct error *error);

#endif
