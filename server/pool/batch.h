/* batch.h: a batch of leased runs on the engine thread, with one member or several, and the communication between that
 * thread and the worker's main thread: orders to stop in one direction; progress, log lines and the end in the other,
 * for each member separately. One mutex guards everything and is never held for long. Members are named by their
 * number, [0, batch_count). */
#ifndef POOL_BATCH_H
#define POOL_BATCH_H

#include "pool/worker.h"
#include "store/queue.h"

struct gate;
struct team;
struct leased_batch;

/* Starts the engine thread. Takes `runs` (leased_run_reset by batch_free); several runs are of one kind. `connection`
 * is lent to that thread until batch_free. `wake`: an eventfd that is written when a run has ended. `gate`: NULL except
 * in tests. */
MUST_CHECK enum status batch_start(const struct worker_options *options, struct leased_run *runs, size_t count,
                                   struct connection *connection, struct team *team, const struct gate *gate, int wake,
                                   struct leased_batch **out, struct error *error);

size_t batch_count(const struct leased_batch *batch);
const struct lease *batch_lease(const struct leased_batch *batch, size_t number);

/* Makes the engine's next monitor_check for that run return `status` (STATUS_CANCELLED or STATUS_LEASE_LOST); the first
 * order stands. */
void batch_stop(struct leased_batch *batch, size_t number, enum status status, const char *detail);

/* Does so for all members with STATUS_LEASE_LOST: the worker stops, and its runs return to the queue. */
void batch_drain(struct leased_batch *batch);

/* Makes the engine wait in its next monitor_check for that run, until `paused` is false or the run is stopped. Used
 * while the database does not answer, because the run may already be another worker's. */
void batch_pause(struct leased_batch *batch, size_t number, bool paused);

struct batch_view {
    bool ended;       /* this member has ended; others may continue */
    uint64_t moves;   /* grows with every call of any run's monitor */
    uint64_t version; /* grows with every change of progress */
    struct queue_progress progress;
};
void batch_look(struct leased_batch *batch, size_t number, struct batch_view *view);

/* New log lines as a JSON array (a new reference), or NULL for none. batch_put_back returns lines that could not be
 * stored. */
json_t *batch_lines(struct leased_batch *batch, size_t number);
void batch_put_back(struct leased_batch *batch, size_t number, json_t *lines);

/* The outcome of a member, after view.ended. Everything is lent until batch_free. */
struct batch_outcome {
    enum status status;
    struct error error;
    bool given_back; /* the run was not begun and returns to the queue unchanged */
    bool uploaded;   /* the bucket has saved state of it, which must be removed when the run has ended for good */
    struct queue_result result;
};
void batch_outcome(struct leased_batch *batch, size_t number, struct batch_outcome *out);

/* After all members have ended: joins the thread and frees. NULL is fine. False: the device broke down meanwhile. */
bool batch_free(struct leased_batch *batch);

#endif
