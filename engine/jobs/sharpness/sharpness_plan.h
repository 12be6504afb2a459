/* sharpness_plan.h: the plan of a sharpness run, and its choice for the available memory. */
#ifndef SHARPNESS_SHARPNESS_PLAN_H
#define SHARPNESS_SHARPNESS_PLAN_H

#include "jobs/sharpness/sharpness_tasks.h"

/* Checks the settings and the sequences, and lays the parameters out. The caller frees s->layout and resets s->chunks,
 * also after an error. */
MUST_CHECK enum status sharpness_plan_layout(struct sharpness *s, struct error *error);

/* The group of each tensor, owned by `s`. */
MUST_CHECK enum status sharpness_plan_groups(struct sharpness *s, struct error *error);

/* Chooses how many basis vectors, and then how many activations, fit. The number of vectors does not depend on the
 * machine unless it is too small for SHARPNESS_BASIS_BYTES, so that the same request gives bit-for-bit identical
 * results. *bytes: their memory where matrices lie. STATUS_TOO_LARGE if the smallest plan, which is then in `s`, does
 * not fit. */
MUST_CHECK enum status sharpness_plan_choose(struct sharpness *s, int64_t *bytes, struct error *error);

/* Whether largest eigenvalues are also measured by units of sequences; and the mode of a unit's products, which fits
 * the memory of the products over all sequences. */
bool sharpness_plan_samples(const struct sharpness_request *request);
enum hvp_mode sharpness_plan_sample_mode(const struct sharpness *s);

#endif
