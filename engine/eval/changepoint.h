/* changepoint.h: where a series of measurements along training changes: its level jumps, or its slope changes, and
 * whether that can be told from a smooth trend and its noise (docs/measures.md, "Early warning").
 *
 * The trend is a + b u + c log(u), u the distance from the first point plus the smallest gap. A change after point
 * k adds a step between k and k + 1, or a kink at k. The statistic is the largest share of the squares about the trend
 * that one change explains. The p-value is the larger of two, against simulated white noise and, for the differences
 * between neighbours, against a random walk: noise of a trajectory may be either.
 *
 * The interval contains the middle 95 % of the points found when noise of the residuals' size is drawn about the fit
 * with the change: white noise, or a random walk if Durbin and Watson's statistic of the residuals is below 1.5. */
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
