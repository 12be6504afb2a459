/* stand_in.c: compiled for each device that the tests of the fast backend run over: with STAND_IN_DEVICE its name, with
 * STAND_IN_PTX the simulated one, else the emulated one. Without a team the emulation runs its threads forwards, with
 * one backwards: tests that want the same bits from one thread and from several then want them from both orders, from
 * attention in calls of few heads, from triangles of small squares, and from rounded factors in small tiles. */
#include "engine/backend/cuda/stand_in.h"

#ifdef STAND_IN_DEVICE

enum status stand_in_open(const char *products, struct team *team, struct backend **out, struct error *error)
{
    return backend_new(STAND_IN_DEVICE, products, team, out, error);
}

#else

#include "backend/cuda/cuda.h"
#include "backend/cuda/open.h"
#ifdef STAND_IN_PTX
#include "engine/backend/cuda/ptx/simulated.h"
#define stand_in_device simulated_device
#else
#include "engine/backend/cuda/emulated.h"
#define stand_in_device emulated_device
#endif

#include <string.h>

/* three heads of 63 tokens, one of 256; tiles of 256 rows by 64 */
enum { ATTENTION_BYTES = 50000, SQUARE = 64, TILE = 256 * 64 * 2, FACTOR = 128 };

enum status stand_in_open(const char *products, struct team *team, struct backend **out, struct error *error)
{
    struct device *device = stand_in_device(team != NULL);
    if (device == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for the emulation");
    device->narrow = products != NULL && strcmp(products, "bf16") == 0;
    const enum status status = cuda_open_device(device, device->memory_free, team, out, error);
    if (status == STATUS_OK) cuda_of(*out)->factor_columns = FACTOR;
    if (status != STATUS_OK || team == NULL) return status;
    cuda_of(*out)->attention_bytes = ATTENTION_BYTES;
    cuda_of(*out)->square = SQUARE;
    cuda_of(*out)->narrow_tile = TILE;
    return status;
}

#endif
