/* worker.h: one process that executes runs. Its main thread asks the database for work and renews the lease; one engine
 * thread does the work, for one run at a time or for a batch (kind.h). At most two sessions. When the engine
 * dies, only this process dies. */
#ifndef POOL_WORKER_H
#define POOL_WORKER_H

#include "kinds/kind.h"
#include "store/workers.h"

struct artifact_store;

enum { WORKER_BATCH_MOST = 8 }; /* the most members of a batch */

/* Exit statuses of a worker whose device broke down: before any run succeeded on it, or after one had. The supervisor
 * starts another worker and passes the number of consecutive breakdowns without a successful run in
 * DELTAQ_DEVICE_FAULTS. After WORKER_FAULTS_MOST the device is put aside: the worker reports that and takes no runs. */
enum { WORKER_EXIT_DEVICE = 71, WORKER_EXIT_DEVICE_LATER = 72, WORKER_FAULTS_MOST = 3 };

struct worker_options {
    const char *conninfo;
    const char *data_directory;
    const struct roots *roots;
    const char *device;                          /* "cpu" */
    const json_t *labels;                        /* labels that runs may require, ["gpu=h100"]; NULL: none */
    const struct hub *hub;                       /* for checkpoints of the hub; NULL: fetching is not possible */
    const struct artifact_store *artifact_store; /* stores what runs leave; NULL: none */
    int threads;                                 /* 0: one for each processor */
    int64_t memory_bytes;                        /* host memory that a run may take; 0: what is free */
    int64_t device_memory_bytes;                 /* device memory that a run may take; 0: what is free, less a
                                                  * reserve */
    const struct kind *const *kinds;             /* the kinds that it can execute; ends with NULL */
    double lease_seconds;                        /* 0: 30; beats at a third, pauses at two thirds */
    double stall_seconds; /* 0: 600; the longest time without a call of the monitor and without 8 MiB read from files */
    double limit_seconds; /* 0: none; the process is killed after that time (drain.h) */
    double idle_seconds;  /* 0: never; it ends after that time without a run */
    double save_seconds;  /* as in struct run_context; also the least time between uploads of saved state */
    double cleanup_seconds; /* so long after its start it removes what ended runs left; then about every hour */
    double grace_seconds;   /* worker_identity */
    const char *node;       /* as above; set by worker_run */
    struct worker_device device_state;
    const struct worker_blas *blas; /* the library of its matrix products, for the table of workers; NULL: not
                                     * reported */
    const char *owner;              /* the id under which its supervisor will release its leases; NULL: a random one */
};

/* Works until SIGTERM or SIGINT, or until drain.h says so: then it takes nothing new, stops the engine at its next
 * step, gives the run back uncounted and returns, within 10 s. A second signal: within 1 s. Call it from the main
 * thread with no other threads running. Returns the process's exit status: 0 stopped, 1 cannot start (said on stderr),
 * 70 stalled, 78 its deltaq is older than the database. */
int worker_run(const struct worker_options *options);

#endif
