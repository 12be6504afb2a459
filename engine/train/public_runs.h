/* public_runs.h: the learning rates of training runs whose checkpoints are published: facts, each with its source, so
 * that a public trajectory's curve shows the rate although its checkpoints do not hold it. Schedules are stated in
 * tokens, because that is what runs with a growing batch have in common with the others. */
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
};

/* All rows; *count is set. */
const struct public_run *public_runs_all(int64_t *count);

/* The row for a revision, or checkpoint of that name, of a repository: "EleutherAI/pythia-160m", or its last part
 * alone; in any case. NULL: none. */
const struct public_run *public_runs_find(const char *repository, const char *revision);

/* The rate after `step` steps; the run's last rate beyond its end. */
double public_runs_rate(const struct public_run *run, int64_t step);

#endif
