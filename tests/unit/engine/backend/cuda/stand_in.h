/* stand_in.h: included before a test (-include), puts the CUDA backend where the test asks for the fast one: over the
 * emulated device, over the first real one with STAND_IN_DEVICE, or over the simulated one with STAND_IN_PTX. Without a
 * team the emulation runs its threads forwards, with one backwards: tests that want the same bits from one thread and
 * from several then want them from both orders, from attention in calls of few heads, from triangles of small
 * squares, and from rounded factors in small tiles. */
#ifndef TESTS_CUDA_STAND_IN_H
#define TESTS_CUDA_STAND_IN_H

#include "backend/backend.h"

#ifndef STAND_IN_DEVICE
#include "backend/cuda/cuda.h"
#include "backend/cuda/open.h"
#ifdef STAND_IN_PTX
#include "engine/backend/cuda/ptx/simulated.h"
#define stand_in_device simulated_device
#else
#include "engine/backend/cuda/emulated.h"
#define stand_in_device emulated_device
#endif

/* three heads of 63 tokens, one of 256; tiles of 256 rows by 64 */
enum { STAND_IN_ATTENTION_BYTES = 50000, STAND_IN_SQUARE = 64, STAND_IN_TILE = 256 * 64 * 2, STAND_IN_FACTOR = 128 };
#endif

/* rounds: for products in bf16. */
static inline enum status stand_in_open(bool rounds, struct team *team, struct backend **out, struct error *error)
{
#ifdef STAND_IN_DEVICE
    return backend_new(STAND_IN_DEVICE, rounds ? "bf16" : NULL, team, out, error);
#else
    struct device *device = stand_in_device(team != NULL);
    if (device == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for the emulation");
    device->narrow = rounds;
    const enum status status = cuda_open_device(device, device->memory_free, team, out, error);
    if (status == STATUS_OK) cuda_of(*out)->factor_columns = STAND_IN_FACTOR;
    if (status != STATUS_OK || team == NULL) return status;
    cuda_of(*out)->attention_bytes = STAND_IN_ATTENTION_BYTES;
    cuda_of(*out)->square = STAND_IN_SQUARE;
    cuda_of(*out)->narrow_tile = STAND_IN_TILE;
    return status;
#endif
}

static inline enum status stand_in_new(struct team *team, struct backend **out, struct error *error)
{
    return stand_in_open(false, team, out, error);
}

#define backend_cpu_new stand_in_new

#endif
