/* sharpness_plan.h: what a sharpness run will take, and how it fits into the memory there is. */
#ifndef SHARPNESS_SHARPNESS_PLAN_H
#define SHARPNESS_SHARPNESS_PLAN_H

#include "jobs/sharpness/sharpness_tasks.h"

/* Checks the settings and the sequences, and lays the parameters out. The caller frees s->layout and resets s->chunks,
 * also after an error. */
MUST_CHECK enum status sharpness_plan_layout(struct sharpness *s, struct error *error);

/* The group of each tensor, owned by `s`. */
MUST_CHECK enum status sharpness_plan_groups(struct sharpness *s, struct error *error);

/* How many basis vectors, and then how many activations, fit. The vectors do not depend on the machine unless it is too
 * small for SHARPNESS_BASIS_BYTES: same request, same bits. In *bytes what they take where matrices lie.
 * STATUS_TOO_LARGE where the smallest plan does not fit; that one stands in `s` then. */
MUST_CHECK enum status sharpness_plan_choose(struct sharpness *s, int64_t *bytes, struct error *error);

/* Whether the largest eigenvalue is measured by units of sequences too, and how the products of a unit are made: in the
 * memory that those of all sequences have. */
bool sharpness_plan_samples_ends(const struct sharpness_request *request);
enum hvp_mode sharpness_plan_sample_mode(const struct sharpness *s);

#endif
