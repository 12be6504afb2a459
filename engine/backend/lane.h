/* lane.h: asynchronous copies between a device's memory and the host's. A lane does its copies in order; lanes and the
 * backend's work run concurrently unless one is told to wait for the other. Backends with matrices in host memory have
 * no lanes. */
#ifndef BACKEND_LANE_H
#define BACKEND_LANE_H

#include "backend/matrix.h"
#include "base/error.h"

struct backend;

enum lane { LANE_WEIGHTS, LANE_HIDDEN, LANE_COUNT };

struct lane_ops {
    /* Host memory for direct copies from and to the device. STATUS_NO_MEMORY. */
    enum status (*allocate)(struct backend *backend, size_t bytes, const char *what, void **out, struct error *error);
    /* Call when no copy uses the memory any more (arrive). NULL is fine. */
    void (*release)(struct backend *backend, void *memory);
    /* Copy between a matrix and dense floats in such memory. Neither may change until a later point has been
     * reached. */
    void (*carry_in)(struct backend *backend, enum lane lane, struct matrix to, const void *from);
    void (*carry_out)(struct backend *backend, enum lane lane, struct matrix from, void *to);
    /* Later copies of the lane begin after all work so far. */
    void (*follow)(struct backend *backend, enum lane lane);
    /* A point of the lane, after all its copies so far. It may be passed to the calls below while the lane is in use;
     * an old point may stand for a later one. */
    int (*point)(struct backend *backend, enum lane lane);
    /* Later work begins after the lane has reached the point. */
    void (*await)(struct backend *backend, enum lane lane, int point);
    /* Returns after the lane has reached the point. Statuses of the device. */
    MUST_CHECK enum status (*arrive)(struct backend *backend, enum lane lane, int point, struct error *error);
};

/* Waits for a lane before its memory is reused. Errors are ignored here: the next await or sync reports them. */
static inline void lane_finish(const struct lane_ops *lanes, struct backend *backend, enum lane lane, int point)
{
    struct error ignored;
    const enum status status = lanes->arrive(backend, lane, point, &ignored);
    (void)status;
}

#endif
