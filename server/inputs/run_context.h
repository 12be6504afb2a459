/* run_context.h: the contexts in which a run is checked and executed. Both structs are filled outside of the kinds and
 * read by them. */
#ifndef INPUTS_RUN_CONTEXT_H
#define INPUTS_RUN_CONTEXT_H

#include "base/error.h"
#include "base/monitor.h"
#include "store/store.h"
#include "store/task_items.h"

#include <jansson.h>

struct artifacts;
struct hub;
struct roots;
struct team;

/* The arguments and results of `check`. */
struct run_request {
    struct connection *connection; /* for queries through server/store */
    const struct roots *roots;     /* paths must lie below one */
    const char *data_directory;
    const json_t *posted; /* the posted parameters, without defaults; NULL: none. Lent */
    /* complete and valid by the table; references in it are already ids. check may complete it further */
    json_t *params;
    /* The inputs of the run, added by check through run_request_uses_*. */
    struct store_id *checkpoints, *trajectories, *datasets; /* owned (run_request_reset) */
    size_t checkpoint_count, trajectory_count, dataset_count;
    bool alone; /* set by check: the run never joins a batch */
    /* object, owned; set by check for kind.vacant and kind.meet: the checkpoints that the run would register; its
     * "pointer" is the field to blame. NULL: none, or not known */
    json_t *makes;
    /* object, owned: everything else that decides the result (content hashes, ...). NULL after check: never shared */
    json_t *identity;
};

/* The arguments of `execute`, which runs on the worker's engine thread. Everything is lent until execute returns. */
struct run_context {
    const char *run; /* id */
    int64_t epoch;
    int attempt; /* 0 for the first attempt */
    /* gets progress and log lines; its check says when to stop: call it at least once a second or so */
    const struct monitor *monitor;
    struct connection *connection; /* this thread's own, which reconnects; only for queries through server/store */
    const char *data_directory;
    /* this run's own, below $DATA/tmp: kept between attempts, removed when the run has ended for good */
    const char *work_directory;
    const struct roots *roots;
    const char *node;            /* id of the data directory (store/nodes.h); NULL or "": not known */
    const char *device;          /* "cpu", "cuda:0" */
    double save_seconds;         /* least time between two savings of the run's state; 0: the engine's default */
    int threads;                 /* for the engine; 0: one for each processor */
    struct team *team;           /* of `threads`, made once for the process */
    struct artifacts *artifacts; /* kinds/artifacts.h */
    const struct artifact_place *artifact_place; /* kinds/artifact_file.h: the place of other runs' artifacts */
    struct task_items *items;                    /* for the kind "tasks": committed with the result */
    const struct hub *hub;                       /* where repositories are fetched from; NULL: they cannot be fetched */
    int64_t memory_bytes;                        /* host memory that the run may take; 0: what is free */
    int64_t device_memory_bytes; /* device memory that the worker may take; 0: what is free, less a reserve */
    int64_t *device_bytes;       /* the most device memory that was taken, -1 at first; NULL: not needed */
    struct error *device_fault;  /* its status is STATUS_DEVICE after the device broke down (backend.h); NULL: not
                                  * needed */
    double *work;                /* execute puts the work of its plan (plan_work) here; NULL: not needed */
    bool planning;  /* for `plan`: nothing is fetched, hashed or made; run, artifacts, items and team are absent */
    bool *too_long; /* planning: set when the data is longer than a plan reads */
};

/* For execute: stores the run's work, unless an earlier attempt may have done some of it. */
void run_context_note_work(const struct run_context *context, double work);

/* For check: notes an input of the run. STATUS_NO_MEMORY. */
MUST_CHECK enum status run_request_uses_checkpoint(struct run_request *request, const struct store_id *id,
                                                   struct error *error);
MUST_CHECK enum status run_request_uses_trajectory(struct run_request *request, const struct store_id *id,
                                                   struct error *error);
MUST_CHECK enum status run_request_uses_dataset(struct run_request *request, const struct store_id *id,
                                                struct error *error);
void run_request_reset(struct run_request *request);

#endif
