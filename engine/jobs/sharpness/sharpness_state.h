/* sharpness_state.h: what a sharpness run needs to go on, in one file that is replaced as a whole: records of what is
 * finished, and numbers and vectors of the estimator at work (curvature/keeper.h). For sharpness.c and its tests. */
#ifndef SHARPNESS_SHARPNESS_STATE_H
#define SHARPNESS_SHARPNESS_STATE_H

#include "curvature/keeper.h"

/* Records are numbers in the order in which they were added; each reader knows how many it takes. */
struct sharpness_state {
    uint64_t fingerprint; /* of what decides the run: states of other runs are refused */
    int64_t tasks;        /* finished */
    int64_t products;     /* made so far */
    int64_t most_vectors; /* decided by the first attempt's memory */
    double *records;      /* owned (sharpness_state_reset) */
    int64_t record_count, record_capacity;
};
void sharpness_state_reset(struct sharpness_state *state); /* {0} is fine */

/* STATUS_NO_MEMORY. */
MUST_CHECK enum status sharpness_state_record(struct sharpness_state *state, const double *numbers, int64_t count,
                                              struct error *error);

/* Writes `path`; `kept` is the estimator at work, NULL: none has begun. STATUS_DISK_FULL, STATUS_IO,
 * STATUS_NO_MEMORY. */
MUST_CHECK enum status sharpness_state_write(const char *path, const struct sharpness_state *state,
                                             const struct kept *kept, struct error *error);

/* Reads all but the estimator at work. STATUS_NOT_FOUND, STATUS_CORRUPT (cut short, wrong checksum), STATUS_INVALID (of
 * another run), STATUS_IO, STATUS_NO_MEMORY; the state keeps its fingerprint then and is empty otherwise. */
MUST_CHECK enum status sharpness_state_read(const char *path, struct sharpness_state *state, struct error *error);

/* The estimator at work, of `path` as it was read: numbers and vectors into `kept`, *found when there was one. Statuses
 * of the same; STATUS_CORRUPT when it does not fit. */
MUST_CHECK enum status sharpness_state_restore(const char *path, struct kept *kept, bool *found, struct error *error);

#endif
