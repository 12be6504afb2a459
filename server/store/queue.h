/* queue.h: how runs get to workers and back. docs/queue.md has the rules; in short:
 *   - `epoch` grows with every lease and never falls. Every write about a leased run carries the fence (id, epoch,
 *     owner, running). When the fence matches no row, the status is STATUS_LEASE_LOST and the caller drops what it has.
 *   - Time is the database's (clock_timestamp()).
 *   - Errors, crashes, stalls and expired leases are counted apart, each with its own budget; a graceful release counts
 *     nothing, and all of it is forgotten when the run gets 5 % further than ever before.
 * Every transition appends to run_events in the same statement or transaction. */
#ifndef STORE_QUEUE_H
#define STORE_QUEUE_H

#include "store/measurements.h"
#include "store/store.h"
#include "store/task_items.h"
#include "store/workers.h"

#define QUEUE_LEASE_SECONDS 30
#define QUEUE_CRASH_BUDGET  3
#define QUEUE_STALL_BUDGET  3
#define QUEUE_EXPIRY_BUDGET 20
#define QUEUE_ERROR_BUDGET  3

/* How a worker ended. Crashed: its process died while its host lived, so the run may be the cause. Vanished: nobody
 * renews its leases, or its process was gone with its server. Outages, suspended hosts and nodes that were taken away
 * look like that; so does a run that crashes an unsupervised worker. */
enum queue_death { QUEUE_CRASHED, QUEUE_VANISHED };

/* Identifies a leased run: the fence. */
struct lease {
    struct store_id run, owner;
    int64_t epoch;
};

struct leased_run {
    struct lease lease;
    char kind[64];
    json_t *params; /* owns */
    int attempt;
};

struct queue_progress {
    int64_t done, total;
    char unit[32];
    double eta_seconds; /* NaN: not known */
};

struct queue_usage {
    double seconds;
    int64_t peak_host_bytes, peak_device_bytes; /* -1: not known */
    double work; /* work that the run's plan computed (base/plan.h, flops); 0: not known */
};

struct queue_artifact {
    char name[128], sha256[65], media_type[128];
    int64_t bytes;
};

/* Everything that is committed when a run succeeds; of one that fails or is cancelled, artifacts and usage. Lent. */
struct queue_result {
    const json_t *result;
    const struct measurements *measurements; /* or NULL */
    const struct task_items *items;          /* or NULL */
    const struct queue_artifact *artifacts;
    size_t artifact_count;
    struct queue_usage usage;
};

/* Leases the first due run of `kinds` that the worker may take. *found is false when there is none, and for a deltaq of
 * another version than the database's (migrations_compare). leased_run_reset frees *out. */
MUST_CHECK enum status queue_lease(struct connection *connection, const struct worker_identity *worker,
                                   const char *const *kinds, size_t kind_count, double lease_seconds, bool *found,
                                   struct leased_run *out, struct error *error);
void leased_run_reset(struct leased_run *run);
/* Leases the waiting members of the batch (run_new.batch) of a run that is held, each under a lease of its own, all in
 * one transaction: at most `most`, and only a fair share where other workers are idle. A run whose next crash, stall
 * or error would be its last is executed alone, so that it takes no other run with it; nothing is leased beside such
 * a held run.
 * The members are out[0 … *count). */
MUST_CHECK enum status queue_lease_members(struct connection *connection, const struct worker_identity *worker,
                                           const struct lease *lease, double lease_seconds, size_t most,
                                           struct leased_run *out, size_t *count, struct error *error);

/* Renews the lease and writes progress (may be NULL). *cancel: someone asked for the run to stop. STATUS_LEASE_LOST. */
MUST_CHECK enum status queue_beat(struct connection *connection, const struct lease *lease, double lease_seconds,
                                  const struct queue_progress *progress, bool *cancel, struct error *error);
/* Reads the cancel flag without writing. STATUS_LEASE_LOST. */
MUST_CHECK enum status queue_peek(struct connection *connection, const struct lease *lease, bool *cancel,
                                  struct error *error);
/* Appends lines (a JSON array of strings) to the run's log. STATUS_LEASE_LOST. */
MUST_CHECK enum status queue_log(struct connection *connection, const struct lease *lease, const json_t *lines,
                                 struct error *error);

/* The functions below end a lease, each in one transaction. On STATUS_UNAVAILABLE the outcome may be unknown: call
 * queue_outcome after reconnecting, and repeat only what was not committed. */
MUST_CHECK enum status queue_finish(struct connection *connection, const struct lease *lease,
                                    const struct queue_result *result, struct error *error);
/* The run failed with `cause`. When that status is worth a retry (status_info), the run goes back to the queue with a
 * growing, jittered delay until its budget is spent; STATUS_UNAVAILABLE has a larger budget, and a retry waits at least
 * as long as the cause says. Otherwise the run is failed, and the files that it `left` are recorded. */
MUST_CHECK enum status queue_fail(struct connection *connection, const struct lease *lease, const struct error *cause,
                                  const struct queue_result *left, struct error *error);
/* Ends the lease of a run that does not fit into the memory of `worker`, which holds it, or into that of its device
 * (`cause`): the run returns to the queue, uncounted, when a living worker with more of that memory may take it, or a
 * launcher may submit one (*elsewhere). Otherwise, and when the lease is lost, nothing changes. */
MUST_CHECK enum status queue_too_large(struct connection *connection, const struct lease *lease,
                                       const struct worker_identity *worker, const struct error *cause, bool *elsewhere,
                                       struct error *error);
/* Ends the lease of a run whose checkpoint has files that the node of `worker` lacks (node_lacks): the run returns to
 * the queue, uncounted, when a living worker of another node may take it (*elsewhere). Otherwise, and when the lease is
 * lost or no file is missing, nothing changes. */
MUST_CHECK enum status queue_elsewhere(struct connection *connection, const struct lease *lease,
                                       const struct worker_identity *worker, const char *evidence, bool *elsewhere,
                                       struct error *error);
/* The run stopped because it was asked to. The files that it `left` are recorded. */
MUST_CHECK enum status queue_cancelled(struct connection *connection, const struct lease *lease,
                                       const struct queue_result *left, struct error *error);
/* Puts the run back into the queue and counts nothing (graceful stop). A run that was asked to stop is cancelled. */
MUST_CHECK enum status queue_release(struct connection *connection, const struct lease *lease, struct error *error);
/* As queue_release, but counted as a stall; `evidence` is a text for people. */
MUST_CHECK enum status queue_stalled(struct connection *connection, const struct lease *lease, const char *evidence,
                                     struct error *error);

/* *open: the lease still holds, so nothing was committed. Otherwise this process or another one has ended the lease. */
MUST_CHECK enum status queue_outcome(struct connection *connection, const struct lease *lease, bool *open,
                                     struct error *error);

/* Returns the runs of a dead worker process to the queue at once, counted as `death` says; a run over its budget fails
 * with the evidence ("killed by signal 9"). *released (may be NULL): the number of runs. */
MUST_CHECK enum status queue_release_dead(struct connection *connection, const struct store_id *owner,
                                          enum queue_death death, const char *evidence, int *released,
                                          struct error *error);
/* Returns runs whose leases have expired to the queue, of any worker, at most 100 a call, counted as expired leases.
 * Only a caller whose own sessions had no recent interruption may call it: after an outage living workers first need
 * time to renew. */
MUST_CHECK enum status queue_rescue(struct connection *connection, double lease_seconds, int *rescued,
                                    struct error *error);
/* As queue_rescue, for leases of QUEUE_LEASE_SECONDS that had ended at `moment` (seconds since 1970 by the database's
 * clock). It serves callers that look seldom and cannot notice an outage: they pass a moment at which the database
 * answered, at least half a lease ago and not before its clock was set back. Living workers have renewed since. */
MUST_CHECK enum status queue_rescue_older(struct connection *connection, double moment, int *rescued,
                                          struct error *error);

/* Makes the document that is shown as a failed run's error. NULL: no memory. */
json_t *queue_problem(enum status status, const char *pointer, const char *detail);

#endif
