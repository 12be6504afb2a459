/* metrics.h: every metric that runs measure for curves and correlations, collected from the result tables of all
 * kinds. */
#ifndef KINDS_METRICS_H
#define KINDS_METRICS_H

#include "base/result.h"

#include <stdbool.h>

enum { METRICS_MOST = 128, METRICS_KINDS = 16 };

struct metric {
    const struct result_metric *about;
    const char *kinds[METRICS_KINDS]; /* the kinds that measure it; [kind_count] */
    size_t kind_count;                /* 0: a property of the checkpoint, which no run measures */
};

/* Fills `out` in the order of the kinds and their rows, each metric once; returns their number. */
size_t metrics_list(struct metric out[METRICS_MOST]);

/* NULL: there is no metric of that name. */
const struct result_metric *metrics_find(const char *name);

/* Whether runs measure it: not so of a property of checkpoints, which has no measurements to judge or to list. */
bool metrics_measured(const char *name);

/* The known name nearest to `name` by edit distance, for suggestions; NULL: none is near. */
const char *metrics_nearest(const char *name);

#endif
