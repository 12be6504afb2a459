/* critical.h: the critical sharpness of a loss along a direction, from values of the loss alone (arXiv 2601.16979):
 * 2 / η, η the smallest step against the direction at which the loss exceeds that of no step. Of a quadratic loss and
 * its gradient g it is gᵀHg / gᵀg; elsewhere it also feels what lies beyond the second order.
 *
 * The step is doubled until the loss exceeds, or halved until it does not, and the bracket is halved from there. So a
 * loss that rises and falls again between two steps of the doubling is not seen to rise. */
#ifndef CURVATURE_CRITICAL_H
#define CURVATURE_CRITICAL_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* The loss after a step, in nats. A loss that is not finite exceeds every other. */
struct critical_line {
    void *owner;
    enum status (*loss)(void *owner, double step, double *loss, struct error *error);
};

struct critical {
    bool found;       /* false: the loss never exceeds, or it does at the smallest step tried */
    double low, high; /* steps: at `low` the loss does not exceed, at `high` it does */
    int64_t losses;   /* computed */
};

/* From the step `first` on, until high <= low (1 + tolerance); nothing is tried, or found, unless `first` is positive
 * and finite. Statuses of the line. */
MUST_CHECK enum status critical_find(const struct critical_line *line, double first, double tolerance,
                                     struct critical *out, struct error *error);

/* 2 / η of the middle of the bracket. */
double critical_sharpness(const struct critical *critical);

#endif
