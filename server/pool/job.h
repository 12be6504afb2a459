/* job.h: one leased run on the engine thread, and what passes between that thread and the worker's main thread: in one direction
 * the order to stop, in the other progress, log lines and the end. All under one mutex that nobody holds for long. */
#ifndef POOL_JOB_H
#define POOL_JOB_H

#include "pool/worker.h"
#include "store/queue.h"

struct team;
struct job;

/* Starts the engine thread. Takes `run` (leased_run_reset by job_free). `connection` is lent to that thread alone until job_free.
 * `wake`: an eventfd, written when the job has ended. */
MUST_CHECK enum status job_start(const struct worker_options *options, struct leased_run *run, struct connection *connection,
                                 struct team *team, int wake, struct job **out, struct error *error);

const struct lease *job_lease(const struct job *job);

/* Makes the engine's next monitor_check return `status` (STATUS_CANCELLED or STATUS_LEASE_LOST); the first order stands. */
void job_stop(struct job *job, enum status status, const char *detail);

struct job_view {
    bool ended;
    uint64_t moves;   /* grows with every call of the monitor */
    uint64_t version; /* grows with every change of progress */
    struct queue_progress progress;
};
void job_look(struct job *job, struct job_view *view);

/* Log lines not handed out yet, as a JSON array (a new reference), or NULL for none. job_put_back returns what could not be stored.
 */
json_t *job_lines(struct job *job);
void job_put_back(struct job *job, json_t *lines);

/* After view.ended: what came out. All lent until job_free. */
struct job_outcome {
    enum status status;
    struct error error;
    struct queue_result result;
};
void job_outcome(struct job *job, struct job_outcome *out);

/* After view.ended: joins the thread and frees. NULL is fine. */
void job_free(struct job *job);

#endif
