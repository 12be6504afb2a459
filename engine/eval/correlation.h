/* correlation.h: the correlation of two quantities of checkpoints, and its uncertainty.
 *
 * Checkpoints of one trajectory are no independent sample: two quantities that merely drift are correlated along it,
 * and an interval that resamples its points excludes 0 for 40 of 100 pairs of independent random walks of 14 points.
 * The trajectory (or trajectories with a common seed) is independent: the unit. Intervals are
 * - for five units or more: Student's, from a jackknife that leaves out one unit (or one of 50 groups of units) at a
 *   time, on Fisher's z = atanh(r), everything recomputed without it;
 * - for fewer units, and only for differences: Fisher's z ± 1.96 / sqrt(m - 3), m = h (1 - p) / (1 + p) the effective
 *   number of differences, p the product of their lag-1 autocorrelations, or 0 if that is negative (Bartlett 1935), h
 *   the lesser of their number and sum(dx^2) sum(dy^2) / sum(dx^2 dy^2), dx and dy the differences less their means:
 *   with checkpoints 1.5 times as far apart each time, n would exclude 0 for a third of independent walks.
 *   Only if every trajectory is a unit of its own. Spearman's is wider by sqrt(1 + r^2 / 2) (Bonett and Wright 2000).
 * The jackknife of few ranks often sees the same order in all its samples, so Spearman's interval is never narrower
 * than that of as many independent points, and there is none where all ranks agree or oppose.
 * A trajectory with a single point has no difference and leaves nothing about its mean: within and of differences it
 * counts neither as points nor as a unit. Counted as units, single points made intervals of two walks that hold 0 82
 * times of 100.
 * A bootstrap over five units would exclude 0 for independent walks 15 to 24 times of 100. */
#ifndef EVAL_CORRELATION_H
#define EVAL_CORRELATION_H

#include "base/error.h"

#include <stdint.h>

enum correlation_kind {
    CORRELATION_VALUES,      /* of the numbers themselves */
    CORRELATION_WITHIN,      /* of the residuals about the means of each trajectory and of each budget */
    CORRELATION_DIFFERENCES, /* of the changes from one point of a trajectory to the next */
};

enum { CORRELATION_UNITS_LEAST = 5 }; /* for a jackknife over them */

/* Points, those of a trajectory one after another in the order of training. */
struct correlation_points {
    const double *x, *y;       /* [n] finite */
    const int64_t *trajectory; /* [n] from 0 to n - 1 */
    const int64_t *unit;       /* [n] from 0 to units - 1 */
    const int64_t *budget;     /* [n] from 0 to n - 1, equal for comparable points of several trajectories; -1: none,
                                  as is one that no other point of a trajectory of two or more has */
    int64_t n, units;
};

struct correlation {
    int64_t n;                /* numbers used: points, or differences */
    int64_t units;            /* that these are of */
    int64_t shared;           /* of them: points with a budget that another one has */
    double pearson, spearman; /* NAN: fewer than three, one of the quantities does not vary, or residuals not found */
    double low, high;         /* of pearson, 95 %; NAN: none */
    double spearman_low, spearman_high;
};

/* All but the counts is unknown. */
struct correlation correlation_without_numbers(int64_t n, int64_t units);

/* Spearman's is Pearson's of the ranks, ties sharing the mean of theirs. Residuals are those of least squares with a
 * constant for each trajectory and budget, to 1e-9 of their norm. Differences and residuals that differ by no more than
 * rounding are ties, and vary no more than one number does. STATUS_NO_MEMORY. */
MUST_CHECK enum status correlation_measure(const struct correlation_points *points, enum correlation_kind kind,
                                           struct correlation *out, struct error *error);

/* ranks [n]: 1 for the smallest, ties the mean of theirs. Values are tied that differ by no more than what both may be
 * off, near [n]; NULL: nothing. `order` [n] is scratch. */
void correlation_ranks(const double *values, const double *near, int64_t n, int64_t *order, double *ranks);

#endif
