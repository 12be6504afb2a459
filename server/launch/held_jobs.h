/* held_jobs.h: jobs that Slurm holds (slurm.h). No worker comes of a held job, and the next job of its template would
 * often be held too, as where a node's prolog fails. So each held job is said once, and its template gets no job at the
 * look that finds it and at the next one; after the second time at the next three looks, and so on up to 63, until one
 * more of the template's workers has a run. */
#ifndef LAUNCH_HELD_JOBS_H
#define LAUNCH_HELD_JOBS_H

#include "launch/slurm.h"

struct held_jobs;

/* The templates, at most TEMPLATE_MOST, are lent until held_jobs_free. The caller owns *out. STATUS_NO_MEMORY. */
MUST_CHECK enum status held_jobs_new(const struct template *templates, size_t count, struct held_jobs **out,
                                     struct error *error);
/* Counts one look, which found these jobs. busy[i]: the worker of jobs[i] has a run. STATUS_NO_MEMORY. */
MUST_CHECK enum status held_jobs_look(struct held_jobs *held, const struct slurm_job *jobs, const bool *busy,
                                      size_t count, struct error *error);
/* Whether no job of this template (one of the lent) is to be submitted at this look. */
bool held_jobs_wait(const struct held_jobs *held, const struct template *template);
void held_jobs_free(struct held_jobs *held); /* NULL is fine */

#endif
