/* critical.h: the critical sharpness of a loss along a direction, from values of the loss alone (arXiv 2601.16979): 2 /
 * η, with η the smallest step against the direction at which the loss exceeds that of no step. For a quadratic loss and
 * its gradient g it equals gᵀHg / gᵀg; otherwise higher orders of the loss affect it too.
 *
 * The step is doubled until the loss exceeds, or halved until it does not; then the bracket is halved. A loss that
 * rises and falls again between two steps of the doubling is therefore not noticed. */
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
    bool found;       /* false: the loss never exceeds, or does already at the smallest step tried */
    double low, high; /* steps: at `low` the loss does not exceed, at `high` it does */
    int64_t losses;   /* number of losses computed */
};

/* Searches from the step `first` on, until high <= low (1 + tolerance). Tries and finds nothing unless `first` is
 * positive and finite. Statuses of the line. */
MUST_CHECK enum status critical_find(const struct critical_line *line, double first, double tolerance,
                                     struct critical *out, struct error *error);

/* 2 / η at the middle of the bracket. */
double critical_sharpness(const struct critical *critical);

#endif
