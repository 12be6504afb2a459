/* changepoint.h: where a series of measurements along training changes: its level jumps, or its slope changes, and
 * whether that can be told from a smooth trend and its noise.
 *
 * The trend is a + b u + c log(u), u the distance from the first point plus the smallest gap. A change after point
 * k adds a step between k and k + 1, or a kink at k. The statistic is the largest share, over all places and both
 * kinds, of the squares about the trend that one change explains. Noise of a trajectory may be fresh at each checkpoint
 * or add up from one to the next, and a random walk has bends everywhere: so the statistic is computed for the numbers
 * and compared with white noise, and for their differences and compared with a random walk with such a trend. Both
 * distributions are simulated for these very places (CHANGEPOINT_SIMULATIONS draws of Gaussian noise). The p-value is
 * the larger of the two, so that under either noise at most 5 of 100 series have one below 0.05.
 *
 * The interval of the place contains the middle 95 % of the places found when noise of the residuals' size is drawn
 * about the fit with the change. The noise is white, unless the residuals are correlated from point to point by more
 * than a quarter (Durbin and Watson's statistic below 1.5); then it is a random walk. In simulations the interval
 * contained the place in 85 % of cases or more; its ends are places, so it is often a single one. */
#ifndef EVAL_CHANGEPOINT_H
#define EVAL_CHANGEPOINT_H

#include "base/error.h"

#include <stdint.h>

enum {
    CHANGEPOINT_LEAST = 12, /* points: with fewer there is no test */
    CHANGEPOINT_MOST = 2000,
    CHANGEPOINT_MARGIN = 3, /* fewest points before and behind a change */
    CHANGEPOINT_SIMULATIONS = 499
};

enum changepoint_kind { CHANGEPOINT_LEVEL, CHANGEPOINT_SLOPE, CHANGEPOINT_KINDS };

struct changepoint {
    double p; /* NaN: too few points, or all are equal */
    enum changepoint_kind kind;
    int64_t after;     /* the last point before the change: index from 0 */
    int64_t low, high; /* interval of `after`, as above */
    double size;       /* of the jump, or of the change of the slope per unit of x */
};

/* x [count] strictly ascending, y finite; at most CHANGEPOINT_MOST. Equal input gives equal bits. STATUS_NO_MEMORY. */
MUST_CHECK enum status changepoint_find(const double *x, const double *y, int64_t count, struct changepoint *out,
                                        struct error *error);

#endif
