/* interpolate.h: losses on the straight line between two checkpoints, theta(alpha) = (1 - alpha) from + alpha to
 * (Goodfellow, Vinyals and Saxe, ICLR 2015), in full precision and quantized at each point. */
#ifndef JOBS_INTERPOLATE_H
#define JOBS_INTERPOLATE_H

#include "jobs/point.h"

struct interpolate_request {
    struct point_request point; /* its family: from, to; its monitor: progress by "point" */
    double low, high;           /* of alpha; outside [0, 1] extrapolates */
    int64_t points;             /* 2 or more, evenly spaced, both ends included */
    const char *work_directory; /* where points are kept between attempts; NULL: nowhere */
};

struct interpolate_result {
    int64_t count;
    double *alphas;       /* [count]; owned */
    struct point *points; /* [count]; owned */
};
void interpolate_result_reset(struct interpolate_result *result); /* {0} is fine */

/* The plan of a run from its first point on (point_plan). */
MUST_CHECK enum status interpolate_plan(const struct interpolate_request *request, const struct plan_budget *budget,
                                        struct run_plan *out, struct error *error);

/* STATUS_INVALID (a family of other than two, fewer than two points); statuses of point_measure and the saved table. */
MUST_CHECK enum status interpolate_run(const struct interpolate_request *request, struct interpolate_result *out,
                                       struct error *error);

#endif
