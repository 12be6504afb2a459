/* cuda.h: the state of the CUDA backend, and functions that its files share. */
#ifndef BACKEND_CUDA_CUDA_H
#define BACKEND_CUDA_CUDA_H

#include "backend/backend.h"
#include "backend/cuda/device.h"
#include "backend/cuda/profile.h"
#include "backend/cuda/promises.h"

#include <pthread.h>

/* Rounded factors of a product take twice this of a device at most. */
enum { NARROW_TILE = 256 << 20 };

struct cuda_block; /* memory.c */

enum { STAGE_ARRAYS = 8 };

/* Bytes that are the same in both memories of the stage. */
struct cuda_staged_array {
    size_t at, bytes;
};

/* A staging buffer: pinned host memory and as much device memory, in two halves. One half is filled while the stream
 * may still be copying the other. */
struct cuda_stage {
    char *host, *device;
    size_t half, used; /* bytes */
    int which;         /* the half in use */
    /* the last arrays of this half, so that one that is wanted again is not copied again; bytes 0: none */
    struct cuda_staged_array arrays[STAGE_ARRAYS];
    int next; /* the oldest */
};

/* Memory that grows when more is wanted. */
struct cuda_scratch {
    void *memory;
    size_t bytes;
};

/* Numbers of which products read a rounded copy (backend/rounding.h). */
struct cuda_rounded {
    const float *numbers;
    int64_t elements;
    uint16_t *copy; /* NULL: there is none */
};

struct cuda_lane {
    pthread_mutex_t mutex;
    int next; /* number of the next point */
    enum status status;
    struct error error;
};

struct cuda {
    struct device *device; /* owned */
    struct cuda_lane lanes[LANE_COUNT];
    pthread_mutex_t mutex; /* serializes the slots' calls of all threads */
    struct cuda_block *blocks;
    int64_t held, budget; /* bytes held on the device, and the most that may be held */
    int64_t peak;         /* most bytes held so far */
    int64_t limit;        /* upper bound of `budget` */
    /* On a shared device `budget` is the last promise; `space` is the memory at that moment. */
    struct promises promises;
    struct promised_space space;
    int64_t planned; /* bytes kept for the plan of a run that held no memory */
    /* most scratch of one call of attention's products, unless one head of one sequence needs more */
    int64_t attention_bytes;
    int64_t square;         /* columns of the largest part of a triangle that is computed as a whole square */
    int64_t factor_columns; /* of a Cholesky factor's larger blocks, a multiple of CHOLESKY_BLOCK */
    struct cuda_stage stage;
    struct cuda_scratch scratch; /* for one call of a slot */
    bool rounds;                 /* products that need not be exact have bf16 factors; known also on paper */
    struct cuda_scratch narrow;  /* rounded factors of one product (narrow.c) */
    int64_t narrow_bytes;        /* that plans leave free for them */
    int64_t narrow_tile;         /* most bytes of one rounded factor at a time */
    struct matrix narrowed;      /* the factor whose rounded copy is at narrowed_at; absent: none is */
    void *narrowed_at;
    struct cuda_rounded rounded;
    struct cuda_scratch host_scratch;
    bool careful; /* DELTAQ_CUDA_SYNC: waits after every operation, so that an error names the one that failed */
    struct cuda_profile profile;
    enum kernel last;   /* the last one that was started */
    int64_t launches;   /* number of kernels started */
    enum status status; /* first failure, which sync returns; after it nothing more is started */
    struct error error;
};

static inline struct cuda *cuda_of(struct backend *backend)
{
    return (struct cuda *)backend->state;
}

/* Begin and end a call of a slot; cuda_enter_product: of one that changes nothing but its output. */
struct cuda *cuda_enter(struct backend *backend);
struct cuda *cuda_enter_product(struct backend *backend);
void cuda_leave(struct cuda *cuda);
/* Returns `code`; under DELTAQ_CUDA_SYNC it waits first and returns an error of the wait. */
int cuda_careful(struct cuda *cuda, int code);
/* Records the first failure. `code` is the device's answer to the operation `what`. True if it is 0 and nothing has
 * failed before. */
bool cuda_good(struct cuda *cuda, const char *what, int code);
/* Fills *error for a failure of the device and returns its status. */
enum status cuda_device_failed(const struct cuda *cuda, const char *what, int code, struct error *error);
void cuda_fail(struct cuda *cuda, enum status status, const char *what);
/* The name of a kernel, as in kernels/args.h. */
const char *cuda_kernel_name(enum kernel kernel);
void cuda_launch(struct cuda *cuda, enum kernel kernel, int64_t blocks, const void *args);
/* Number of blocks for a loop over `elements`. */
int64_t cuda_blocks(int64_t elements);
/* Waits for the stream. */
bool cuda_wait(struct cuda *cuda);

/* memory.c */
enum status cuda_allocate(struct backend *backend, int64_t elements, const char *what, void **out, struct error *error);
void cuda_release(struct backend *backend, void *block);
void cuda_release_all(struct cuda *cuda);
void cuda_release_spare(struct cuda *cuda); /* call between slots: frees scratch, staging and unused blocks */
/* Bytes of pinned host memory, and as many of device memory, that staging takes at its first use, whatever the
 * arguments. */
int64_t cuda_stage_bytes(int64_t longest_sequence, int64_t widest_row);
int64_t cuda_memory_used(const struct cuda *cuda); /* bytes of blocks in use */
/* Scratch of the device or of the host until the slot's call ends (NULL after a failure). A second request returns the
 * same memory. */
void *cuda_scratch(struct cuda *cuda, size_t bytes);
void *cuda_host_scratch(struct cuda *cuda, size_t bytes);
/* Scratch of the device for the factors of one product. */
void *cuda_narrow_scratch(struct cuda *cuda, size_t bytes);
/* Copies a host array to the device; the copy is valid until the slot's call ends, and nobody writes to it: calls that
 * stage equal arrays share it. cuda_announce reserves the bytes of everything that a call stages, and precedes it. */
void cuda_announce(struct cuda *cuda, size_t bytes);
const void *cuda_staged(struct cuda *cuda, const void *array, size_t bytes);
/* cuda_result reserves staging memory for a result on the device; cuda_fetch copies results to host arrays (waits once)
 * when they are complete: nobody writes to them afterwards. */
struct cuda_fetched {
    void *array;
    const void *result;
    size_t bytes;
};
void *cuda_result(struct cuda *cuda, size_t bytes);
void cuda_fetch_all(struct cuda *cuda, const struct cuda_fetched *fetched, int count);
void cuda_fetch(struct cuda *cuda, void *array, const void *result, size_t bytes);
/* Copy bytes between the host and the device, at most as many as the staging buffer holds; cuda_take waits. */
void cuda_put(struct cuda *cuda, void *to, const void *from, size_t bytes);
void cuda_take(struct cuda *cuda, void *to, const void *from, size_t bytes);

/* Bytes of scratch that attention takes from a budget. */
int64_t cuda_attention_share(int64_t budget);
/* The scratch that plans with this budget leave free. */
void cuda_keep_scratch(struct cuda *cuda, int64_t budget);

/* narrow.c: on a device that was opened for products in bf16, the two slots with rounded factors */
void cuda_narrow_multiply(struct cuda *cuda, const struct gemm_args *args);
void cuda_narrow_triangle(struct cuda *cuda, struct matrix c, struct matrix x, double alpha, double beta);
/* Bytes of scratch that they take from a budget. */
int64_t cuda_narrow_share(int64_t budget);
/* Heads of `columns` numbers in bf16 at `to` [rows, heads, pitch]. */
void cuda_narrow(struct cuda *cuda, struct head_view from, int64_t heads, int64_t columns, uint16_t *to);
/* Where a kernel that reads all of `m` shall write it in bf16, rows cuda_narrow_pitch apart, so that products that
 * follow directly need not round it; NULL: it shall not. */
uint16_t *cuda_narrow_beside(struct cuda *cuda, struct matrix m);
/* Numbers from one to the next: 16 bytes or a multiple. */
int64_t cuda_narrow_pitch(int64_t columns);

/* elementwise.c: to = the numbers of BF16 or F16 at `from`, on the device and without gaps. */
void cuda_widen(struct cuda *cuda, struct matrix to, const void *from, enum dtype dtype);

/* share.c */
int64_t cuda_memory(struct backend *backend);
/* Raises the budget to all available memory, or, with `bytes` > 0, only to that. */
void cuda_promise(struct cuda *cuda, int64_t bytes);

/* lanes.c */
extern const struct lane_ops cuda_lanes;

/* narrow.c */
extern const struct rounding_ops cuda_rounding;

/* The slots. */
#define X(type, slot, ...) type cuda_##slot(struct backend *, __VA_ARGS__);
BACKEND_SLOTS(X)
#undef X

/* products.c: gemm inside a slot's call; factors of two bytes an element are of bf16 */
void cuda_multiply(struct cuda *cuda, const struct gemm_args *args);
/* The lower triangle of beta c + alpha xᵀ x; `x` is of floats or of bf16. */
void cuda_triangle(struct cuda *cuda, struct matrix c, struct matrix x, double alpha, double beta);
/* Checks a product of the device, or a batch of `batch` products (0: a single one): an error names the shapes. */
void cuda_product_done(struct cuda *cuda, const struct device_gemm *g, int64_t batch, int code);
/* attention_products.c: attention_forward without branches */
void cuda_attention_products_forward(struct backend *backend, const struct attention_args *args);
/* attention_fused.c: attention_forward without branches, or attention_backward, with factors in bf16. False: the device
 * is not for such products, or the heads do not suit it. */
bool cuda_attention_fused(struct cuda *cuda, const struct attention_args *args, bool backward);
/* Replaces `count` views of `tokens` rows by copies in bf16, in scratch for factors; heads: how many each has. */
void cuda_attention_narrow(struct cuda *cuda, struct head_view *const *views, const int64_t *heads, int count,
                           int64_t tokens, int64_t head_dim);

#endif
