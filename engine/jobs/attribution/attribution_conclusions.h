/* attribution_conclusions.h: what follows from an attribution's measurements, without a model. */
#ifndef ATTRIBUTION_ATTRIBUTION_CONCLUSIONS_H
#define ATTRIBUTION_ATTRIBUTION_CONCLUSIONS_H

#include "jobs/attribution/attribution.h"

/* Each function reads the units and numbers (alone, left_out, whole) in *out. */

/* Fills additive. */
void attribution_conclusions_add_up(struct attribution_result *out);

/* Fills frontier. STATUS_NO_MEMORY. */
MUST_CHECK enum status attribution_conclusions_frontier(struct attribution_result *out,
                                                        enum attribution_objective objective, struct error *error);

/* Fills least, and where the budget (bits per weight) suffices, picked, overrides, predicted and allocated.
 * STATUS_NO_MEMORY, STATUS_UNSUPPORTED (attribution_units_overrides). */
MUST_CHECK enum status attribution_conclusions_allocate(struct attribution_result *out,
                                                        enum attribution_objective objective, double budget,
                                                        struct error *error);

#endif
