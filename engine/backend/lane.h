/* lane.h: asynchronous copies between a device's memory and the host's. A lane does its copies in order; lanes and the
 * backend's work run concurrently unless one is told to wait for the other. Backends with matrices in host memory have
 * no lanes. */
#ifndef BACKEND_LANE_H
#define BACKEND_LANE_H

#include "backend/matrix.h"
#include "base/error.h"
#include "tensor/dtype.h"

struct backend;

enum lane { LANE_WEIGHTS, LANE_HIDDEN, LANE_COUNT };

struct lane_ops {
    /* Host memory for direct copies from and to the device. STATUS_NO_MEMORY. */
    enum status (*allocate)(struct backend *backend, size_t bytes, const char *what, void **out, struct error *error);
    /* Call when no copy uses the memory any more (arrive). NULL is fine. */
    void (*release)(struct backend *backend, void *memory);
    /* Copy between a matrix and its elements in such memory, row after row without gaps. Neither may change until a
     * later point has been reached. The elements may be of 16 bits, for `widen`. */
    void (*carry_in)(struct backend *backend, enum lane lane, struct matrix to, const void *from);
    void (*carry_out)(struct backend *backend, enum lane lane, struct matrix from, void *to);
    /* Later copies of the lane begin after all work so far. */
    void (*follow)(struct backend *backend, enum lane lane);
    /* A point of the lane, after all its copies so far. It may be passed to the calls below while the lane is in use;
     * an old point may stand for a later one. */
    int (*point)(struct backend *backend, enum lane lane);
    /* Later work begins after the lane has reached the point. */
    void (*await)(struct backend *backend, enum lane lane, int point);
    /* Work like a slot's: to = the numbers of BF16 or F16 (`from`, elements of 16 bits) that were carried in. */
    void (*widen)(struct backend *backend, struct matrix to, struct matrix from, enum dtype dtype);
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
