/* launcher.h: submits workers to Slurm as the queue asks for them, and takes back jobs that still wait when nothing is
 * left for them. It keeps no books: what is queued and who works stands in the database, what was submitted in squeue,
 * by the jobs' names. So one that is killed and started again submits nothing twice; a second one under the same name
 * waits.
 *
 * At each look (launcher_look): queued runs are planned (estimate.h) and grouped by what they need (demand.h); the
 * first template that meets a group's device and labels serves it. Jobs of the template that have no run, or wait to
 * start, are spoken for first (but for jobs that were preempted and would begin minutes later, which are taken back);
 * what is missing is submitted, as one array for each kind of job, up to the limit. A worker that has nothing to do
 * ends by itself (--idle-exit). What a job held that squeue no longer knows, and that has been silent, goes back to the
 * queue before its lease ends. */
#ifndef LAUNCH_LAUNCHER_H
#define LAUNCH_LAUNCHER_H

#include "launch/template.h"
#include "runs/dry_run.h"

struct launcher;

struct launcher_options {
    const char *name;           /* of the jobs: NAME-HASH-MEMORY */
    struct dry_run_place place; /* lends the connection and where runs are planned */
    const struct template *templates;
    size_t template_count;
    int64_t most_jobs, runs_each;        /* jobs at a time; queued runs for each further job */
    int64_t memory_mib, most_memory_mib; /* of a job: usual (0: not asked for) and at most (0: no bound) */
    int64_t limit_seconds, most_seconds; /* its time: usual and at most */
    int64_t idle_seconds, threads, interval_seconds;
    const char *log_directory;
    const char *const *worker; /* words that every worker gets, from the program on; ends with NULL */
    bool dry_run;              /* prints what it would submit */
};

/* The caller owns *out (launcher_free). STATUS_INVALID: a template with more labels than a worker takes. */
MUST_CHECK enum status launcher_new(const struct launcher_options *options, struct launcher **out, struct error *error);
/* One look. STATUS_UNAVAILABLE: the database or Slurm does not answer; nothing was submitted that it could not see. */
MUST_CHECK enum status launcher_look(struct launcher *launcher, struct error *error);
void launcher_free(struct launcher *launcher); /* lets another one of its name begin; NULL is fine */

#endif
