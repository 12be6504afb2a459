/* args.h: the arguments of each kernel: one struct by value; its pointers are to the device's memory (pointers to host
 * arrays in a struct of backend.h are replaced). */
#ifndef BACKEND_CUDA_KERNELS_ARGS_H
#define BACKEND_CUDA_KERNELS_ARGS_H

#include "backend/backend.h"

enum {
    KERNEL_THREADS = 256,
    ROW_PART = 2048,            /* columns of a row that a block takes at a time, where rows are cut */
    NARROW_FOURS = 4,           /* times four numbers that a thread rounds at a time */
    DOT_TERMS = 4,              /* numbers of a dot product that a thread reads at a time */
    DOT_PARTS = 512,            /* blocks of a dot product: the same on every device, so that the sum is too */
    SPLIT_ROWS = 512,           /* rows that one block of a sum over rows takes */
    SPLIT_COLUMNS = 32,         /* and columns */
    ATTENTION_TILE = 32,        /* queries, keys and columns of a head that a block takes at a time */
    ATTENTION_DIM = 256,        /* the largest head_dim */
    ATTENTION_LANES = 32,       /* threads per row of weights, between products */
    ATTENTION_FUSED_ROWS = 128, /* queries or keys of a block, and … */
    ATTENTION_FUSED_DIM = 128,  /* … the largest head_dim, where scores stay in the block (attention_fused.c) */
    CHOLESKY_BLOCK = 64,        /* columns that one block factors */
    CODES_LANES = 32,           /* threads per group of weights when it is encoded … */
    CODES_GROUPS = KERNEL_THREADS / CODES_LANES, /* … and groups per block of threads */
    ROUTE_LANES = 32,                            /* threads per row of a router's logits … */
    ROUTE_ROWS = KERNEL_THREADS / ROUTE_LANES,   /* … and rows per block of threads */
    ROUTE_TILE = 1024,                           /* visits of experts that one block counts and places */
    HADAMARD_SHARED = 4096,                      /* numbers of a vector that fit in shared memory */
    /* rows of a block of GPTQ that a block of threads takes: its weights and codes fill shared memory */
    GPTQ_KERNEL_ROWS = 64,
};

struct fill_args {
    struct matrix to;
    double value;
};

struct add_args {
    struct matrix to, from; /* add_row: from is the row */
    double alpha, beta;     /* scale_by_magnitude: beta is the offset */
    struct matrix old;      /* add: what beta multiplies, `to` or another */
};

/* Heads of `columns` numbers in bfloat16, `pitch` from one to the next, row after row; `to` and the pitch are multiples
 * of 16 bytes. `lanes` threads, a power of two, work on one head. */
struct narrow_args {
    struct head_view from;
    int64_t rows, heads, columns;
    uint32_t *to; /* pairs of numbers */
    int64_t pitch;
    int lanes;
};

/* The numbers of bfloat16, or of float16 (`half`), at `from`, row after row without gaps. */
struct widen_args {
    struct matrix to;
    const uint16_t *from;
    bool half;
};

/* The same of `count` numbers in a row, a multiple of 8; both begin at multiples of 16 bytes. */
struct narrow_all_args {
    const float *from;
    uint32_t *to;
    int64_t count;
};

/* partials[block] = a share of the sum; dot_end: partials[0] = their sum */
struct dot_args {
    struct matrix a, b; /* b absent: counts the entries of a that are not finite */
    double *partials;   /* [DOT_PARTS] */
};

/* Sums over rows go through partials [splits, columns]: each split takes SPLIT_ROWS of `rows` virtual rows. */
struct sum_rows_args {
    struct matrix from, to; /* to [1, columns] is added to */
    double *partials;
    int64_t rows, columns;
    /* `from` in bfloat16, pairs of numbers, pitch a multiple of 8; NULL: not wanted */
    uint32_t *rounded;
    int64_t pitch;
};

/* add_magnitudes: likewise partials, and the largest |x| of each split. */
struct magnitudes_args {
    struct matrix from, largest;
    double *sums, *partials; /* [columns], [splits, columns] */
    float *peaks;            /* [splits, columns] */
    int64_t rows, columns;
};

/* statistics [rows * groups, 4]: mean, scale; with tangents mean of x_t, and q (reference/norm.c). */
struct norm_kernel_args {
    struct norm_args norm;
    double *statistics, *partials, *bias_partials;
    int64_t rows, columns; /* of the sums that give gradients of parameters: virtual rows, columns of a parameter */
    bool tangent;
    int lanes; /* threads for a segment, a power of two */
    /* norm_forward: y in bfloat16, too, rows `pitch` apart; NULL: not wanted */
    uint16_t *rounded;
    int64_t pitch;
};

/* y in bfloat16, too, as pairs, rows `pitch` apart, a multiple of 8; NULL: not wanted */
struct activation_kernel_args {
    struct activation_args activation;
    uint32_t *rounded;
    int64_t pitch;
};

struct rope_kernel_args {
    struct rope_args rope;
    const int32_t *positions;
};

/* Segment s of `order` ends where the next begins: it lists the rows of `from` that are added to row ids[s] of the
 * table, in this order. */
struct embedding_args {
    struct matrix table, rows;
    const uint32_t *ids, *order;
    const int64_t *starts; /* [segments + 1] */
};

struct convolution_kernel_args {
    struct convolution_args convolution;
    const int64_t *starts;  /* [sequences + 1] */
    const int64_t *numbers; /* [T] the sequence of a row */
    int64_t sequences;
};

struct scan_kernel_args {
    struct scan_args scan;
    const int64_t *starts;
    int64_t sequences;
    double *sums; /* gradients of parameters by sequence: [sequences, 3 parts]; see kernels/scan.h */
};

/* counts [tiles + 1, E]: visits by tile and expert; only in the forward pass. */
struct route_kernel_args {
    struct route_args route;
    int32_t *counts;
    int64_t tiles;
};

struct xielu_kernel_args {
    struct xielu_args xielu;
    double *partials; /* [4, DOT_PARTS] */
    bool tangent;
};

/* to = from within bound; with `by`: to = from where |by| <= bound, else 0. */
struct clip_args {
    struct matrix to, from, by;
    double bound;
    bool accumulate;
};

/* Keys that the queries of a sequence may see: positions [first, first + count) of its text are rows [row, row + count)
 * of the batch or, if kept, of the values that earlier batches left. */
struct attention_span {
    int64_t kept, row, first, count;
};

/* Up to ATTENTION_TILE rows of one sequence. */
struct attention_rows {
    int64_t sequence, row, count, position; /* of the first row */
};

struct attention_kernel_args {
    struct attention_args attention;
    const struct attention_rows *tiles;
    const struct attention_span *spans;
    const int64_t *span_starts; /* [sequences + 1] */
};

/* Attention as products (attention_products.c): the views of heads that it reads and writes, keys and values last, and
 * the matrices between the products: p and scale ds of each query and key, and their tangents. */
enum attention_view {
    VIEW_Q,
    VIEW_OUT,
    VIEW_DOUT,
    VIEW_DQ,
    VIEW_Q_T,
    VIEW_OUT_T,
    VIEW_DOUT_T,
    VIEW_DQ_T,
    VIEW_K,
    VIEW_V,
    VIEW_DK,
    VIEW_DV,
    VIEW_K_T,
    VIEW_V_T,
    VIEW_DK_T,
    VIEW_DV_T,
    ATTENTION_VIEWS
};
enum attention_weights { WEIGHTS_P, WEIGHTS_P_T, WEIGHTS_DS, WEIGHTS_DS_T, ATTENTION_WEIGHTS };

/* Pairs [first, first + pairs) of (sequence, query head), each with `rows` queries and the `keys` that they may see.
 * Pair i belongs to sequence i / kv_heads % sequences and is the (i / kv_heads / sequences)-th reader of the keys of
 * head i % kv_heads: readers of the same keys are a whole round of sequences and kv_heads apart. */
struct attention_block_args {
    struct head_view views[ATTENTION_VIEWS]; /* absent: not used by this pass */
    /* what the products read and write: the views, or copies of what they read in bfloat16 */
    struct head_view factors[ATTENTION_VIEWS];
    struct matrix log_sum, log_sum_t; /* [T, heads]; log_sum may be absent forward */
    int64_t tokens, heads, kv_heads, head_dim, window;
    double scale;
    const int64_t *starts; /* [sequences] first rows */
    int64_t sequences, first, pairs;
    int64_t query, key, rows, keys;    /* positions in the sequence of the first query and key, and their numbers */
    int64_t stride;                    /* of a row of weights */
    float *weights[ATTENTION_WEIGHTS]; /* [pairs, rows, stride]; NULL: not used by this pass */
    /* the same in bfloat16, for the products that follow; NULL: these read `weights` */
    uint16_t *rounded[ATTENTION_WEIGHTS];
    float **pointers; /* see attention_pointers */
    int64_t pitch;    /* pointers from one array to the next, even */
};

/* Attention with factors in bfloat16, fused. `tiles`: blocks of ATTENTION_FUSED_ROWS rows of the longest sequence. */
struct attention_fused_args {
    struct head_view q, k, v, dout; /* in bfloat16; rows and heads begin at multiples of 16 bytes */
    struct head_view out, dout_exact, dq, dk, dv;
    struct matrix log_sum; /* [T, heads]; may be absent forward */
    float *delta;          /* [T, heads] */
    const int64_t *starts; /* [sequences + 1] */
    int64_t tiles, tokens, heads, kv_heads, head_dim, window;
    double scale;
};

/* factor: block `first` of h, [count, count], becomes upper R with h = R Rᵀ, and inverse its inverse (row stride
 * CHOLESKY_BLOCK). */
struct cholesky_args {
    struct matrix h;
    int64_t first, count;
    float *inverse;
    int32_t *failed;
};

/* rows and columns: which entries of `from` are read; scale_columns: multiplies them by `by`. */
struct select_args {
    struct matrix to, from, by;
    const int32_t *rows, *columns;
};

struct encode_args {
    struct matrix weight;
    struct codes codes;
};

struct decode_args {
    struct codes codes;
    int64_t first; /* row of the codes */
    struct matrix to, from;
};

struct clip_row {
    double least, scale, zero;
    float low, high, most, best;
};

/* One group of the columns of some rows, clamped to `part` of their largest magnitudes. */
struct clip_search_kernel_args {
    struct coding coding;
    struct matrix weight, scales, difference, product;
    struct clip_row *rows;
    float part;
};

struct gptq_kernel_args {
    struct gptq_block_args block;
    const int32_t *from;
};

/* A block of threads takes one vector of n numbers after another; it has its own `space` doubles of scratch. */
struct hadamard_kernel_args {
    struct hadamard_args hadamard;
    int64_t size, vectors, space; /* n */
    double norm;                  /* 1 / sqrt(order power) */
    double *scratch;
};

/* Every kernel with the type of its arguments. Kernels of the second list round each operation on its own, so that they
 * give the numbers of the CPU: a compiler may not fuse a product and a sum (plugin/exact.cu). */
#define KERNEL_LIST_PLAIN(X)                              \
    X(fill, fill_args)                                    \
    X(add, add_args)                                      \
    X(scale_by_magnitude, add_args)                       \
    X(add_row, add_args)                                  \
    X(narrow, narrow_args)                                \
    X(widen, widen_args)                                  \
    X(narrow_all, narrow_all_args)                        \
    X(dot, dot_args)                                      \
    X(dot_end, dot_args)                                  \
    X(sum_rows, sum_rows_args)                            \
    X(sum_rows_end, sum_rows_args)                        \
    X(adamw, adamw_args)                                  \
    X(rope, rope_kernel_args)                             \
    X(gather, embedding_args)                             \
    X(scatter_add, embedding_args)                        \
    X(activation_forward, activation_kernel_args)         \
    X(activation_backward, activation_args)               \
    X(activation_tangent, activation_args)                \
    X(activation_backward_tangent, activation_args)       \
    X(xielu_forward, xielu_kernel_args)                   \
    X(xielu_backward, xielu_kernel_args)                  \
    X(xielu_tangent, xielu_kernel_args)                   \
    X(xielu_backward_tangent, xielu_kernel_args)          \
    X(xielu_end, xielu_kernel_args)                       \
    X(clip, clip_args)                                    \
    X(clip_pass, clip_args)                               \
    X(norm_forward, norm_kernel_args)                     \
    X(norm_tangent, norm_kernel_args)                     \
    X(norm_statistics, norm_kernel_args)                  \
    X(norm_parameters, norm_kernel_args)                  \
    X(norm_backward, norm_kernel_args)                    \
    X(norm_backward_tangent, norm_kernel_args)            \
    X(cross_entropy_forward, cross_entropy_args)          \
    X(cross_entropy_backward, cross_entropy_args)         \
    X(cross_entropy_backward_tangent, cross_entropy_args) \
    X(compare, compare_args)                              \
    X(attention_forward, attention_kernel_args)           \
    X(attention_fused_64, attention_fused_args)           \
    X(attention_fused_128, attention_fused_args)          \
    X(attention_delta, attention_fused_args)              \
    X(attention_keys_64, attention_fused_args)            \
    X(attention_keys_128, attention_fused_args)           \
    X(attention_queries_64, attention_fused_args)         \
    X(attention_queries_128, attention_fused_args)        \
    X(attention_pointers, attention_block_args)           \
    X(attention_clear, attention_block_args)              \
    X(attention_softmax, attention_block_args)            \
    X(attention_softmax_tangent, attention_block_args)    \
    X(attention_slopes, attention_block_args)             \
    X(attention_slopes_tangent, attention_block_args)     \
    X(route_choose, route_kernel_args)                    \
    X(route_count, route_kernel_args)                     \
    X(route_starts, route_kernel_args)                    \
    X(route_place, route_kernel_args)                     \
    X(route_backward, route_kernel_args)                  \
    X(route_tangent, route_kernel_args)                   \
    X(route_backward_tangent, route_kernel_args)          \
    X(experts_spread, experts_args)                       \
    X(experts_collect, experts_args)                      \
    X(experts_dot, experts_args)                          \
    X(convolution_forward, convolution_kernel_args)       \
    X(convolution_backward, convolution_kernel_args)      \
    X(convolution_parameters, convolution_kernel_args)    \
    X(scan_forward, scan_kernel_args)                     \
    X(scan_backward, scan_kernel_args)                    \
    X(scan_tangent, scan_kernel_args)                     \
    X(scan_backward_tangent, scan_kernel_args)            \
    X(scan_sums, scan_kernel_args)                        \
    X(cholesky_mirror, cholesky_args)                     \
    X(cholesky_factor, cholesky_args)                     \
    X(cholesky_clear, cholesky_args)

#define KERNEL_LIST_EXACT(X)                    \
    X(select, select_args)                      \
    X(scale_columns, select_args)               \
    X(encode, encode_args)                      \
    X(decode, decode_args)                      \
    X(clip_begin, clip_search_kernel_args)      \
    X(clip_difference, clip_search_kernel_args) \
    X(clip_judge, clip_search_kernel_args)      \
    X(clip_end, clip_search_kernel_args)        \
    X(gptq_block, gptq_kernel_args)             \
    X(magnitudes, magnitudes_args)              \
    X(magnitudes_end, magnitudes_args)          \
    X(round_mark, round_rows_args)              \
    X(round_rows, round_rows_args)              \
    X(hadamard, hadamard_kernel_args)           \
    X(add_products, select_args)

#define KERNEL_LIST(X)   \
    KERNEL_LIST_PLAIN(X) \
    KERNEL_LIST_EXACT(X)

enum kernel {
#define X(name, type) KERNEL_##name,
    KERNEL_LIST(X)
#undef X
        KERNEL_COUNT
};

#endif
