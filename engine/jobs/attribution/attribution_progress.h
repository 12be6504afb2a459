/* attribution_progress.h: an attribution's progress, made of that of its quantizations: in passes of the evaluation
 * tokens through a block, or work worth one. For attribution_run.c. */
#ifndef ATTRIBUTION_ATTRIBUTION_PROGRESS_H
#define ATTRIBUTION_ATTRIBUTION_PROGRESS_H

#include "jobs/attribution/attribution_list.h"

struct attribution_progress {
    const struct attribution_list *list; /* lent */
    double calibration, head;            /* costs, in passes through a block, of one block's calibration; of the head */
    double done_cost, row_cost, total_cost; /* of rows that were measured; of the one that is measured now; of all */
    struct monitor row;                     /* for the quantization that measures a row: its progress is the row's */
    struct monitor quiet;                   /* for those whose progress is that of their children: log and check only */
};

/* With `done` rows measured before. Stays where it is. */
void attribution_progress_init(const struct attribution_list *list, int64_t done, struct attribution_progress *out);

/* A row's quantization begins; and it was measured. */
void attribution_progress_begin(struct attribution_progress *progress, int64_t row);
void attribution_progress_end(struct attribution_progress *progress, int64_t row);

#endif
