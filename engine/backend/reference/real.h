/* real.h: what the plain loops share. The build compiles each of them twice, with `real` defined as float and as
 * double.
 * Products and sums of a few terms are made in `real`; exp, log, statistics of a row and long scalar sums in double. */
#ifndef BACKEND_REFERENCE_REAL_H
#define BACKEND_REFERENCE_REAL_H

#include "backend/backend.h"

#ifndef real
#define real float
#endif

#define REFERENCE_PASTE_(name, type) reference_##name##_##type
#define REFERENCE_PASTE(name, type)  REFERENCE_PASTE_(name, type)
#define REFERENCE(name)              REFERENCE_PASTE(name, real) /* reference_norm_forward_float */

static inline real *row_of(struct matrix m, int64_t t)
{
    return (real *)m.data + t * m.stride;
}

static inline real *head_of(struct head_view view, int64_t t, int64_t head)
{
    return row_of(view.matrix, t) + view.offset + head * view.head_stride;
}

/* elementwise.c */
void REFERENCE(fill)(struct backend *backend, struct matrix to, double value);
void REFERENCE(add)(struct backend *backend, struct matrix to, struct matrix from, double alpha, double beta);
void REFERENCE(scale_by_magnitude)(struct backend *backend, struct matrix to, struct matrix by, double offset);
void REFERENCE(clip)(struct backend *backend, struct matrix to, struct matrix from, double bound);
void REFERENCE(clip_pass)(struct backend *backend, struct matrix to, struct matrix from, struct matrix by, double bound,
                          bool accumulate);
double REFERENCE(dot)(struct backend *backend, struct matrix a, struct matrix b);
bool REFERENCE(finite)(struct backend *backend, struct matrix a);
void REFERENCE(add_row)(struct backend *backend, struct matrix to, struct matrix row);
void REFERENCE(sum_rows)(struct backend *backend, struct matrix to_row, struct matrix from);
void REFERENCE(upload)(struct backend *backend, struct matrix to, const void *from, enum dtype dtype);
void REFERENCE(download)(struct backend *backend, struct matrix from, void *to, enum dtype dtype);
/* gemm.c, cholesky.c */
void REFERENCE(gemm)(struct backend *backend, const struct gemm_args *args);
void REFERENCE(syrk)(struct backend *backend, struct matrix c, struct matrix x, double alpha, double beta);
bool REFERENCE(inverse_cholesky)(struct backend *backend, struct matrix h);
/* one family a file */
void REFERENCE(norm_forward)(struct backend *backend, const struct norm_args *args);
void REFERENCE(norm_backward)(struct backend *backend, const struct norm_args *args);
void REFERENCE(norm_tangent)(struct backend *backend, const struct norm_args *args);
void REFERENCE(norm_backward_tangent)(struct backend *backend, const struct norm_args *args);
void REFERENCE(rope)(struct backend *backend, const struct rope_args *args);
void REFERENCE(attention_forward)(struct backend *backend, const struct attention_args *args);
void REFERENCE(attention_backward)(struct backend *backend, const struct attention_args *args);
void REFERENCE(attention_tangent)(struct backend *backend, const struct attention_args *args);
void REFERENCE(attention_backward_tangent)(struct backend *backend, const struct attention_args *args);
void REFERENCE(activation_forward)(struct backend *backend, const struct activation_args *args);
void REFERENCE(activation_backward)(struct backend *backend, const struct activation_args *args);
void REFERENCE(activation_tangent)(struct backend *backend, const struct activation_args *args);
void REFERENCE(activation_backward_tangent)(struct backend *backend, const struct activation_args *args);
void REFERENCE(convolution_forward)(struct backend *backend, const struct convolution_args *args);
void REFERENCE(convolution_backward)(struct backend *backend, const struct convolution_args *args);
void REFERENCE(scan_forward)(struct backend *backend, const struct scan_args *args);
void REFERENCE(scan_backward)(struct backend *backend, const struct scan_args *args);
void REFERENCE(scan_tangent)(struct backend *backend, const struct scan_args *args);
void REFERENCE(scan_backward_tangent)(struct backend *backend, const struct scan_args *args);
void REFERENCE(xielu_forward)(struct backend *backend, const struct xielu_args *args);
void REFERENCE(xielu_backward)(struct backend *backend, const struct xielu_args *args);
void REFERENCE(xielu_tangent)(struct backend *backend, const struct xielu_args *args);
void REFERENCE(xielu_backward_tangent)(struct backend *backend, const struct xielu_args *args);
void REFERENCE(route_forward)(struct backend *backend, const struct route_args *args);
void REFERENCE(route_backward)(struct backend *backend, const struct route_args *args);
void REFERENCE(route_tangent)(struct backend *backend, const struct route_args *args);
void REFERENCE(route_backward_tangent)(struct backend *backend, const struct route_args *args);
void REFERENCE(experts_spread)(struct backend *backend, const struct experts_args *args);
void REFERENCE(experts_collect)(struct backend *backend, const struct experts_args *args);
void REFERENCE(experts_dot)(struct backend *backend, const struct experts_args *args);
void REFERENCE(gather)(struct backend *backend, struct matrix to, struct matrix table, const uint32_t *ids);
void REFERENCE(scatter_add)(struct backend *backend, struct matrix table, struct matrix from, const uint32_t *ids);
void REFERENCE(cross_entropy_forward)(struct backend *backend, const struct cross_entropy_args *args);
void REFERENCE(cross_entropy_backward)(struct backend *backend, const struct cross_entropy_args *args);
void REFERENCE(cross_entropy_backward_tangent)(struct backend *backend, const struct cross_entropy_args *args);
void REFERENCE(compare)(struct backend *backend, const struct compare_args *args);
void REFERENCE(adamw)(struct backend *backend, const struct adamw_args *args);
void REFERENCE(write_bytes)(struct backend *backend, void *to, const void *from, size_t bytes);
void REFERENCE(read_bytes)(struct backend *backend, const void *from, void *to, size_t bytes);
void REFERENCE(mirror)(struct backend *backend, struct matrix h);
void REFERENCE(select)(struct backend *backend, struct matrix to, struct matrix from, const int32_t *rows, const int32_t *columns);
void REFERENCE(scale_columns)(struct backend *backend, struct matrix to, struct matrix from, struct matrix by);
void REFERENCE(grid_find)(struct backend *backend, struct grid grid, struct matrix weight, struct grids grids);
void REFERENCE(grid_encode)(struct backend *backend, struct grid grid, struct matrix weight, const struct codes *codes);
void REFERENCE(book_encode)(struct backend *backend, struct matrix weight, const struct codes *codes);
void REFERENCE(decode)(struct backend *backend, const struct codes *codes, int64_t first, struct matrix to, struct matrix from);
void REFERENCE(add_magnitudes)(struct backend *backend, double *sums, struct matrix largest, struct matrix x);
void REFERENCE(clip_search)(struct backend *backend, const struct clip_search_args *args);
void REFERENCE(gptq_block)(struct backend *backend, const struct gptq_block_args *args);
void REFERENCE(round_rows)(struct backend *backend, const struct round_rows_args *args);
void REFERENCE(hadamard)(struct backend *backend, const struct hadamard_args *args);
void REFERENCE(add_products)(struct backend *backend, struct matrix to, struct matrix x, struct matrix by);

#endif
