/* plane.h: the plane through a family's mean with most of its variance: the first two principal directions of the
 * members' flattened parameters. They come from the n x n products of the centred members (Gram's matrix), which need
 * one pass over all members. Members are read chunk by chunk and never held in memory, so 20 checkpoints of 32B
 * parameters need no more memory than 20 of 3M.
 *
 * With C the centred members as rows and C Cᵀ = U Λ Uᵀ, direction i is dᵢ = Cᵀ uᵢ / sqrt(λᵢ): a combination of the
 * members, and member k lies at sqrt(λᵢ) uᵢₖ along it. */
#ifndef GEOMETRY_PLANE_H
#define GEOMETRY_PLANE_H

#include "base/monitor.h"
#include "base/plan.h"
#include "base/team.h"
#include "geometry/family.h"

struct plane {
    int64_t count;  /* members */
    double *axes;   /* [2, count]: coefficients of the members in each direction; owned */
    double *points; /* [count, 2]: where the members' projections lie, in plain parameter units from the mean; owned */
    double explained[2]; /* share of the members' variance along each direction */
};

/* Directions have unit length; the sign of each is such that its entry of largest magnitude is positive. Reads
 * everything twice; progress by "tensor". STATUS_INVALID for fewer than three members, or when they lie on a line;
 * STATUS_NOT_FINITE naming a tensor; statuses of family_read and of the monitor; STATUS_NO_MEMORY. The caller resets
 * *out. */
MUST_CHECK enum status plane_find(const struct family *family, struct team *team, const struct monitor *monitor,
                                  struct plane *out, struct error *error);
/* Adds its memory and reads to a plan; its results stay live. */
void plane_plan(const struct family *family, struct run_plan *plan);
void plane_reset(struct plane *plane); /* {0} is fine */

/* Coefficients [count] of the members at mean + x d₁ + y d₂, for family_model with divisor 1. */
void plane_at(const struct plane *plane, double x, double y, double *coefficients);

#endif
