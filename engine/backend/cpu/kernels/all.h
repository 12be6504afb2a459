/* all.h: every kernel of one level, for its table. */
#ifndef BACKEND_CPU_KERNELS_ALL_H
#define BACKEND_CPU_KERNELS_ALL_H

#include "backend/cpu/kernels/level.h"

void KERNEL(fill)(float *to, int64_t count, float value);
void KERNEL(add)(float *to, const float *from, int64_t count, float alpha, float beta);
void KERNEL(scale_by_magnitude)(float *to, const float *by, int64_t count, float offset);
double KERNEL(dot)(const float *a, const float *b, int64_t count);
bool KERNEL(finite)(const float *a, int64_t count);
void KERNEL(adamw)(const struct adamw_args *args, int64_t first, int64_t end);

void KERNEL(multiply)(const struct gemm_args *args);
void KERNEL(norm_forward)(const struct norm_args *args, int64_t first, int64_t end);
void KERNEL(norm_backward)(const struct norm_args *args, int64_t first, int64_t end, float *dweight, float *dbias);
void KERNEL(norm_tangent)(const struct norm_args *args, int64_t first, int64_t end);
void KERNEL(norm_backward_tangent)(const struct norm_args *args, int64_t first, int64_t end, float *dweight_t, float *dbias_t);
void KERNEL(rope)(const struct rope_args *args, int64_t first, int64_t end);
void KERNEL(xielu_forward)(const struct xielu_run *run, int64_t t, int64_t column, int64_t count);
void KERNEL(xielu_backward)(const struct xielu_run *run, int64_t t, int64_t column, int64_t count, struct xielu_sums *sums);
void KERNEL(xielu_tangent)(const struct xielu_run *run, int64_t t, int64_t column, int64_t count);
void KERNEL(xielu_backward_tangent)(const struct xielu_run *run, int64_t t, int64_t column, int64_t count, struct xielu_sums *sums);
void KERNEL(activation_forward)(const struct activation_args *args, int64_t t, int64_t column, int64_t count);
void KERNEL(activation_backward)(const struct activation_args *args, int64_t t, int64_t column, int64_t count);
void KERNEL(activation_tangent)(const struct activation_args *args, int64_t t, int64_t column, int64_t count);
void KERNEL(activation_backward_tangent)(const struct activation_args *args, int64_t t, int64_t column, int64_t count);

void KERNEL(cross_entropy_forward)(const struct cross_entropy_args *args, int64_t first, int64_t end);
void KERNEL(cross_entropy_backward)(const struct cross_entropy_args *args, int64_t first, int64_t end);
void KERNEL(cross_entropy_backward_tangent)(const struct cross_entropy_args *args, int64_t first, int64_t end);
void KERNEL(compare)(const struct compare_args *args, int64_t first, int64_t end);
void KERNEL(softmax_block)(const struct score_block *block, float *largest, float *sums, float *out, int64_t out_stride,
                           int64_t head_dim);
void KERNEL(softmax_gradient)(const struct score_block *block, float *slopes, const float *log_sum, const float *d, float scale);
void KERNEL(softmax_tangent)(const struct score_block *block, float *scores_t, const float *log_sum, float *log_sum_t);
void KERNEL(softmax_gradient_tangent)(const struct softmax_tangents *tangents);

void KERNEL(convolution_forward)(const struct convolution_args *args, int64_t column, int64_t count, int64_t first, int64_t end);
void KERNEL(convolution_backward)(const struct convolution_args *args, int64_t column, int64_t count);
void KERNEL(scan_forward)(const struct scan_strip *strip);
void KERNEL(scan_tangent)(const struct scan_strip *strip);
void KERNEL(scan_backward)(const struct scan_strip *strip, float *dbc, bool first_of_head);
void KERNEL(scan_backward_tangent)(const struct scan_strip *strip, float *dbc, float *dbc_t, bool first_of_head);
void KERNEL(gptq_tile)(const struct gptq_block_args *block, const float *upper, int64_t index);

#endif
