/* dry_run.h: the resources that requested runs would need, computed before they start (dry_run): memory, disk, tokens,
 * work, time. Nothing is queued, fetched or stored. */
#ifndef RUNS_DRY_RUN_H
#define RUNS_DRY_RUN_H

#include "runs/sweep_plan.h"

/* The place where the runs would be executed. Lent. */
struct dry_run_place {
    struct connection *connection;
    const struct roots *roots;
    const char *data_directory;
    char device[32];                             /* "cpu", "cuda:0" */
    int64_t memory_bytes;                        /* host memory that a run may take; 0: what is free */
    int64_t device_memory_bytes;                 /* device memory that a worker may take; 0: what is free */
    int threads;                                 /* threads of a worker; 0: one for each processor */
    const struct monitor *monitor;               /* may stop the planning; NULL: nothing does */
    const struct hub *hub;                       /* asked about files that a run would fetch; NULL: it is not asked */
    const struct artifact_place *artifact_place; /* where artifacts lie */
};

/* The context for reading a run's inputs there without executing anything. Lent from the place. */
struct run_context dry_run_context(const struct dry_run_place *place);

/* The document of one run (openapi.yaml, RunForecast). An error that the run would fail with is in the document and not
 * in the status. */
MUST_CHECK enum status dry_run_of_run(const struct dry_run_place *place, const struct prepared_run *run, json_t **out,
                                      struct error *error);

/* The document of a sweep (SweepForecast), whose runs are of one kind and may be none: how many different runs it has
 * and how many of them exist; of the new ones sums, maxima, and each plan with the number of its runs. `exists`: the
 * sweep itself is there, and none is new. Checkpoints that differ only in their numbers share a plan and are read once.
 * The hub is asked about the first runs only. */
MUST_CHECK enum status dry_run_of_sweep(const struct dry_run_place *place, const struct kind *kind,
                                        const struct sweep_plan *sweep, bool exists, json_t **out, struct error *error);

#endif
