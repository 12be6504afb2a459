/* attribution_plan.h: what the quantizations of a list need, added up. For attribution_run.c. */
#ifndef ATTRIBUTION_ATTRIBUTION_PLAN_H
#define ATTRIBUTION_ATTRIBUTION_PLAN_H

#include "jobs/attribution/attribution_list.h"

/* The first plan of a list that fits the budget, or else the smallest, and with it `hold_bytes` of all its
 * quantizations (struct quantize_request). Statuses of quantize_plan. */
MUST_CHECK enum status attribution_plan_choose(const struct attribution_list *list, const struct plan_budget *budget,
                                               int64_t *hold_bytes, struct run_plan *out, struct error *error);

#endif
