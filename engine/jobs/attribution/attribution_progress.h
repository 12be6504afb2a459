/* attribution_progress.h: an attribution's progress, made of that of its quantizations: in passes of the evaluation
 * tokens through a block, or work worth one. For attribution_run.c. */
#ifndef ATTRIBUTION_ATTRIBUTION_PROGRESS_H
#define ATTRIBUTION_ATTRIBUTION_PROGRESS_H

#include "jobs/attribution/attribution_list.h"

struct attribution_progress {
    const struct attribution_list *list; /* lent */
    double calibration, head;            /* costs, in passes through a block, of one block's calibration; of the head */
    double done_cost, row_cost, total_cost; /* of rows that were measured; of the one that is measured now; of all */
    struct monitor row;                     /* of a quantization whose progress is that of the row it measures */
    struct monitor quiet; /* of a quantization whose children report progress: it logs and checks only */
};

/* `done` rows were measured by earlier attempts. Reports them. *out must not be moved: its monitors point to it. */
void attribution_progress_init(const struct attribution_list *list, int64_t done, struct attribution_progress *out);

/* Called when the quantization of a row begins, and when the row was measured. */
void attribution_progress_begin(struct attribution_progress *progress, int64_t row);
void attribution_progress_end(struct attribution_progress *progress, int64_t row);

#endif
