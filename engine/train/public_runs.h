/* public_runs.h: the learning rates of training runs with published checkpoints: facts, each with its source, so that
 * the curve of a public trajectory shows the rate although its checkpoints do not contain it. Schedules are stated in
 * tokens, which also works for runs with a growing batch. */
#ifndef TRAIN_PUBLIC_RUNS_H
#define TRAIN_PUBLIC_RUNS_H

#include "train/schedule.h"

struct public_run {
    const char *repository;            /* on the hub */
    const char *prefix;                /* of the revisions that it holds for: "stage1-" */
    struct schedule schedule;          /* lengths in tokens */
    int64_t step_tokens;               /* tokens of a step, as the revisions count steps */
    int64_t grown_after, grown_tokens; /* from this step on a step has that many; 0: never */
    int64_t head_start;                /* steps that a revision of step 0 has behind it */
    int64_t parameters;                /* about */
    const char *source;
    double floor; /* after the warm-up the rate never falls below this share of its peak; 0: it may */
};

/* All rows; *count is set. */
const struct public_run *public_runs_all(int64_t *count);

/* The row for a revision, or checkpoint of that name, of a repository: "EleutherAI/pythia-160m", or only its last part;
 * case does not matter. NULL: none. */
const struct public_run *public_runs_find(const char *repository, const char *revision);

/* The rate after `step` steps; beyond its end, the run's last rate. */
double public_runs_rate(const struct public_run *run, int64_t step);

#endif
