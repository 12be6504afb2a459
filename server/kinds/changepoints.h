/* changepoints.h: series of measurements tested for a change (eval/changepoint.h), as documents. A series has "points":
 * [{"x", "y", "checkpoint", "checkpoint_name"}] by x. */
#ifndef KINDS_CHANGEPOINTS_H
#define KINDS_CHANGEPOINTS_H

#include "base/error.h"
#include "eval/changepoint.h"

#include <jansson.h>
#include <stdbool.h>

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

/* Tests made at once, and what they share. */
struct changepoints_tests {
    int64_t count;
    struct changepoint_model *model; /* of the series tested last; or NULL */
};

/* Whether a series has as many points as a test needs and takes. */
bool changepoints_testable(const struct changepoints_series *series);

/* For the tests of a list of series. On STATUS_OK the caller resets *out. */
MUST_CHECK enum status changepoints_tests_of(const json_t *list, double from, struct changepoints_tests *out,
                                             struct error *error);
void changepoints_tests_reset(struct changepoints_tests *tests);

/* Sets "points" (their number), "p_value", "adjusted_p_value" (times the tests made at once) and "change" of `out`:
 * {"kind", "after", "before", "interval", "size"}, null above 0.05. p values are null where there is no test. */
MUST_CHECK enum status changepoints_test(const json_t *points, const struct changepoints_series *series,
                                         struct changepoints_tests *tests, json_t *out, struct error *error);

#endif
