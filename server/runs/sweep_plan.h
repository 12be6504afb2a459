/* sweep_plan.h: the runs of a sweep, ready for the queue: the grid is multiplied out and each run is prepared. */
#ifndef RUNS_SWEEP_PLAN_H
#define RUNS_SWEEP_PLAN_H

#include "runs/prepare.h"

struct sweep_plan {                /* start with {0} */
    struct prepared_run *prepared; /* [count], owned */
    struct run_new *rows;          /* [count], owned; lend from `prepared` */
    size_t count;
    json_t *taken; /* ids of the checkpoints that the grid's trajectory stands for, owned; NULL: the grid has none */
};

struct sweep_plan_request {
    const struct kind *kind;
    const json_t *base, *grid; /* lent */
    const json_t *requires;    /* requirements of every run (requirements_make); lent; NULL: none */
    const char *requester;     /* run_new.requester and queued_most, of every run; lent */
    int64_t queued_most;
    const struct roots *roots;
    const char *data_directory;
    bool dry_run;      /* no trajectory is made */
    bool may_be_empty; /* a trajectory without checkpoints gives no runs and is no fault */
};

/* Statuses of parameter_grid_expand and prepare_run; `faults` point into "/base" and "/grid". The caller resets
 * *out. */
MUST_CHECK enum status sweep_plan_make(struct connection *connection, const struct sweep_plan_request *request,
                                       struct faults *faults, struct sweep_plan *out, struct error *error);
/* The same for a product that exists already: an array of parameters (lent). */
MUST_CHECK enum status sweep_plan_of(struct connection *connection, const struct sweep_plan_request *request,
                                     const json_t *product, struct faults *faults, struct sweep_plan *out,
                                     struct error *error);
/* Points a refusal that ends the request, and blames a parameter of a run, into base and grid; leaves others alone. */
void sweep_plan_blame(const json_t *grid, struct error *error);
void sweep_plan_reset(struct sweep_plan *plan);

/* The key of `grid` that stands for a trajectory's checkpoints, and that trajectory's reference. Both are NULL when
 * there is none, or when there are several, because only one can be followed. Lent. */
void sweep_plan_trajectory(const json_t *grid, const char **key, const char **trajectory);

#endif
