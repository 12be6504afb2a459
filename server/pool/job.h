/* job.h: leased runs on the engine thread, one or several that are executed together, and what passes between that thread and the
 * worker's main thread: in one direction the order to stop, in the other progress, log lines and the end, for each run by itself.
 * All under one mutex that nobody holds for long. Runs are named by their number, [0, job_count). */
#ifndef POOL_JOB_H
#define POOL_JOB_H

#include "pool/worker.h"
#include "store/queue.h"

struct gate;
struct team;
struct job;

/* Starts the engine thread. Takes `runs` (leased_run_reset by job_free), all of one kind when they are several. `connection` is
 * lent to that thread alone until job_free. `wake`: an eventfd, written when a run has ended. `gate`: NULL but in tests. */
MUST_CHECK enum status job_start(const struct worker_options *options, struct leased_run *runs, size_t count,
                                 struct connection *connection, struct team *team, const struct gate *gate, int wake,
                                 struct job **out, struct error *error);

size_t job_count(const struct job *job);
const struct lease *job_lease(const struct job *job, size_t number);

/* Makes the engine's next monitor_check for that run return `status` (STATUS_CANCELLED or STATUS_LEASE_LOST); the first order
 * stands. */
void job_stop(struct job *job, size_t number, enum status status, const char *detail);

struct job_view {
    bool ended;       /* this run; others may go on */
    uint64_t moves;   /* grows with every call of any run's monitor */
    uint64_t version; /* grows with every change of progress */
    struct queue_progress progress;
};
void job_look(struct job *job, size_t number, struct job_view *view);

/* Log lines not handed out yet, as a JSON array (a new reference), or NULL for none. job_put_back returns what could
 * not be stored. */
json_t *job_lines(struct job *job, size_t number);
void job_put_back(struct job *job, size_t number, json_t *lines);

/* After view.ended: what came out. All lent until job_free. */
struct job_outcome {
    enum status status;
    struct error error;
    bool given_back; /* the run was not begun: it goes back as it came */
    struct queue_result result;
};
void job_outcome(struct job *job, size_t number, struct job_outcome *out);

/* After all have ended: joins the thread and frees. NULL is fine. */
void job_free(struct job *job);

#endif
