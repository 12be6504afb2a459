/* sweep_plan.h: the runs of a sweep, made ready for the queue: the grid multiplied out, each run prepared. */
#ifndef RUNS_SWEEP_PLAN_H
#define RUNS_SWEEP_PLAN_H

#include "runs/prepare.h"

struct sweep_plan {                /* start with {0} */
    struct prepared_run *prepared; /* [count], owned */
    struct run_new *rows;          /* [count], owned; lend from `prepared` */
    size_t count;
    json_t *taken; /* ids of the checkpoints that the grid's trajectory stands for, owned; NULL: no such trajectory */
};

struct sweep_plan_request {
    const struct kind *kind;
    const json_t *base, *grid; /* lent */
    const json_t *requires;    /* of every run (requirements_make); lent; NULL: nothing */
    const char *requester;     /* run_new.requester and queued_most, of every run; lent */
    int64_t queued_most;
    const struct roots *roots;
    const char *data_directory;
    bool dry_run;      /* nothing is made */
    bool may_be_empty; /* a trajectory without checkpoints stands for no runs instead of being a fault */
};

/* Statuses of grid_expand and prepare_run; `faults` point into "/base" and "/grid". The caller resets *out. */
MUST_CHECK enum status sweep_plan_make(struct connection *connection, const struct sweep_plan_request *request,
                                       struct faults *faults, struct sweep_plan *out, struct error *error);
/* The same for a product that is there already: an array of parameters (lent). */
MUST_CHECK enum status sweep_plan_of(struct connection *connection, const struct sweep_plan_request *request,
                                     const json_t *product, struct faults *faults, struct sweep_plan *out,
                                     struct error *error);
void sweep_plan_reset(struct sweep_plan *plan);

/* The key of `grid` that stands for a trajectory's checkpoints, and that trajectory's reference; NULL, NULL when there
 * is none, or several: only one can be followed. Lent. */
void sweep_plan_trajectory(const json_t *grid, const char **key, const char **trajectory);

#endif
