/* sharpness_state.h: the state from which a killed sharpness run continues, in one file that is replaced as a whole:
 * records of finished tasks, and numbers and vectors of the current estimator (curvature/saver.h). For sharpness.c and
 * its tests. */
#ifndef SHARPNESS_SHARPNESS_STATE_H
#define SHARPNESS_SHARPNESS_STATE_H

#include "curvature/saver.h"

/* Records are numbers in the order in which they were added; each reader knows its number of them. */
struct sharpness_state {
    uint64_t fingerprint; /* of everything that decides the run: states of other runs are refused */
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

/* Writes `path`; `kept` is the current estimator, NULL: none has begun. STATUS_DISK_FULL, STATUS_IO,
 * STATUS_NO_MEMORY. */
MUST_CHECK enum status sharpness_state_write(const char *path, const struct sharpness_state *state,
                                             const struct saver_state *kept, struct error *error);

/* Reads all but the current estimator. On failure the state is empty but keeps its fingerprint. STATUS_NOT_FOUND,
 * STATUS_CORRUPT (truncated, wrong checksum), STATUS_INVALID (of another run), STATUS_IO, STATUS_NO_MEMORY. */
MUST_CHECK enum status sharpness_state_read(const char *path, struct sharpness_state *state, struct error *error);

/* Reads the current estimator from `path`: numbers and vectors into `kept`, *found if there was one. Statuses of
 * sharpness_state_read; STATUS_CORRUPT when it does not fit. */
MUST_CHECK enum status sharpness_state_restore(const char *path, struct saver_state *kept, bool *found,
                                               struct error *error);

#endif
