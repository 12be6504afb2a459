/* average_plan.h: which averages a run of the kind "average" makes, of which checkpoints, and under which names. */
#ifndef KINDS_AVERAGE_PLAN_H
#define KINDS_AVERAGE_PLAN_H

#include "kinds/average_shape.h"
#include "store/checkpoints.h"

enum { AVERAGE_LANES = 32 };

struct average_group {
    const struct checkpoint **members; /* [count], owned array */
    double *weights;                   /* [count], owned */
    int64_t count;
    const char *name;                /* name of the result, in plan->into */
    const struct checkpoint *newest; /* its step, tokens and learning rate become those of the result */
};

struct average_plan {
    struct checkpoint *rows; /* [row_count], owned: all checkpoints that the request lists */
    int64_t *lanes, *places; /* [row_count], owned: the first row of a row's trajectory; how many of it are before */
    int64_t row_count;
    struct average_group *groups; /* [count], owned */
    int64_t count;
};

struct average_plan_request {
    const char *const *ids; /* [count], in order; the checkpoints of one trajectory form a lane */
    int64_t count;
    /* [weight_count]: of the checkpoints, or of the places in a window, oldest first; NULL: all 1 */
    const double *weights;
    int64_t weight_count;
    enum average_shape shape; /* without weights: theirs over the members of a lane's window, or over all, by step */
    /* 0: one average of all. Else one for each place in the first lane with a full window behind it in every lane;
     * lanes are matched by step. */
    int64_t window;
    bool ordered;     /* a lane's checkpoints must be listed by step: windows are over the last of them */
    const char *name; /* name of the single average */
    /* [lane_count]: ids of the trajectories that the checkpoints must be of, each of which must have some; 0: any */
    const char *const *lanes;
    int64_t lane_count;
    const char *lanes_at; /* their field */
    /* The field to blame for a window that was not posted; NULL: it was */
    const char *window_from;
};

/* Reads the checkpoints and groups them. STATUS_INVALID with a pointer when they are not those of the lanes or not in
 * order, no window is full, weights do not fit, or steps are missing that lanes are to be matched by or a shape to be
 * laid over. The caller resets *out. */
MUST_CHECK enum status average_plan_make(struct connection *connection, const struct average_plan_request *request,
                                         struct average_plan *out, struct error *error);
void average_plan_reset(struct average_plan *plan); /* {0} is fine */

/* Replaces the plan's groups by one uniform group: the last `window` checkpoints of each lane. STATUS_INVALID when a
 * lane is shorter. */
MUST_CHECK enum status average_plan_last(struct average_plan *plan, int64_t window, const char *name,
                                         struct error *error);

/* {"checkpoints": [ids], "weights": [their shares]}: a new reference, NULL when out of memory. */
json_t *average_plan_origin(const struct average_group *group);

/* Finds INTO/NAME: *id is "" when it does not exist. STATUS_CONFLICT at `pointer` when it is something other than this
 * average, or stored in another type than `dtype`, as checkpoints name it (NULL: that of the first member). */
MUST_CHECK enum status average_plan_find(struct connection *connection, const char *into,
                                         const struct average_group *group, const char *dtype, const char *pointer,
                                         struct store_id *id, struct error *error);

#endif
