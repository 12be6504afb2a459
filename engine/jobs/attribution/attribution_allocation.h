/* attribution_allocation.h: which of several widths each unit of a model gets. The storage and the harm of each unit at
 * each width are given, and harms add up: a multiple-choice knapsack. Pure arithmetic; knows no model.
 *
 * choices are [units, widths]; within a unit, wider ones take more storage. A harm is the loss (or divergence) that the
 * unit alone adds at that width. It may be negative (noise); a harm that is not finite is worse than any other. */
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

/* The frontier of storage and harm: it starts with all units at their least width, and each step lowers the harm most
 * for the bits that it takes (Everett 1963, generalized Lagrange multipliers: the lower convex hull of all
 * allocations). After each step no other allocation of that storage has less harm. `steps` has space for units *
 * (widths - 1). STATUS_NO_MEMORY. */
MUST_CHECK enum status attribution_allocation_frontier(const struct attribution_choice *choices, int64_t units,
                                                       int64_t widths, struct attribution_step *steps, int64_t *count,
                                                       struct error *error);

/* The allocation with the least sum of harms that takes at most `budget` bits, by dynamic programming, into picked
 * [units]. It is exact where the sizes have a large enough common divisor, as those of matrices have. Otherwise sizes
 * are rounded up: the allocation stays within the budget, and no allocation within (1 - units / 65536) of the budget
 * has less harm. STATUS_NOT_FOUND when the least widths take more than the budget; *least is what they take.
 * STATUS_NO_MEMORY. */
MUST_CHECK enum status attribution_allocation_find(const struct attribution_choice *choices, int64_t units,
                                                   int64_t widths, int64_t budget, int64_t *picked, int64_t *least,
                                                   struct error *error);

#endif
