/* cuda.h: the state of the CUDA backend and what its files share. */
#ifndef BACKEND_CUDA_CUDA_H
#define BACKEND_CUDA_CUDA_H

#include "backend/backend.h"
#include "backend/cuda/device.h"
#include "backend/cuda/promises.h"

#include <pthread.h>

struct cuda_block; /* memory.c */

/* Host memory that a copy of the stream may still be reading, in two halves that take turns, and as much on the
 * device. */
struct cuda_stage {
    char *host, *device;
    size_t half, used; /* bytes */
    int which;         /* the half in use */
};

struct cuda_lane {
    pthread_mutex_t mutex;
    int next; /* point */
    enum status status;
    struct error error;
};

struct cuda {
    struct device *device; /* owned */
    struct cuda_lane lanes[LANE_COUNT];
    pthread_mutex_t mutex; /* one slot at a time, whichever thread asks */
    struct cuda_block *blocks;
    int64_t held, budget; /* bytes taken from the device, and the most that may be */
    int64_t peak;         /* the most that were held */
    int64_t limit;        /* the most that `budget` may ever be */
    /* Of a device that is shared the budget is what was promised last, and this what there was then. */
    struct promises promises;
    struct promised_room room;
    int64_t planned; /* bytes that were kept for the plan of a run that held nothing */
    /* the most scratch of one call of attention's products, but for what one head of one sequence takes */
    int64_t attention_bytes;
    int64_t square; /* columns of the largest part of a triangle that is made as a square */
    struct cuda_stage stage;
    void *scratch; /* for one slot's call */
    size_t scratch_bytes;
    void *host_scratch;
    size_t host_scratch_bytes;
    bool careful;       /* DELTAQ_CUDA_SYNC: waits after all that is asked for, so that what failed is named */
    enum kernel last;   /* started */
    int64_t launches;   /* kernels that were started */
    enum status status; /* what sync says, once something has failed: nothing more is started */
    struct error error;
};

static inline struct cuda *cuda_of(struct backend *backend)
{
    return (struct cuda *)backend->state;
}

/* A slot's call lies between the two. */
struct cuda *cuda_enter(struct backend *backend);
void cuda_leave(struct cuda *cuda);
/* `code`, and under DELTAQ_CUDA_SYNC what comes of waiting for what was asked for. */
int cuda_careful(struct cuda *cuda, int code);
/* Keeps the first failure. False unless `code`, what the device said when `what` was asked for, is 0 and nothing has
 * failed before. */
bool cuda_good(struct cuda *cuda, const char *what, int code);
/* The status for a failure of the device, and its text. */
enum status cuda_device_failed(const struct cuda *cuda, const char *what, int code, struct error *error);
void cuda_fail(struct cuda *cuda, enum status status, const char *what);
/* The name of a kernel, as in kernels/args.h. */
const char *cuda_kernel_name(enum kernel kernel);
void cuda_launch(struct cuda *cuda, enum kernel kernel, int64_t blocks, const void *args);
/* Blocks for a walk over `elements`. */
int64_t cuda_blocks(int64_t elements);
/* Waits for the stream. */
bool cuda_wait(struct cuda *cuda);

/* memory.c */
enum status cuda_allocate(struct backend *backend, int64_t elements, const char *what, void **out, struct error *error);
void cuda_release(struct backend *backend, void *block);
void cuda_release_all(struct cuda *cuda);
void cuda_release_spare(struct cuda *cuda); /* between calls: scratch, staging and what is kept for who asks next */
/* Of pinned host memory, and as much of the device's, that staging takes when something is first staged: whatever
 * comes. */
int64_t cuda_stage_bytes(int64_t longest_sequence, int64_t widest_row);
int64_t cuda_memory_used(const struct cuda *cuda); /* bytes that somebody holds */
/* Scratch until the slot's call ends, of the device or of the host (NULL after a failure). Asking again gives the same
 * memory. */
void *cuda_scratch(struct cuda *cuda, size_t bytes);
void *cuda_host_scratch(struct cuda *cuda, size_t bytes);
/* A host array's copy on the device, until the slot's call ends. All that a call stages must have been announced by one
 * cuda_room. */
void cuda_room(struct cuda *cuda, size_t bytes);
const void *cuda_staged(struct cuda *cuda, const void *array, size_t bytes);
/* Room for a result on the device, and its way into a host array (waits). */
void *cuda_result(struct cuda *cuda, size_t bytes);
void cuda_fetch(struct cuda *cuda, void *array, const void *result, size_t bytes);
/* Bytes between the host and the device, at most as many as are staged at once; cuda_take waits. */
void cuda_put(struct cuda *cuda, void *to, const void *from, size_t bytes);
void cuda_take(struct cuda *cuda, void *to, const void *from, size_t bytes);

/* Of so many bytes of a device, the scratch that attention takes. */
int64_t cuda_attention_share(int64_t budget);

/* share.c */
int64_t cuda_memory(struct backend *backend);
/* Raises the budget to as much as there is, or, when `bytes` are wanted, to that. */
void cuda_promise(struct cuda *cuda, int64_t bytes);

/* lanes.c */
extern const struct lane_ops cuda_lanes;

/* The slots. */
#define X(type, slot, ...) type cuda_##slot(struct backend *, __VA_ARGS__);
BACKEND_SLOTS(X)
#undef X

/* products.c: gemm inside a slot's call */
void cuda_multiply(struct cuda *cuda, const struct gemm_args *args);
/* After a product of the device, or `batch` of them (0: it is not of a batch): a failure names the shapes. */
void cuda_product_done(struct cuda *cuda, const struct device_gemm *g, int64_t batch, int code);
/* attention_products.c: attention_forward without branches */
void cuda_attention_products_forward(struct backend *backend, const struct attention_args *args);

#endif
