/* dry_run.h: what runs that were asked for would need, told before they start (dry_run): memory, disk, tokens, work,
 * time. Nothing is queued, fetched or kept. */
#ifndef RUNS_DRY_RUN_H
#define RUNS_DRY_RUN_H

#include "runs/prepare.h"

/* Where they would run. Lent. */
struct dry_run_place {
    struct connection *connection;
    const struct roots *roots;
    const char *data_directory;
    char device[32];                             /* "cpu", "cuda:0" */
    int64_t memory_bytes;                        /* that a run may take of the host; 0: what is free */
    int64_t device_memory_bytes;                 /* of the device that a worker may take; 0: what is free */
    int threads;                                 /* of a worker; 0: one for each processor */
    const struct monitor *monitor;               /* may stop it; NULL: nobody does */
    const struct hub *hub;                       /* asked about what a run would fetch; NULL: nobody is */
    const struct artifact_place *artifact_place; /* where artifacts lie */
};

/* What reads the inputs of a run there and executes nothing. Lent from the place. */
struct run_context dry_run_context(const struct dry_run_place *place);

/* The document of one run (openapi.yaml, RunForecast). What would fail the run is in it, not in the status. */
MUST_CHECK enum status dry_run_of_run(const struct dry_run_place *place, const struct prepared_run *run, json_t **out,
                                      struct error *error);

/* That of a sweep (SweepForecast) of runs of one kind, which may be none: sums and maxima, and each plan with how many
 * runs have it. Checkpoints that differ in nothing but their numbers share a plan, and are looked at once. The
 * hub is asked about the first runs only. */
MUST_CHECK enum status dry_run_of_sweep(const struct dry_run_place *place, const struct kind *kind,
                                        const struct prepared_run *runs, size_t count, json_t **out,
                                        struct error *error);

#endif
