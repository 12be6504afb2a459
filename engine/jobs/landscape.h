/* landscape.h: losses over the plane of the first two principal directions of a path of checkpoints (Li et al., NeurIPS
 * 2018, "Visualizing the loss landscape of neural nets"; directions of unit length here, in plain parameter units). */
#ifndef JOBS_LANDSCAPE_H
#define JOBS_LANDSCAPE_H

#include "base/team.h"
#include "geometry/plane.h"
#include "jobs/point.h"

struct landscape_request {
    /* its family: the path, three checkpoints or more; its monitor: progress by "tensor", then "point" */
    struct point_request point;
    struct team *team;     /* for the products of checkpoints; may be NULL */
    int64_t columns, rows; /* points along x and y, 2 or more each */
    /* The mesh is wider than the projections by this share of their extent on each side; NAN: margins_adapt
     * (landscape.c) chooses the margins. */
    double margin;
    const char *work_directory; /* where points are kept between attempts; NULL: nowhere */
};

struct landscape_result {
    struct plane plane;
    double margins[4];  /* share of the extent added at low x, high x, low y, high y */
    double *x, *y;      /* [columns], [rows]; owned */
    struct point *mesh; /* [rows, columns]; owned */
    struct point *path; /* [members]: at each projected checkpoint; owned */
    int64_t measured;   /* points that this attempt measured */
};
void landscape_result_reset(struct landscape_result *result); /* {0} is fine */

/* Most points that are measured; adaptive margins need additional ones. */
int64_t landscape_points(const struct landscape_request *request);

/* The plan of a run from its first point on (point_plan). */
MUST_CHECK enum status landscape_plan(const struct landscape_request *request, const struct plan_budget *budget,
                                      struct run_plan *out, struct error *error);

/* Statuses of plane_find, point_measure and the saved table; STATUS_INVALID for an impossible mesh. */
MUST_CHECK enum status landscape_run(const struct landscape_request *request, struct landscape_result *out,
                                     struct error *error);

#endif
