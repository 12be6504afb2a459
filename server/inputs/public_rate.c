#include "inputs/public_rate.h"

#include "train/public_runs.h"

#include <math.h>

#define ALIKE 0.05 /* relative difference that the numbers of parameters may have */

double public_rate(const json_t *source, const char *trajectory, const char *name, int64_t parameters, int64_t step)
{
    const char *repository = json_string_value(json_object_get(source, "repo"));
    const char *revision = json_string_value(json_object_get(source, "revision"));
    if (step < 0) return NAN;
    if (repository != NULL) {
        const struct public_run *run = public_runs_find(repository, revision != NULL ? revision : name);
        if (run == NULL) run = public_runs_find(repository, name); /* the revision may have become a commit */
        return run != NULL ? public_runs_rate(run, step) : NAN;
    }
    const struct public_run *run = public_runs_find(trajectory, name);
    if (run == NULL || fabs((double)parameters - (double)run->parameters) > ALIKE * (double)run->parameters) return NAN;
    return public_runs_rate(run, step);
}

json_t *public_rate_table(void)
{
    int64_t count;
    const struct public_run *runs = public_runs_all(&count);
    json_t *list = json_array();
    for (int64_t i = 0; i < count && list != NULL; i++) {
        const struct schedule *schedule = &runs[i].schedule;
        json_t *row =
            json_pack("{ss ss ss sf sf sf sI sI sI sI sI ss}", "repository", runs[i].repository, "revisions",
                      runs[i].prefix, "schedule", schedule_names[schedule->kind], "peak", schedule->peak, "final",
                      schedule->peak * schedule->final, "floor", schedule->peak * runs[i].floor, "warmup_tokens",
                      (json_int_t)schedule->warmup, "decay_tokens", (json_int_t)schedule->decay, "total_tokens",
                      (json_int_t)schedule->total, "step_tokens", (json_int_t)runs[i].step_tokens, "parameters",
                      (json_int_t)runs[i].parameters, "source", runs[i].source);
        if (json_array_append_new(list, row) == 0) continue;
        json_decref(list);
        list = NULL;
    }
    return list;
}
