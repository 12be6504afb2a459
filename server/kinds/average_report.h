/* average_report.h: the averages that a run of the kind "average" made and, when it searched windows, the
 * measurements. */
#ifndef KINDS_AVERAGE_REPORT_H
#define KINDS_AVERAGE_REPORT_H

#include "base/result.h"
#include "jobs/point.h"

#include <jansson.h>

/* The average of the last `window` checkpoints, measured. */
struct average_candidate {
    int64_t window;
    struct point point;
};

struct average_report {
    const char *trajectory; /* the trajectory of the averages */
    const json_t *ids;      /* ids of the averages */
    const char *checkpoint; /* the single average; NULL with a window */
    bool searched;
    int64_t best;                         /* the best window of a search */
    struct average_candidate *candidates; /* [candidate_count]; owned; NULL: no search */
    int64_t candidate_count;
};

/* The table of the result. */
extern const struct result_shape average_report_shape;

#endif
