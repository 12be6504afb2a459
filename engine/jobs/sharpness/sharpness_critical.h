/* sharpness_critical.h: the critical sharpness of a model's loss along its gradient. For sharpness_tasks.c. */
#ifndef SHARPNESS_SHARPNESS_CRITICAL_H
#define SHARPNESS_SHARPNESS_CRITICAL_H

#include "jobs/sharpness/sharpness_tasks.h"

/* Losses that a search usually takes, for plans. */
enum { SHARPNESS_CRITICAL_LOSSES = 20 };

/* Fills s->out->critical, from s->gradient and the norms of the result. Allocates a vector and the memory of a gradient
 * with recomputation over one chunk. STATUS_CANCELLED, STATUS_LEASE_LOST, STATUS_NO_MEMORY. */
MUST_CHECK enum status sharpness_critical_run(struct sharpness *s, struct error *error);

#endif
