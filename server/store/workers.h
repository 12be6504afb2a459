/* workers.h: the processes that execute runs, as they describe themselves.
 * Document: id, host, pid, boot_id, slurm_job, device, device_state, labels, threads, memory_bytes, blas, version,
 * engine_revision, started_at, seen_at, run. */
#ifndef STORE_WORKERS_H
#define STORE_WORKERS_H

#include "store/run_fits.h"
#include "store/store.h"

/* The library that makes a worker's matrix products, and why it is not the first choice; verdict "": not reported. */
struct worker_blas {
    char verdict[16], library[200], core[32], reason[1800];
};

/* The state of a device that is not the CPU; state "": there is none. "aside": it broke down repeatedly or failed its
 * self-test, and its worker takes no runs. "failed": the same, but its worker uses the CPU. */
struct worker_device {
    char state[16];                   /* "in_use", "aside", "failed" */
    int64_t memory_bytes;             /* the most that a run may take of it; 0: not known */
    int faults;                       /* consecutive breakdowns before the worker was started */
    char reason[600];                 /* why it is not in use, or "" */
    char name[80], uuid[48], bus[24]; /* the device's identity; "" where the driver does not tell */
    const json_t *selftest;           /* result of the self-test: {"checks", "seconds", "rates"}; NULL: none was made.
                                       * Lent */
};

struct worker_identity {
    struct store_id id; /* random for each start of a process, so it is never reused, unlike names */
    char host[64], boot_id[40], slurm_job[32], device[32];
    int pid, threads;
    struct worker_device device_state;
    struct worker_blas blas;
    const json_t *labels; /* the labels that it was given, ["gpu=h100"]; NULL: none. Lent */
    int64_t memory_bytes; /* host memory that a run may take; 0: not known */
    struct store_id node; /* id of its data directory (store/nodes.h); "": not known, and no run is near */
    double grace_seconds; /* how long it leaves a run to nodes that have the run's files */
};

MUST_CHECK enum status worker_register(struct connection *connection, const struct worker_identity *identity,
                                       struct error *error);
/* *listed: false when it is in the table no more; *clock, the database's in seconds since 1970, stays as it is then. */
MUST_CHECK enum status worker_seen(struct connection *connection, const struct store_id *id, bool *listed,
                                   double *clock, struct error *error);
MUST_CHECK enum status worker_gone(struct connection *connection, const struct store_id *id, struct error *error);
/* Removes the workers that gave no sign for a day and hold no run, as those of a node that was taken away. One that
 * comes back (its host was suspended) finds that it is not listed, and registers again. */
MUST_CHECK enum status workers_prune(struct connection *connection, struct error *error);
/* [id, ...] of the workers on this host whose process is gone, or that started before the host's last boot. */
MUST_CHECK enum status worker_dead_here(struct connection *connection, json_t **document, struct error *error);
/* The device of a worker that takes runs, preferably not the CPU: "cuda:0"; "cpu" where there is no other. */
MUST_CHECK enum status worker_usual_device(struct connection *connection, char out[32], struct error *error);
/* {"items": [...], "next": null}: the workers seen within the last minute. */
MUST_CHECK enum status worker_list(struct connection *connection, json_t **document, struct error *error);

#endif
