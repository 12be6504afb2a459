/* metrics.h: every number that runs leave for curves and correlations, found in the tables of results that kinds
 * have. */
#ifndef KINDS_METRICS_H
#define KINDS_METRICS_H

#include "base/result.h"

#include <stdbool.h>

enum { METRICS_MOST = 128, METRICS_KINDS = 16 };

struct metric {
    const struct result_metric *about;
    const char *kinds[METRICS_KINDS]; /* that measure it; [kind_count] */
    size_t kind_count;                /* 0: a checkpoint has it by itself */
};

/* Fills `out` in the order of kinds and their rows, each metric once; returns how many. */
size_t metrics_list(struct metric out[METRICS_MOST]);

/* NULL: there is none of that name. */
const struct result_metric *metrics_find(const char *name);

/* The known name that `name` most likely was meant to be, by the edits between them; NULL: none is near. */
const char *metrics_nearest(const char *name);

#endif
