/* launcher.h: submits workers to Slurm as the queue asks for them, and takes back waiting jobs when nothing is left for
 * them. It stores nothing itself: the database has the queue and the workers, squeue has the submitted jobs, identified
 * by their names. So a launcher that is killed and started again submits nothing twice, and a second one under the same
 * name waits.
 * At each look (launcher_look) queued runs are planned (estimate.h) and grouped by their needs (demand.h). The first
 * template that meets a group's device, its memory and labels serves the group. Its jobs that have no run, or wait to
 * start, are used first, except preempted jobs that would start minutes later, and jobs that Slurm holds (held_jobs.h):
 * these are taken back. The missing jobs are submitted, as one array for each kind of job, up to the limit. A worker
 * without work ends by itself (--idle-exit).
 * When squeue no longer knows a job and its worker has been silent, the worker's runs return to the queue before its
 * lease ends. */
#ifndef LAUNCH_LAUNCHER_H
#define LAUNCH_LAUNCHER_H

#include "launch/template.h"
#include "runs/dry_run.h"

struct launcher;

struct launcher_options {
    const char *name;           /* of the jobs: NAME-HASH-MEMORY */
    struct dry_run_place place; /* lends the connection, and the place for which runs are planned */
    const struct template *templates;
    size_t template_count;
    int64_t most_jobs, runs_each;        /* jobs at a time; number of queued runs for each additional job */
    int64_t memory_mib, most_memory_mib; /* of a job: the usual memory (0: not asked for) and the most (0: no bound) */
    int64_t limit_seconds, most_seconds; /* time of a job: the usual and the most */
    int64_t idle_seconds, threads, interval_seconds;
    const char *log_directory;
    const char *const *worker; /* the command line of every worker, beginning with the program; ends with NULL */
    bool dry_run;              /* prints the submissions instead */
};

/* The caller owns *out (launcher_free). STATUS_INVALID: a template with more labels than a worker takes. */
MUST_CHECK enum status launcher_new(const struct launcher_options *options, struct launcher **out, struct error *error);
/* Makes one look. STATUS_UNAVAILABLE: the database or Slurm does not answer; then no job was submitted for anything
 * that it could not see. */
MUST_CHECK enum status launcher_look(struct launcher *launcher, struct error *error);
void launcher_free(struct launcher *launcher); /* releases the name for another launcher; NULL is fine */

#endif
