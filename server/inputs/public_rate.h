/* public_rate.h: the learning rate of a published checkpoint, from what is known of its run. */
#ifndef INPUTS_PUBLIC_RATE_H
#define INPUTS_PUBLIC_RATE_H

#include "store/checkpoints.h"

/* By `source` ({"repo", "revision"}); for files on disk (`source` NULL or without a repo) by the names of trajectory
 * and checkpoint ("pythia-160m", "step1000"), if `parameters` (-1: not known) is about the run's number too: another
 * model may have been given that name. NaN: nothing is known. */
double public_rate(const json_t *source, const char *trajectory, const char *name, int64_t parameters, int64_t step);

/* All that is known: [{"repository", "revisions", "schedule", "peak", ...}]. A new reference, NULL: no memory. */
json_t *public_rate_table(void);

#endif
