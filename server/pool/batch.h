/* batch.h: a batch of leased runs on the engine thread, one member or several, and what passes between that thread and
 * the worker's main thread: in one direction the order to stop, in the other progress, log lines and the end, for each
 * member by itself. All under one mutex that nobody holds for long. Members are named by their number, [0,
 * batch_count). */
#ifndef POOL_BATCH_H
#define POOL_BATCH_H

#include "pool/worker.h"
#include "store/queue.h"

struct gate;
struct team;
struct leased_batch;

/* Starts the engine thread. Takes `runs` (leased_run_reset by batch_free), all of one kind when they are several.
 * `connection` is lent to that thread alone until batch_free. `wake`: an eventfd, written when a run has ended. `gate`:
 * NULL but in tests. */
MUST_CHECK enum status batch_start(const struct worker_options *options, struct leased_run *runs, size_t count,
                                   struct connection *connection, struct team *team, const struct gate *gate, int wake,
                                   struct leased_batch **out, struct error *error);

size_t batch_count(const struct leased_batch *batch);
const struct lease *batch_lease(const struct leased_batch *batch, size_t number);

/* Makes the engine's next monitor_check for that run return `status` (STATUS_CANCELLED or STATUS_LEASE_LOST); the first
 * order stands. */
void batch_stop(struct leased_batch *batch, size_t number, enum status status, const char *detail);

/* Does so for all with STATUS_LEASE_LOST: the worker stops, and its runs go back. */
void batch_drain(struct leased_batch *batch);

/* Makes the engine wait in its next monitor_check for that run, until `paused` is false or the run is stopped: the
 * database is away, and nobody knows whether the run is still ours. */
void batch_pause(struct leased_batch *batch, size_t number, bool paused);

struct batch_view {
    bool ended;       /* this run; others may go on */
    uint64_t moves;   /* grows with every call of any run's monitor */
    uint64_t version; /* grows with every change of progress */
    struct queue_progress progress;
};
void batch_look(struct leased_batch *batch, size_t number, struct batch_view *view);

/* Log lines not handed out yet, as a JSON array (a new reference), or NULL for none. batch_put_back returns what could
 * not be stored. */
json_t *batch_lines(struct leased_batch *batch, size_t number);
void batch_put_back(struct leased_batch *batch, size_t number, json_t *lines);

/* After view.ended: what came out. All lent until batch_free. */
struct batch_outcome {
    enum status status;
    struct error error;
    bool given_back; /* the run was not begun: it goes back as it came */
    bool uploaded;   /* the bucket has something of what it goes on from, to be removed when it has ended for good */
    struct queue_result result;
};
void batch_outcome(struct leased_batch *batch, size_t number, struct batch_outcome *out);

/* After all have ended: joins the thread and frees. NULL is fine. False: the device broke down under it. */
bool batch_free(struct leased_batch *batch);

#endif
