/* changepoint.h: where a series of measurements along training changes: its level jumps, or its slope changes, and
 * whether that can be told from a smooth trend and its noise (docs/measures.md, "Early warning").
 *
 * The trend is a + b u + c log(u), u the distance from the first point plus the smallest gap; where that gap is less
 * than a thousandth of the range also d log(u)^2. A change after point k adds a step between k and k + 1, or a kink at
 * k. The statistic is the largest share of the squares about the trend that one change explains. The p-value is the
 * largest against simulated noise of each kind that a trajectory may have: white noise; a random walk, by the
 * differences between neighbours; and, where the gaps differ, a walk whose steps have the variance of the gap that
 * they cross (a gap counts as a tenth of the median one at least), which jumps in wide gaps.
 *
 * The interval contains the middle 95 % of the points found when noise of the residuals' size is drawn about the fit
 * with the change: white noise, or, if Durbin and Watson's statistic of the residuals is below 1.5, the likelier of the
 * walks. */
#ifndef EVAL_CHANGEPOINT_H
#define EVAL_CHANGEPOINT_H

#include "base/error.h"

#include <stdint.h>

enum {
    CHANGEPOINT_LEAST = 12, /* points: with fewer, or more than the most, there is no test */
    CHANGEPOINT_MOST = 2000,
    CHANGEPOINT_MARGIN = 3, /* fewest points before and behind a change */
    CHANGEPOINT_SIMULATIONS = 499
};

enum changepoint_kind { CHANGEPOINT_LEVEL, CHANGEPOINT_SLOPE, CHANGEPOINT_KINDS };

struct changepoint {
    double p; /* NaN: a trend without noise; there is no change then */
    enum changepoint_kind kind;
    int64_t after;     /* the last point before the change: index from 0 */
    int64_t low, high; /* interval of `after`, as above */
    double size;       /* of the jump, or of the change of the slope per unit of x */
};

/* Places of a series with the simulations at them, which series at the same places share. One thread at a time. */
struct changepoint_model;

/* Makes *kept (NULL, or an earlier model) that of x [count], strictly ascending, CHANGEPOINT_LEAST to CHANGEPOINT_MOST;
 * it stays if it is. A p-value is at least 1 / (1 + simulations). On failure *kept is NULL. STATUS_NO_MEMORY. */
MUST_CHECK enum status changepoint_model_of(const double *x, int64_t count, int64_t simulations,
                                            struct changepoint_model **kept, struct error *error);
void changepoint_model_free(struct changepoint_model *model);

/* y: finite, as many as the model has places. Equal input gives equal bits, whatever was tested before. */
void changepoint_find(struct changepoint_model *model, const double *y, struct changepoint *out);

#endif
