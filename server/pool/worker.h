/* worker.h: one process that executes runs. Its main thread asks the database for work and renews the lease; one engine
 * thread does the work, for one run at a time or for a batch (kind.h). At most two sessions. When the engine
 * dies, only this process dies. */
#ifndef POOL_WORKER_H
#define POOL_WORKER_H

#include "kinds/kind.h"
#include "store/workers.h"

struct artifact_store;

enum { WORKER_BATCH_MOST = 8 }; /* members of a batch, at most */

/* How a worker ends whose device broke down: before any run went well on it, or after one had. Its supervisor starts
 * another one, and tells it by DELTAQ_DEVICE_FAULTS how many of its kind ended so in a row, without a run that went
 * well between. After WORKER_FAULTS_MOST the device is put aside: the worker says so and takes no runs. */
enum { WORKER_EXIT_DEVICE = 71, WORKER_EXIT_DEVICE_LATER = 72, WORKER_FAULTS_MOST = 3 };

struct worker_options {
    const char *conninfo;
    const char *data_directory;
    const struct roots *roots;
    const char *device;                          /* "cpu" */
    const json_t *labels;                        /* that runs may require, ["gpu=h100"]; NULL: none */
    const struct hub *hub;                       /* for checkpoints of the hub; NULL: none can be fetched */
    const struct artifact_store *artifact_store; /* gets what runs leave; NULL: none */
    int threads;                                 /* 0: one for each processor */
    int64_t memory_bytes;                        /* of the host that a run may take; 0: what is free */
    int64_t device_memory_bytes;                 /* of its device that it may take; 0: what is free, less a reserve */
    const struct kind *const *kinds;             /* what it can do; ends with NULL */
    double lease_seconds;                        /* 0: 30; beats at a third, pauses at two thirds */
    double stall_seconds; /* 0: 600; longest time without a call of the monitor, or 8 MiB read of files */
    double limit_seconds; /* 0: none; the process is gone after so long (drain.h) */
    double idle_seconds;  /* 0: never; it ends after so long without a run */
    double save_seconds;  /* as in struct run_context; what is saved is uploaded at most so often, too */
    double grace_seconds; /* worker_identity */
    const char *node;     /* the same; filled in by worker_run */
    struct worker_device device_state;
    const struct worker_blas *blas; /* which products it makes, for the table of workers; NULL: it does not say */
    const char *owner;              /* the id under which its supervisor will release its leases; NULL: a random one */
};

/* Works until SIGTERM or SIGINT, or until drain.h says so: then it takes nothing new, stops the engine at its next
 * step, gives the run back uncounted and returns, within 10 s. A second signal: within 1 s. Call it from the main
 * thread with no other threads running. Returns the process's exit status: 0 stopped, 1 cannot start (said on stderr),
 * 70 stalled, 78 its deltaq is older than the database. */
int worker_run(const struct worker_options *options);

#endif
