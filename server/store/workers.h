/* workers.h: the processes that execute runs, as they describe themselves.
 * Document: id, host, pid, boot_id, slurm_job, device, device_state, labels, threads, memory_bytes, blas, version,
 * engine_revision, started_at, seen_at, run. */
#ifndef STORE_WORKERS_H
#define STORE_WORKERS_H

#include "store/run_fits.h"
#include "store/store.h"

/* Which matrix products it makes, and why not the first choice; "" in verdict: it does not say. */
struct worker_blas {
    char verdict[16], library[200], core[32], reason[1800];
};

/* Of a device that is not the CPU; "" in state: there is none. Aside: it broke down again and again, or failed its
 * self-test, and its worker takes no runs. Failed: likewise, and its worker works on the CPU. */
struct worker_device {
    char state[16];                   /* "in_use", "aside", "failed" */
    int faults;                       /* in a row, when the worker was started */
    char reason[600];                 /* why it is not in use, or "" */
    char name[80], uuid[48], bus[24]; /* which it is; "" where it does not say */
    const json_t *selftest;           /* what it passed: {"checks", "seconds", "rates"}; NULL: none was made. Lent */
};

struct worker_identity {
    struct store_id id; /* random for each start of a process: names are reused, this is not */
    char host[64], boot_id[40], slurm_job[32], device[32];
    int pid, threads;
    struct worker_device device_state;
    struct worker_blas blas;
    const json_t *labels; /* what it says of itself, ["gpu=h100"]; NULL: nothing. Lent */
    int64_t memory_bytes; /* of the host that a run may take; 0: not known */
    struct store_id node; /* of its data directory (store/nodes.h); "": not known, and no run is near */
    double grace_seconds; /* so long it leaves a run to the nodes that have its bytes */
};

MUST_CHECK enum status worker_register(struct connection *connection, const struct worker_identity *identity,
                                       struct error *error);
MUST_CHECK enum status worker_seen(struct connection *connection, const struct store_id *id, struct error *error);
MUST_CHECK enum status worker_gone(struct connection *connection, const struct store_id *id, struct error *error);
/* [id, ...] of those on this host whose process is gone, or that were started before its last boot. */
MUST_CHECK enum status worker_dead_here(struct connection *connection, json_t **document, struct error *error);
/* The device of a worker that takes runs, one that is not the CPU if there is one: "cuda:0"; "cpu" where there is
 * none. */
MUST_CHECK enum status worker_usual_device(struct connection *connection, char out[32], struct error *error);
/* {"items": [...], "next": null}: those seen in the last minute. */
MUST_CHECK enum status worker_list(struct connection *connection, json_t **document, struct error *error);

#endif
