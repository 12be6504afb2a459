/* cuda.h: the state of the CUDA backend and what its files share. */
#ifndef BACKEND_CUDA_CUDA_H
#define BACKEND_CUDA_CUDA_H

#include "backend/backend.h"
#include "backend/cuda/device.h"

#include <pthread.h>

struct cuda_block; /* memory.c */

/* Host memory that a copy of the stream may still be reading, in two halves that take turns, and as much on the device. */
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
    int64_t held, budget;    /* bytes taken from the device, and the most that may be */
    int64_t peak;            /* the most that were held */
    int64_t attention_bytes; /* the most scratch of one call of attention's products, but for what one head of one sequence takes */
    struct cuda_stage stage;
    void *scratch; /* for one slot's call */
    size_t scratch_bytes;
    void *host_scratch;
    size_t host_scratch_bytes;
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
/* Keeps the first failure. False unless `code` is 0 and nothing has failed before. */
bool cuda_good(struct cuda *cuda, const char *what, int code);
void cuda_fail(struct cuda *cuda, enum status status, const char *what);
void cuda_launch(struct cuda *cuda, enum kernel kernel, int64_t blocks, const void *args);
/* Blocks for a walk over `elements`. */
int64_t cuda_blocks(int64_t elements);
/* Waits for the stream. */
bool cuda_wait(struct cuda *cuda);

/* memory.c */
enum status cuda_allocate(struct backend *backend, int64_t elements, const char *what, void **out, struct error *error);
void cuda_release(struct backend *backend, void *block);
void cuda_release_all(struct cuda *cuda);
/* Of pinned host memory, and as much of the device's, that staging takes when something is first staged: whatever comes. */
int64_t cuda_stage_bytes(int64_t longest_sequence, int64_t widest_row);
int64_t cuda_memory_used(const struct cuda *cuda); /* bytes that somebody holds */
/* Scratch until the slot's call ends, of the device or of the host (NULL after a failure). Asking again gives the same memory. */
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
void cuda_upload(struct backend *backend, struct matrix to, const void *from, enum dtype dtype);
void cuda_download(struct backend *backend, struct matrix from, void *to, enum dtype dtype);

/* lanes.c */
extern const struct lane_ops cuda_lanes;

/* products.c */
void cuda_multiply(struct cuda *cuda, const struct gemm_args *args); /* inside a slot's call */
void cuda_gemm(struct backend *backend, const struct gemm_args *args);
void cuda_syrk(struct backend *backend, struct matrix c, struct matrix x, double alpha, double beta);
bool cuda_inverse_cholesky(struct backend *backend, struct matrix h);

/* elementwise.c */
void cuda_fill(struct backend *backend, struct matrix to, double value);
void cuda_add(struct backend *backend, struct matrix to, struct matrix from, double alpha, double beta);
void cuda_scale_by_magnitude(struct backend *backend, struct matrix to, struct matrix by, double offset);
double cuda_dot(struct backend *backend, struct matrix a, struct matrix b);
bool cuda_finite(struct backend *backend, struct matrix a);
void cuda_add_row(struct backend *backend, struct matrix to, struct matrix row);
void cuda_sum_rows(struct backend *backend, struct matrix to_row, struct matrix from);
void cuda_activation_forward(struct backend *backend, const struct activation_args *args);
void cuda_activation_backward(struct backend *backend, const struct activation_args *args);
void cuda_activation_tangent(struct backend *backend, const struct activation_args *args);
void cuda_activation_backward_tangent(struct backend *backend, const struct activation_args *args);
void cuda_clip(struct backend *backend, struct matrix to, struct matrix from, double bound);
void cuda_clip_pass(struct backend *backend, struct matrix to, struct matrix from, struct matrix by, double bound, bool accumulate);
void cuda_xielu_forward(struct backend *backend, const struct xielu_args *args);
void cuda_xielu_backward(struct backend *backend, const struct xielu_args *args);
void cuda_xielu_tangent(struct backend *backend, const struct xielu_args *args);
void cuda_xielu_backward_tangent(struct backend *backend, const struct xielu_args *args);
void cuda_adamw(struct backend *backend, const struct adamw_args *args);

/* codes.c */
void cuda_write_bytes(struct backend *backend, void *to, const void *from, size_t bytes);
void cuda_read_bytes(struct backend *backend, const void *from, void *to, size_t bytes);
void cuda_mirror(struct backend *backend, struct matrix h);
void cuda_select(struct backend *backend, struct matrix to, struct matrix from, const int32_t *rows, const int32_t *columns);
void cuda_scale_columns(struct backend *backend, struct matrix to, struct matrix from, struct matrix by);
void cuda_grid_find(struct backend *backend, struct grid grid, struct matrix weight, struct grids grids);
void cuda_grid_encode(struct backend *backend, struct grid grid, struct matrix weight, const struct codes *codes);
void cuda_book_encode(struct backend *backend, struct matrix weight, const struct codes *codes);
void cuda_decode(struct backend *backend, const struct codes *codes, int64_t first, struct matrix to, struct matrix from);
void cuda_add_magnitudes(struct backend *backend, double *sums, struct matrix largest, struct matrix x);
void cuda_clip_search(struct backend *backend, const struct clip_search_args *args);
void cuda_gptq_block(struct backend *backend, const struct gptq_block_args *args);

/* inputs.c */
void cuda_round_rows(struct backend *backend, const struct round_rows_args *args);
void cuda_hadamard(struct backend *backend, const struct hadamard_args *args);
void cuda_add_products(struct backend *backend, struct matrix to, struct matrix x, struct matrix by);

/* rows.c */
void cuda_norm_forward(struct backend *backend, const struct norm_args *args);
void cuda_norm_backward(struct backend *backend, const struct norm_args *args);
void cuda_norm_tangent(struct backend *backend, const struct norm_args *args);
void cuda_norm_backward_tangent(struct backend *backend, const struct norm_args *args);
void cuda_rope(struct backend *backend, const struct rope_args *args);
void cuda_gather(struct backend *backend, struct matrix to, struct matrix table, const uint32_t *ids);
void cuda_scatter_add(struct backend *backend, struct matrix table, struct matrix from, const uint32_t *ids);
void cuda_cross_entropy_forward(struct backend *backend, const struct cross_entropy_args *args);
void cuda_cross_entropy_backward(struct backend *backend, const struct cross_entropy_args *args);
void cuda_cross_entropy_backward_tangent(struct backend *backend, const struct cross_entropy_args *args);
void cuda_compare(struct backend *backend, const struct compare_args *args);

/* experts.c */
void cuda_route_forward(struct backend *backend, const struct route_args *args);
void cuda_route_backward(struct backend *backend, const struct route_args *args);
void cuda_route_tangent(struct backend *backend, const struct route_args *args);
void cuda_route_backward_tangent(struct backend *backend, const struct route_args *args);
void cuda_experts_spread(struct backend *backend, const struct experts_args *args);
void cuda_experts_collect(struct backend *backend, const struct experts_args *args);
void cuda_experts_dot(struct backend *backend, const struct experts_args *args);

/* attention.c */
void cuda_attention_forward(struct backend *backend, const struct attention_args *args);

/* attention_products.c; the forward pass without branches */
void cuda_attention_products_forward(struct backend *backend, const struct attention_args *args);
void cuda_attention_backward(struct backend *backend, const struct attention_args *args);
void cuda_attention_tangent(struct backend *backend, const struct attention_args *args);
void cuda_attention_backward_tangent(struct backend *backend, const struct attention_args *args);

/* recurrent.c */
void cuda_convolution_forward(struct backend *backend, const struct convolution_args *args);
void cuda_convolution_backward(struct backend *backend, const struct convolution_args *args);
void cuda_scan_forward(struct backend *backend, const struct scan_args *args);
void cuda_scan_backward(struct backend *backend, const struct scan_args *args);
void cuda_scan_tangent(struct backend *backend, const struct scan_args *args);
void cuda_scan_backward_tangent(struct backend *backend, const struct scan_args *args);

#endif
