/* attribution_allocation.h: which of several widths each unit of a model gets, when what the widths cost and harm is
 * known by unit and harms add up: a multiple-choice knapsack. Pure arithmetic; knows no model.
 *
 * choices are [units, widths]; within a unit wider ones take more storage. Harms are the loss (or divergence) that the
 * unit alone brings at that width; they may be negative (noise); one that is not finite is worse than any other. */
#ifndef ATTRIBUTION_ATTRIBUTION_ALLOCATION_H
#define ATTRIBUTION_ATTRIBUTION_ALLOCATION_H

#include "base/error.h"

#include <stdint.h>

struct attribution_choice {
    int64_t bits; /* of storage, scales and zero points included */
    double harm;
};

/* Unit `unit` goes from the width that it had to `width`. */
struct attribution_step {
    int64_t unit, width;
};

/* The frontier of storage and harm, from all units at their least width up: the steps that lower the harm most for the
 * bits that they take, in order (Everett 1963, generalized Lagrange multipliers: the lower convex hull of all
 * allocations). After each step the allocation is the best for the bits that it takes. `steps` has room for units *
 * (widths - 1). STATUS_NO_MEMORY. */
MUST_CHECK enum status attribution_allocation_frontier(const struct attribution_choice *choices, int64_t units,
                                                       int64_t widths, struct attribution_step *steps, int64_t *count,
                                                       struct error *error);

/* The allocation with the least sum of harms that takes at most `budget` bits, by dynamic programming, into picked
 * [units]: exact where the sizes have a large enough common divisor (those of matrices do), else never above the budget
 * and as good as any that stays below it by units / 65536 of it. STATUS_NOT_FOUND: the least widths take more; *least
 * says what. STATUS_NO_MEMORY. */
MUST_CHECK enum status attribution_allocation_find(const struct attribution_choice *choices, int64_t units,
                                                   int64_t widths, int64_t budget, int64_t *picked, int64_t *least,
                                                   struct error *error);

#endif
