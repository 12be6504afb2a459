/* run_context.h: what a run is checked and executed with. Both structs are filled outside of the kinds and read by
 * them. */
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

/* What `check` is given and what it finds out. */
struct run_request {
    struct connection *connection; /* for questions through server/store */
    const struct roots *roots;     /* paths must lie below one */
    const char *data_directory;
    const json_t *posted; /* the parameters as they came in, without defaults; NULL: none. Lent */
    /* complete and valid by the table; references in it are already ids. check may complete it further */
    json_t *params;
    /* Filled by check through run_request_uses_*: what the run reads. */
    struct store_id *checkpoints, *trajectories, *datasets; /* owned (run_request_reset) */
    size_t checkpoint_count, trajectory_count, dataset_count;
    bool alone;         /* check says: never to be executed in a batch with others */
    const char *device; /* check says: only on devices of this kind ("cuda"); NULL: anywhere */
    /* object, owned: what else decides the result (content hashes, ...). NULL after check: never shared */
    json_t *identity;
};

/* What `execute` is given. All of it is lent until execute returns; it runs on the worker's engine thread. */
struct run_context {
    const char *run; /* id */
    int64_t epoch;
    int attempt; /* 0 the first time */
    /* progress, log lines; check says when to stop: call it at least once a second or so */
    const struct monitor *monitor;
    struct connection *connection; /* this thread's own, reconnecting; only for questions through server/store */
    const char *data_directory;
    /* this run's own, below $DATA/tmp: kept between attempts, removed when the run is final */
    const char *work_directory;
    const struct roots *roots;
    const char *node;    /* of the data directory (store/nodes.h); NULL or "": not known */
    const char *device;  /* "cpu", "cuda:0" */
    double save_seconds; /* least time between two savings of what another attempt goes on from; 0: the engine's */
    int threads;         /* for the engine; 0: one for each processor */
    struct team *team;   /* of `threads`, made once for the process */
    struct artifacts *artifacts;                 /* kinds/artifacts.h */
    const struct artifact_place *artifact_place; /* kinds/artifact_file.h: where those of other runs lie */
    struct task_items *items;                    /* for the kind "tasks": committed with the result */
    const struct hub *hub;                       /* where repositories are fetched from; NULL: from nowhere */
    int64_t memory_bytes;                        /* of the host that the run may take; 0: what is free */
    int64_t device_memory_bytes; /* of its device that a worker may take; 0: what is free, less a reserve */
    int64_t *device_bytes;       /* the most that was taken of the device, -1 at first; NULL: nobody asks */
    struct error *device_fault;  /* STATUS_DEVICE in it: the device broke down (backend.h); NULL: nobody asks */
    double *work;                /* execute puts what its plan says it takes (plan_work) here; NULL: nobody asks */
    bool planning;  /* for `plan`: nothing is fetched, hashed or made; run, artifacts, items and team are not there */
    bool *too_long; /* planning: set where the data is longer than a plan reads */
};

/* For execute: puts it there, unless an earlier attempt may have done some of it. */
void run_context_note_work(const struct run_context *context, double work);

/* For check: notes that the run reads this. STATUS_NO_MEMORY. */
MUST_CHECK enum status run_request_uses_checkpoint(struct run_request *request, const struct store_id *id,
                                                   struct error *error);
MUST_CHECK enum status run_request_uses_trajectory(struct run_request *request, const struct store_id *id,
                                                   struct error *error);
MUST_CHECK enum status run_request_uses_dataset(struct run_request *request, const struct store_id *id,
                                                struct error *error);
void run_request_reset(struct run_request *request);

#endif
