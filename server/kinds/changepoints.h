/* changepoints.h: series of measurements tested for a change (eval/changepoint.h), as documents. A series has "points":
 * [{"x", "y", "checkpoint", "checkpoint_name"}] by x. */
#ifndef KINDS_CHANGEPOINTS_H
#define KINDS_CHANGEPOINTS_H

#include "base/error.h"
#include "eval/changepoint.h"

#include <jansson.h>

/* The points with finite numbers, in ascending order of x. */
struct changepoints_series {
    double *x, *y;  /* owned */
    size_t *places; /* owned: in the list of points */
    int64_t count;
};

/* Those from x = `from` on. On STATUS_OK the caller resets *out. */
MUST_CHECK enum status changepoints_take(const json_t *points, double from, struct changepoints_series *out,
                                         struct error *error);
void changepoints_reset(struct changepoints_series *series);

/* *count: how many of a list of series have enough points to be tested. */
MUST_CHECK enum status changepoints_count_tests(const json_t *list, double from, int64_t *count, struct error *error);

/* Sets "points" (their number), "p_value", "adjusted_p_value" (that of `tests` made at once) and "change" of `out`:
 * {"kind", "after", "before", "interval", "size"}, null above 0.05. p values are null where there is no test. */
MUST_CHECK enum status changepoints_test(const json_t *points, const struct changepoints_series *series, int64_t tests,
                                         json_t *out, struct error *error);

#endif
