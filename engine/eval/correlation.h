/* correlation.h: how two quantities of checkpoints go together, and how sure that is.
 *
 * Checkpoints of one trajectory are no independent sample: two quantities that merely drift are correlated along it,
 * and an interval that resamples its points excludes 0 for 40 of 100 pairs of independent random walks of 14 points.
 * What is independent is the trajectory (or what several share, a seed): the unit. Intervals are
 * - of five units or more: Student's, of a jackknife that leaves out one unit (or one of 50 groups of units) at a time,
 *   on Fisher's z = atanh(r), everything computed anew without it;
 * - of fewer units, and of differences only: Fisher's z ± 1.96 / sqrt(m - 3), m = n (1 - p) / (1 + p) the effective
 *   number of differences, p the product of their lag-1 autocorrelations, or 0 where that is negative (Bartlett 1935).
 *   Only where every trajectory is a unit of its own. Spearman's is wider by sqrt(1.06) (Fieller et al. 1957).
 * A bootstrap over five units would exclude 0 of independent walks 15 to 24 times of 100. */
#ifndef EVAL_CORRELATION_H
#define EVAL_CORRELATION_H

#include "base/error.h"

#include <stdint.h>

enum correlation_kind {
    CORRELATION_VALUES,      /* of the numbers as they are */
    CORRELATION_WITHIN,      /* of what is left about the means of each trajectory and of each budget */
    CORRELATION_DIFFERENCES, /* of the changes from one point of a trajectory to its next */
};

/* Points, those of a trajectory one after another in the order of training. */
struct correlation_points {
    const double *x, *y;       /* [n] finite */
    const int64_t *trajectory; /* [n] from 0 to n - 1 */
    const int64_t *unit;       /* [n] from 0 to units - 1 */
    const int64_t *budget;     /* [n] from 0 to n - 1, shared by compared points of trajectories; -1: none */
    int64_t n, units;
};

struct correlation {
    int64_t n;                /* numbers that went in: points, or differences */
    double pearson, spearman; /* NAN: fewer than three, or one of the quantities does not vary */
    double low, high;         /* of pearson, 95 %; NAN: none */
    double spearman_low, spearman_high;
};

/* Spearman's is Pearson's of the ranks, ties sharing the mean of theirs. STATUS_NO_MEMORY. */
MUST_CHECK enum status correlation_measure(const struct correlation_points *points, enum correlation_kind kind,
                                           struct correlation *out, struct error *error);

/* ranks [n]: 1 for the smallest, ties the mean of theirs. `order` [n] is scratch. */
void correlation_ranks(const double *values, int64_t n, int64_t *order, double *ranks);

#endif
