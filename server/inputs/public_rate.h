/* public_rate.h: the learning rate of a published checkpoint, from published facts about its training run. */
#ifndef INPUTS_PUBLIC_RATE_H
#define INPUTS_PUBLIC_RATE_H

#include "store/checkpoints.h"

/* Looks the rate up by `source` ({"repo", "revision"}). For files on disk (`source` NULL or without a repo) by the
 * names of trajectory and checkpoint ("pythia-160m", "step1000"), if `parameters` (-1: not known) is close to the run's
 * number, because another model may have the same name. NaN: not known. */
double public_rate(const json_t *source, const char *trajectory, const char *name, int64_t parameters, int64_t step);

/* All known runs: [{"repository", "revisions", "schedule", "peak", ...}]. A new reference, NULL: no memory. */
json_t *public_rate_table(void);

#endif
