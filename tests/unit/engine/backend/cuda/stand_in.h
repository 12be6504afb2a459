/* stand_in.h: included before a test (-include), puts the CUDA backend where the test asks for the fast one: over the emulated
 * device, or over the first real one with STAND_IN_DEVICE. Without a team the emulation runs its threads forwards, with one
 * backwards: tests that want the same bits from one thread and from several then want them from both orders. */
#ifndef TESTS_CUDA_STAND_IN_H
#define TESTS_CUDA_STAND_IN_H

#include "backend/backend.h"

#ifndef STAND_IN_DEVICE
#include "backend/cuda/open.h"
#include "engine/backend/cuda/emulated.h"
#endif

static inline enum status stand_in_new(struct team *team, struct backend **out, struct error *error)
{
#ifdef STAND_IN_DEVICE
    return backend_new(STAND_IN_DEVICE, team, out, error);
#else
    struct device *device = emulated_device(team != NULL);
    if (device == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for the emulation");
    return cuda_open_device(device, device->memory_free, team, out, error);
#endif
}

#define backend_cpu_new stand_in_new

#endif
