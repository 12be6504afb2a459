/* average.h: the average of checkpoints of one model, written as an ordinary checkpoint: model.safetensors, and the
 * configuration and tokenizer of the first one. The configuration names another type of weights where the first one's
 * is not the stored type. Each number is (sum over k, ascending, of weights[k] x member k) / (sum of weights,
 * ascending), all in double, rounded once to its stored type. One slice of one tensor is in memory at a time. */
#ifndef JOBS_AVERAGE_H
#define JOBS_AVERAGE_H

#include "base/monitor.h"
#include "base/plan.h"
#include "geometry/family.h"

struct average_request {
    const struct family *family;
    const double *weights; /* [family->count], finite, their sum not 0; NULL: all 1 */
    /* made if it is missing; its parent exists. Files of a broken attempt are overwritten */
    const char *directory;
    int dtype; /* enum dtype of the result (F32, BF16, F16), or -1: each tensor's in the first member, F32 for F64 */
    const struct monitor *monitor; /* progress by "tensor" */
    int64_t part, parts;           /* this is number `part` of `parts` averages, for the progress */
};

/* The weights of the result appear last: a directory without them is not a checkpoint. STATUS_NOT_FINITE naming a
 * tensor, STATUS_INVALID (weights that sum to 0), STATUS_DISK_FULL, STATUS_IO, STATUS_INPUT_CHANGED, STATUS_CANCELLED,
 * STATUS_LEASE_LOST, STATUS_NO_MEMORY. */
MUST_CHECK enum status average_write(const struct average_request *request, struct error *error);

/* The plan of average_write; on disk the files that are written. Statuses of config_files_plan; STATUS_NO_MEMORY. */
MUST_CHECK enum status average_plan(const struct average_request *request, struct run_plan *out, struct error *error);

#endif
