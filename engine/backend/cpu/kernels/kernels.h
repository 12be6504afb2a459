/* kernels.h: the vectorised inner loops; each computes the part of an op that one task takes. The files here are plain
 * C shaped for the compiler's vectoriser and are built once for each level of the processor's family (levels.h):
 * x86-64-v2 (SSE4), v3 (AVX2, FMA) and v4 (AVX-512); armv8-portable, neon and sve. cpu.c picks a table by what the
 * processor has. No function here may be called before that choice, and none may be called from outside: it would bring
 * AVX-512 instructions with it. All matrices hold floats. Reductions keep several partial sums; their order is fixed by
 * the shape and the level, and with SVE also by the width of its vectors. */
#ifndef BACKEND_CPU_KERNELS_KERNELS_H
#define BACKEND_CPU_KERNELS_KERNELS_H

#include "backend/backend.h"
#include "backend/cpu/levels.h"

/* These two contain only address arithmetic. */
static inline float *float_row(struct matrix m, int64_t t)
{
    return (float *)m.data + t * m.stride;
}

static inline float *float_head(struct head_view view, int64_t t, int64_t head)
{
    return float_row(view.matrix, t) + view.offset + head * view.head_stride;
}

/* A block of attention scores [rows, columns]; row r sees the columns that are causal and inside the window. Rows have
 * space up to the next multiple of 16 columns. */
struct score_block {
    float *scores;
    int64_t stride, rows, columns;
    int64_t first_query, first_key; /* positions of row 0 and column 0 in their sequence */
    int64_t window;                 /* 0: none */
    int64_t step;                   /* columns this far beyond the last one that a row sees are never read; 0: none */
};

/* softmax_gradient and its tangent: scores become p, scores_t their tangent p (scores_t - log_sum_t), slopes become
 * scale p (slope - d), and slopes_t, which hold the tangent of dout vᵀ, become the tangent of that. */
struct softmax_tangents {
    struct score_block block;
    float *scores_t, *slopes, *slopes_t; /* in the layout of the scores */
    const float *log_sum, *log_sum_t, *d, *d_t;
    float scale;
};

/* Channels [channel, channel + width) of a scan in a sequence of rows [start, end), from row `first` on. They are at
 * most as many as a vector has lanes, all in one group, and all in one head unless each is its own head. */
struct scan_strip {
    const struct scan_args *args;
    int64_t start, end, first, channel, width;
    const float *initial; /* scan_forward: [N, C] states before and after the sequence; NULL: zeros, not stored */
    float *final;
};

enum { CONVOLUTION_STRIP = 64 }; /* columns of a convolution that a task takes together */

/* xIELU's numbers after their softplus, and their tangents: y = a h(x) + beta x with a = p or n (backend.h). */
struct xielu_run {
    const struct xielu_args *args;
    float p, n, beta, epsilon, expm1_epsilon;
    float p_t, n_t;
};

/* Sums over the elements with x > 0 ([0]: the number is p) and over the others ([1]: it is n). */
struct xielu_sums {
    double dy_h[2];    /* of dy h(x) */
    double tangent[2]; /* of dy_t h(x) + dy h'(x) x_t */
};

/* The kernels: X(return type, name, parameters). The table of a level and the prototypes (all.h) are made from this
 * list. */
#define CPU_KERNELS(X)                                                                                                 \
    /* runs of `count` elements */                                                                                     \
    X(void, fill, float *to, int64_t count, float value)                                                               \
    X(void, add, float *to, const float *from, int64_t count, float alpha, float beta)                                 \
    X(void, scale_by_magnitude, float *to, const float *by, int64_t count, float offset)                               \
    X(double, dot, const float *a, const float *b, int64_t count)                                                      \
    X(bool, finite, const float *a, int64_t count)                                                                     \
    X(void, adamw, const struct adamw_args *args, int64_t first, int64_t end)                                          \
    /* gemm on one thread */                                                                                           \
    X(void, multiply, const struct gemm_args *args)                                                                    \
    /* the same with factors rounded to bfloat16 (bf16.h) */                                                           \
    X(void, multiply_rounded, const struct gemm_args *args)                                                            \
    /* rows [first, end) */                                                                                            \
    X(void, norm_forward, const struct norm_args *args, int64_t first, int64_t end)                                    \
    /* dweight and dbias: this task's own sums, in the shape of the parameter, added to; NULL: not wanted */           \
    X(void, norm_backward, const struct norm_args *args, int64_t first, int64_t end, float *dweight, float *dbias)     \
    X(void, norm_tangent, const struct norm_args *args, int64_t first, int64_t end)                                    \
    X(void, norm_backward_tangent, const struct norm_args *args, int64_t first, int64_t end, float *dweight_t,         \
      float *dbias_t)                                                                                                  \
    X(void, rope, const struct rope_args *args, int64_t first, int64_t end)                                            \
    X(void, cross_entropy_forward, const struct cross_entropy_args *args, int64_t first, int64_t end)                  \
    X(void, cross_entropy_backward, const struct cross_entropy_args *args, int64_t first, int64_t end)                 \
    X(void, cross_entropy_backward_tangent, const struct cross_entropy_args *args, int64_t first, int64_t end)         \
    X(void, compare, const struct compare_args *args, int64_t first, int64_t end)                                      \
    /* columns [column, column + count) of row t; sums are added to */                                                 \
    X(void, xielu_forward, const struct xielu_run *run, int64_t t, int64_t column, int64_t count)                      \
    X(void, xielu_backward, const struct xielu_run *run, int64_t t, int64_t column, int64_t count,                     \
      struct xielu_sums *sums)                                                                                         \
    X(void, xielu_tangent, const struct xielu_run *run, int64_t t, int64_t column, int64_t count)                      \
    X(void, xielu_backward_tangent, const struct xielu_run *run, int64_t t, int64_t column, int64_t count,             \
      struct xielu_sums *sums)                                                                                         \
    X(void, activation_forward, const struct activation_args *args, int64_t t, int64_t column, int64_t count)          \
    X(void, activation_backward, const struct activation_args *args, int64_t t, int64_t column, int64_t count)         \
    X(void, activation_tangent, const struct activation_args *args, int64_t t, int64_t column, int64_t count)          \
    X(void, activation_backward_tangent, const struct activation_args *args, int64_t t, int64_t column, int64_t count) \
    /* One more block of keys for rows of queries (online softmax): scores become exp(score - largest), 0 where */     \
    /* unseen; `largest` and `sums` [rows] are updated, and rows of out [rows, head_dim] scaled accordingly. */        \
    X(void, softmax_block, const struct score_block *block, float *largest, float *sums, float *out,                   \
      int64_t out_stride, int64_t head_dim)                                                                            \
    /* scores become p = exp(score - log_sum), slopes (same layout, holding dout vᵀ) become scale p (slope - d). */  \
    X(void, softmax_gradient, const struct score_block *block, float *slopes, const float *log_sum, const float *d,    \
      float scale)                                                                                                     \
    /* scores become p, scores_t (same layout) become p scores_t, whose sums by row are added to log_sum_t. */         \
    X(void, softmax_tangent, const struct score_block *block, float *scores_t, const float *log_sum, float *log_sum_t) \
    X(void, softmax_gradient_tangent, const struct softmax_tangents *tangents)                                         \
    /* columns [column, column + count): forward rows [first, end), backward all */                                    \
    X(void, convolution_forward, const struct convolution_args *args, int64_t column, int64_t count, int64_t first,    \
      int64_t end)                                                                                                     \
    X(void, convolution_backward, const struct convolution_args *args, int64_t column, int64_t count)                  \
    /* forward: all rows of the sequence; backward: the chunk that begins at `first` (the later ones are done). */     \
    /* dbc and dbc_t [chunk, 2 N] are added to; the first strip of a head overwrites dstep, the others add to it. */   \
    X(void, scan_forward, const struct scan_strip *strip)                                                              \
    X(void, scan_tangent, const struct scan_strip *strip)                                                              \
    X(void, scan_backward, const struct scan_strip *strip, float *dbc, bool first_of_head)                             \
    X(void, scan_backward_tangent, const struct scan_strip *strip, float *dbc, float *dbc_t, bool first_of_head)       \
    /* rows [index * GPTQ_ROW_TILE, …); upper: U[i, j] at j * GPTQ_BLOCK + i */                                      \
    X(void, gptq_tile, const struct gptq_block_args *block, const float *upper, int64_t index)

struct kernels {
    const char *name;
    int64_t lanes; /* floats of a vector */
    bool scalable; /* vectors of plain loops are as wide as the processor's (level_bits) */
#define X(type, kernel, ...) type (*kernel)(__VA_ARGS__);
    CPU_KERNELS(X)
#undef X
};

#define X(level) extern const struct kernels kernels_##level; /* kernels_v4, kernels_neon */
KERNEL_LEVELS(X)
#undef X

#endif
