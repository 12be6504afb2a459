/* cpu.h: what the files of the fast backend share: its state, its slots, and how an op is cut into tasks.
 * Tasks are cut by shape alone, never by the number of threads, so that the same request gives the same bits. */
#ifndef BACKEND_CPU_CPU_H
#define BACKEND_CPU_CPU_H

#include "backend/backend.h"
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/openblas.h"
#include "backend/cpu/tile_product.h"

/* Attention works on tiles of at most these many queries and keys. */
enum { CPU_TILE_QUERIES = 256, CPU_TILE_KEYS = 512 };
/* The most partial sums a reduction over rows is cut into, and the elements that make a task worth a thread. */
enum { CPU_PARTIALS = 32, CPU_TASK_ELEMENTS = 32768 };
enum { CPU_LEAST_PARTIAL = 4096 }; /* columns of scratch for sums before prepare asks for more */

struct cpu {
    const struct kernels *kernels;
    struct openblas blas;
    struct tile_scratch *tiles; /* owns; NULL without tile units */
    float *attention;           /* owns: CPU_ATTENTION_SCRATCH floats for each thread */
    float *partials;            /* owns: CPU_PARTIALS rows of 2 * partial_columns floats */
    int64_t partial_columns;
};

/* Scores, slopes, and four numbers a query: largest score, sum, log_sum, d. */
enum { CPU_ATTENTION_SCRATCH = 2 * CPU_TILE_QUERIES * CPU_TILE_KEYS + 4 * CPU_TILE_QUERIES };

static inline const struct cpu *cpu_of(const struct backend *backend)
{
    return backend->state;
}

/* The slot `scratch`. */
int64_t cpu_scratch(int64_t longest_sequence, int64_t widest_row);

static inline int64_t ceil_divide(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static inline int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* One single-threaded product: OpenBLAS, or our own kernel for narrow ones and where there is no OpenBLAS. */
void cpu_multiply(const struct cpu *cpu, bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, float alpha,
                  const float *a, int64_t a_stride, const float *b, int64_t b_stride, float beta, float *c, int64_t c_stride);

/* Calls body(context, first, end) on parts of the rows [0, rows), each of about CPU_TASK_ELEMENTS elements. */
void cpu_for_rows(struct team *team, int64_t rows, int64_t columns, void (*body)(void *context, int64_t first, int64_t end),
                  void *context);
/* Calls body(context, t, column, count) on runs that cover a [rows, columns] matrix; `dense`: every operand's rows follow one
 * another without a gap, so that all of it may be taken as row 0. */
void cpu_for_runs(struct team *team, int64_t rows, int64_t columns, bool dense,
                  void (*body)(void *context, int64_t t, int64_t column, int64_t count), void *context);

static inline bool cpu_dense(struct matrix m)
{
    return m.data == NULL || m.stride == m.columns || m.rows == 1;
}

void cpu_fill(struct backend *backend, struct matrix to, double value);
void cpu_add(struct backend *backend, struct matrix to, struct matrix from, double alpha, double beta);
void cpu_scale_by_magnitude(struct backend *backend, struct matrix to, struct matrix by, double offset);
void cpu_clip(struct backend *backend, struct matrix to, struct matrix from, double bound);
void cpu_clip_pass(struct backend *backend, struct matrix to, struct matrix from, struct matrix by, double bound, bool accumulate);
double cpu_dot(struct backend *backend, struct matrix a, struct matrix b);
bool cpu_finite(struct backend *backend, struct matrix a);
void cpu_add_row(struct backend *backend, struct matrix to, struct matrix row);
void cpu_sum_rows(struct backend *backend, struct matrix to_row, struct matrix from);
void cpu_upload(struct backend *backend, struct matrix to, const void *from, enum dtype dtype);
void cpu_download(struct backend *backend, struct matrix from, void *to, enum dtype dtype);
void cpu_gather(struct backend *backend, struct matrix to, struct matrix table, const uint32_t *ids);
void cpu_scatter_add(struct backend *backend, struct matrix table, struct matrix from, const uint32_t *ids);
void cpu_adamw(struct backend *backend, const struct adamw_args *args);

void cpu_gemm(struct backend *backend, const struct gemm_args *args);
void cpu_syrk(struct backend *backend, struct matrix c, struct matrix x, double alpha, double beta);
bool cpu_inverse_cholesky(struct backend *backend, struct matrix h);

void cpu_norm_forward(struct backend *backend, const struct norm_args *args);
void cpu_norm_backward(struct backend *backend, const struct norm_args *args);
void cpu_norm_tangent(struct backend *backend, const struct norm_args *args);
void cpu_norm_backward_tangent(struct backend *backend, const struct norm_args *args);
void cpu_rope(struct backend *backend, const struct rope_args *args);
void cpu_activation_forward(struct backend *backend, const struct activation_args *args);
void cpu_activation_backward(struct backend *backend, const struct activation_args *args);
void cpu_activation_tangent(struct backend *backend, const struct activation_args *args);
void cpu_activation_backward_tangent(struct backend *backend, const struct activation_args *args);
void cpu_cross_entropy_forward(struct backend *backend, const struct cross_entropy_args *args);
void cpu_cross_entropy_backward(struct backend *backend, const struct cross_entropy_args *args);
void cpu_cross_entropy_backward_tangent(struct backend *backend, const struct cross_entropy_args *args);
void cpu_compare(struct backend *backend, const struct compare_args *args);
void cpu_attention_forward(struct backend *backend, const struct attention_args *args);
void cpu_attention_backward(struct backend *backend, const struct attention_args *args);
void cpu_attention_tangent(struct backend *backend, const struct attention_args *args);
void cpu_attention_backward_tangent(struct backend *backend, const struct attention_args *args);
void cpu_xielu_forward(struct backend *backend, const struct xielu_args *args);
void cpu_xielu_backward(struct backend *backend, const struct xielu_args *args);
void cpu_xielu_tangent(struct backend *backend, const struct xielu_args *args);
void cpu_xielu_backward_tangent(struct backend *backend, const struct xielu_args *args);
void cpu_route_forward(struct backend *backend, const struct route_args *args);
void cpu_route_backward(struct backend *backend, const struct route_args *args);
void cpu_route_tangent(struct backend *backend, const struct route_args *args);
void cpu_route_backward_tangent(struct backend *backend, const struct route_args *args);
void cpu_experts_spread(struct backend *backend, const struct experts_args *args);
void cpu_experts_collect(struct backend *backend, const struct experts_args *args);
void cpu_experts_dot(struct backend *backend, const struct experts_args *args);
void cpu_convolution_forward(struct backend *backend, const struct convolution_args *args);
void cpu_convolution_backward(struct backend *backend, const struct convolution_args *args);
void cpu_scan_forward(struct backend *backend, const struct scan_args *args);
void cpu_scan_backward(struct backend *backend, const struct scan_args *args);
void cpu_scan_tangent(struct backend *backend, const struct scan_args *args);
void cpu_scan_backward_tangent(struct backend *backend, const struct scan_args *args);

void cpu_write_bytes(struct backend *backend, void *to, const void *from, size_t bytes);
void cpu_read_bytes(struct backend *backend, const void *from, void *to, size_t bytes);
void cpu_mirror(struct backend *backend, struct matrix h);
void cpu_select(struct backend *backend, struct matrix to, struct matrix from, const int32_t *rows, const int32_t *columns);
void cpu_scale_columns(struct backend *backend, struct matrix to, struct matrix from, struct matrix by);
void cpu_grid_find(struct backend *backend, struct grid grid, struct matrix weight, struct grids grids);
void cpu_grid_encode(struct backend *backend, struct grid grid, struct matrix weight, const struct codes *codes);
void cpu_book_encode(struct backend *backend, struct matrix weight, const struct codes *codes);
void cpu_decode(struct backend *backend, const struct codes *codes, int64_t first, struct matrix to, struct matrix from);
void cpu_add_magnitudes(struct backend *backend, double *sums, struct matrix largest, struct matrix x);
void cpu_clip_search(struct backend *backend, const struct clip_search_args *args);
void cpu_gptq_block(struct backend *backend, const struct gptq_block_args *args);
void cpu_round_rows(struct backend *backend, const struct round_rows_args *args);
void cpu_hadamard(struct backend *backend, const struct hadamard_args *args);
void cpu_add_products(struct backend *backend, struct matrix to, struct matrix x, struct matrix by);

#endif
