/* sweep_growth.h: the runs that further values of a sweep's grid add: those of the larger product that the smaller one
 * does not have. Runs that failed or were cancelled are not made again. */
#ifndef RUNS_SWEEP_GROWTH_H
#define RUNS_SWEEP_GROWTH_H

#include "runs/sweep_plan.h"

struct sweep_growth {           /* start with {0} */
    json_t *grid;               /* the larger grid, owned */
    struct store_id trajectory; /* the grid's trajectory; "": none */
    json_t *taken;              /* ids of the checkpoints that the sweep has taken in, owned; NULL without a
                                 * trajectory */
    json_t *later;              /* ids of the checkpoints to take in, likewise */
    struct sweep_plan plan;     /* the new runs; none when nothing is new */
};

/* `request` describes the sweep as it is (its grid is the smaller one); `sweep` is its id. `more`: fields of the grid,
 * each with a list of values, of which those that are there are left out. The field that stands for a trajectory may
 * only be given as it is, {"trajectory": NAME}: its later checkpoints then come in, unless the sweep stands and takes
 * them in by itself (`standing`); otherwise new values of other fields go over the checkpoints that the sweep has.
 * STATUS_INVALID with `faults` below "/grid"; statuses of sweep_plan_make and of the store. The caller resets *out. */
MUST_CHECK enum status sweep_growth_make(struct connection *connection, const struct sweep_plan_request *request,
                                         const char *sweep, bool standing, const json_t *more, struct faults *faults,
                                         struct sweep_growth *out, struct error *error);
void sweep_growth_reset(struct sweep_growth *growth);

#endif
