/* lanes.c: copies on streams of their own. A thread that copies does not wait for one that computes: a lane has its own
 * lock, and its failure becomes the backend's at the next await. */
#include "backend/cuda/cuda.h"

static struct cuda_lane *enter(struct cuda *cuda, enum lane lane)
{
    pthread_mutex_lock(&cuda->lanes[lane].mutex);
    return &cuda->lanes[lane];
}

static void leave(struct cuda_lane *lane)
{
    pthread_mutex_unlock(&lane->mutex);
}

/* Keeps the first failure. */
static void note_failure(struct cuda *cuda, struct cuda_lane *lane, int code)
{
    if (code != 0 && lane->status == STATUS_OK)
        lane->status = cuda_device_failed(cuda, "copying beside the work", code, &lane->error);
}

static enum status lane_allocate(struct backend *backend, size_t bytes, const char *what, void **out,
                                 struct error *error)
{
    struct cuda *cuda = cuda_of(backend);
    *out = NULL;
    const int code = cuda->device->allocate_host(cuda->device, bytes, out);
    if (code == 0) return STATUS_OK;
    if (cuda->device->failure(code) == DEVICE_FAULT)
        return cuda_device_failed(cuda, "taking memory of the host", code, error);
    return error_set(error, STATUS_NO_MEMORY, "%s: the host has no %lld MiB left that a device can copy from", what,
                     (long long)(bytes >> 20));
}

static void lane_release(struct backend *backend, void *memory)
{
    struct cuda *cuda = cuda_of(backend);
    if (memory != NULL) (void)cuda->device->release_host(cuda->device, memory);
}

static void carry(struct backend *backend, enum lane which, struct matrix matrix, char *dense, bool in)
{
    struct cuda *cuda = cuda_of(backend);
    struct cuda_lane *lane = enter(cuda, which);
    const size_t width = (size_t)matrix.columns * matrix.element, pitch = (size_t)matrix.stride * matrix.element;
    if (lane->status == STATUS_OK && matrix.rows > 0 && width > 0)
        note_failure(cuda, lane,
                     in ? cuda->device->carry(cuda->device, which, matrix.data, pitch, dense, width, width,
                                              (size_t)matrix.rows, true)
                        : cuda->device->carry(cuda->device, which, dense, width, matrix.data, pitch, width,
                                              (size_t)matrix.rows, false));
    leave(lane);
}

static void lane_carry_in(struct backend *backend, enum lane lane, struct matrix to, const void *from)
{
    carry(backend, lane, to, (char *)(uintptr_t)from, true);
}

static void lane_carry_out(struct backend *backend, enum lane lane, struct matrix from, void *to)
{
    carry(backend, lane, from, to, false);
}

static void lane_follow(struct backend *backend, enum lane which)
{
    struct cuda *cuda = cuda_enter(backend);
    struct cuda_lane *lane = enter(cuda, which);
    if (lane->status == STATUS_OK && cuda->status == STATUS_OK)
        note_failure(cuda, lane, cuda->device->follow(cuda->device, which));
    leave(lane);
    cuda_leave(cuda);
}

static int lane_point(struct backend *backend, enum lane which)
{
    struct cuda *cuda = cuda_of(backend);
    struct cuda_lane *lane = enter(cuda, which);
    const int point = lane->next;
    lane->next = (point + 1) % LANE_POINTS;
    if (lane->status == STATUS_OK) note_failure(cuda, lane, cuda->device->point(cuda->device, which, point));
    leave(lane);
    return point;
}

static void lane_await(struct backend *backend, enum lane which, int point)
{
    struct cuda *cuda = cuda_enter(backend);
    struct cuda_lane *lane = enter(cuda, which);
    if (lane->status != STATUS_OK)
        cuda_fail(cuda, lane->status, lane->error.detail);
    else if (cuda->status == STATUS_OK)
        (void)cuda_good(cuda, "waiting for copies", cuda->device->await(cuda->device, which, point));
    leave(lane);
    cuda_leave(cuda);
}

static void lane_widen(struct backend *backend, struct matrix to, struct matrix from, enum dtype dtype)
{
    struct cuda *cuda = cuda_enter(backend);
    cuda_widen(cuda, to, from.data, dtype);
    cuda_leave(cuda);
}

static enum status lane_arrive(struct backend *backend, enum lane which, int point, struct error *error)
{
    struct cuda *cuda = cuda_of(backend);
    const int code = cuda->device->arrive(cuda->device, which, point);
    struct cuda_lane *lane = enter(cuda, which);
    note_failure(cuda, lane, code);
    const enum status status = lane->status;
    if (status != STATUS_OK) *error = lane->error;
    leave(lane);
    return status;
}

const struct lane_ops cuda_lanes = {
    .allocate = lane_allocate,
    .release = lane_release,
    .carry_in = lane_carry_in,
    .carry_out = lane_carry_out,
    .follow = lane_follow,
    .point = lane_point,
    .await = lane_await,
    .widen = lane_widen,
    .arrive = lane_arrive,
};
