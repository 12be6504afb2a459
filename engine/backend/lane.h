/* lane.h: copies beside the work, between a device's memory and the host's. A lane carries them in order; lanes and
 * work go side by side except where one is told to wait for the other. A backend whose matrices lie in host memory has
 * none. */
#ifndef BACKEND_LANE_H
#define BACKEND_LANE_H

#include "backend/matrix.h"
#include "base/error.h"

struct backend;

enum lane { LANE_WEIGHTS, LANE_HIDDEN, LANE_COUNT };

struct lane_ops {
    /* Host memory that copies go straight from and to. STATUS_NO_MEMORY. */
    enum status (*allocate)(struct backend *backend, size_t bytes, const char *what, void **out, struct error *error);
    void (*release)(struct backend *backend,
                    void *memory); /* once nothing is carried to or from it (arrive); NULL is fine */
    /* Between a matrix and dense floats in such memory, which must stay as they are until a later point was reached. */
    void (*carry_in)(struct backend *backend, enum lane lane, struct matrix to, const void *from);
    void (*carry_out)(struct backend *backend, enum lane lane, struct matrix from, void *to);
    /* What the lane is given from now on begins after all work so far. */
    void (*follow)(struct backend *backend, enum lane lane);
    /* A point of the lane: all that it was given so far. Good for the calls below as long as the lane is used; one that
     * many others came after may stand for a later one. */
    int (*point)(struct backend *backend, enum lane lane);
    /* Work begins from now on after the lane has reached the point. */
    void (*await)(struct backend *backend, enum lane lane, int point);
    /* Returns after it has. Statuses of the device. */
    MUST_CHECK enum status (*arrive)(struct backend *backend, enum lane lane, int point, struct error *error);
};

/* Once nothing is carried any more: memory may go to others. Failures are heard of by whoever awaits or syncs. */
static inline void lane_finish(const struct lane_ops *lanes, struct backend *backend, enum lane lane, int point)
{
    struct error ignored;
    const enum status status = lanes->arrive(backend, lane, point, &ignored);
    (void)status;
}

#endif
