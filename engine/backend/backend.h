/* backend.h: the primitives on which every algorithm is written, once for all devices.
 *
 * A backend is a table of functions and its own state. The plain loops of reference/ are the definition: the same
 * source is compiled for float and for double; the double table serves the finite-difference tests and whole models to
 * 1e-9. cpu/ computes the same with OpenBLAS and vectorised kernels, cuda/ on a device. No slot is NULL: all tables are
 * made from one list, BACKEND_SLOTS.
 *
 * Rules for all: matrices are row-major with a row stride in elements; a matrix lies in memory of the backend that made
 * it (host memory when `host`); work runs in order, late errors surface in `sync`; kernels allocate nothing (scratch is
 * sized by `prepare`); outputs alias inputs only where a line says so; NaN in gives NaN out; the result does not depend
 * on the number of threads.
 * One call at a time, with one exception: tasks of a loop of the backend's team may concurrently call slots that need
 * no scratch (all but norm_backward, sum_rows, attention and scan); such a nested call runs on its own thread alone.
 * An output named d… takes `accumulate`: false overwrites (the old content is not read), true adds. Gradients of
 * parameters always add. Sums of losses and dots are accumulated in double. */
#ifndef BACKEND_BACKEND_H
#define BACKEND_BACKEND_H

#include "backend/batch.h"
#include "backend/codes.h"
#include "backend/identity.h"
#include "backend/lane.h"
#include "backend/matrix.h"
#include "backend/rounding.h"
#include "base/error.h"
#include "base/monitor.h"
#include "base/plan.h"
#include "base/team.h"
#include "tensor/dtype.h"

#include <stdint.h>

/* Heads inside the columns of an activation: head h of a row is columns [offset + h * head_stride, … + head_dim). */
struct head_view {
    struct matrix matrix; /* [T, …] */
    int64_t offset, head_stride;
};

/* c = alpha op(a) op(b) + beta c; op transposes if asked. beta == 0 never reads c. c aliases neither a nor b. */
struct gemm_args {
    struct matrix a, b, c;
    bool transpose_a, transpose_b;
    double alpha, beta;
    /* compute in single precision, even if the backend rounds the factors of a model's own products */
    bool exact;
};

enum norm_kind { NORM_RMS, NORM_LAYER };

/* y = (x - mean) / sqrt(var + epsilon) * weight + bias (NORM_LAYER, biased variance), x / sqrt(mean(x^2) + epsilon) *
 * weight (NORM_RMS). Each row is `groups` segments of columns / groups, each normalised on its own; weight and bias are
 * [1, columns] or [1, columns / groups] (shared by the groups). bias may be absent. y may alias x in the forward
 * pass. */
struct norm_args {
    enum norm_kind kind;
    double epsilon;
    int64_t groups;
    struct matrix x, weight, bias, y;     /* [T, C] */
    struct matrix dy, dx, dweight, dbias; /* backward; dx may alias dy; dweight, dbias absent: not computed */
    bool accumulate;                      /* dx (and dx_t) */
    bool to_product;                      /* forward: a product of y follows directly; only a hint */
    /* Tangents. norm_tangent: x_t, weight_t, bias_t (absent: zero) give y_t. norm_backward_tangent: dy and dy_t give dx
     * and dx_t, and add to dweight_t, dbias_t (absent: not wanted; dweight, dbias are not computed). */
    struct matrix x_t, weight_t, bias_t, y_t, dy_t, dx_t, dweight_t, dbias_t;
};

/* Rotates pairs (j, j + rotary / 2) of the first `rotary` columns of each head by the angle of the token's position, in
 * place: cosine and sine are [positions, rotary / 2]. `inverse` rotates back: the backward pass on a gradient. */
struct rope_args {
    struct head_view x;
    int64_t heads, rotary;
    struct matrix cosine, sine;
    const struct batch *batch;
    bool inverse;
};

/* Causal attention of each sequence of the batch with itself: out = softmax(scale q kᵀ + mask) v; query head h reads
 * key/value head h / (heads / kv_heads). window > 0: a query sees the last `window` keys including itself. log_sum is
 * the log of the softmax's denominator, [T, heads], kept for the backward pass, which also reads out and overwrites dq,
 * dk, dv. log_sum may be absent in a forward pass without a backward pass. With batch->branches a segment's queries
 * also see the text before it: keys and values of its ancestors in the batch, and those of earlier batches in rows of
 * past_k and past_v by position (absent when no segment continues a fork). */
struct attention_args {
    const struct batch *batch;
    int64_t heads, kv_heads, head_dim, window;
    double scale;
    struct head_view q, k, v, out;
    struct head_view past_k, past_v;
    struct matrix log_sum;
    struct head_view dout, dq, dk, dv; /* backward */
    /* Tangents. attention_tangent: q_t, k_t, v_t (with out and log_sum of the forward pass) give out_t and log_sum_t,
     * [T, heads]. attention_backward_tangent: also dout, dout_t, out_t and log_sum_t give dq, dk, dv and dq_t, dk_t,
     * dv_t, overwritten. */
    struct head_view q_t, k_t, v_t, out_t, dout_t, dq_t, dk_t, dv_t;
    struct matrix log_sum_t;
};

/* y = f(gate) when `up` is absent, else f(gate) * up. gelu is the erf form, gelu_tanh the tanh one. y may alias gate or
 * up forward. */
enum activation_kind { ACTIVATION_SILU, ACTIVATION_GELU, ACTIVATION_GELU_TANH, ACTIVATION_RELU, ACTIVATION_KINDS };
struct activation_args {
    enum activation_kind kind;
    struct matrix gate, up, y;
    struct matrix dy, dgate, dup; /* backward */
    bool accumulate_gate, accumulate_up;
    bool to_product; /* forward: a product of y follows directly; only a hint */
    /* Tangents. activation_tangent: gate_t, up_t give y_t. activation_backward_tangent: dy, dy_t give dgate, dup and
     * dgate_t, dup_t; the accumulate flags hold for both. */
    struct matrix gate_t, up_t, y_t, dy_t, dgate_t, dup_t;
};

/* Causal convolution of each column, within each sequence, with zeros before the sequence's start:
 *
 *   y[t, c] = bias[c] + sum_{j < K} weight[c, j] x[t - K + 1 + j, c]
 *
 * accumulate adds to y. The backward pass computes those of dx (from dy and weight), dweight and dbias (from dy and x)
 * that are present. The convolution is linear in x and in (weight, bias), so tangents use the same two passes. */
enum { CONVOLUTION_TAPS = 16 }; /* largest K */
struct convolution_args {
    const struct batch *batch;
    struct matrix x, weight, bias, y; /* [T, C], [C, K], [1, C] or absent, [T, C] */
    struct matrix before;             /* forward: [B, (K - 1) C], the rows of x before each sequence; absent: zeros */
    struct matrix dy, dx, dweight, dbias; /* backward */
    bool accumulate;                      /* y; dx */
};

/* Selective state space (Gu and Dao, arXiv 2312.00752, eq. 2 and alg. 2; with heads: Dao and Gu, arXiv 2405.21060, sec.
 * 7), each sequence from a state of zero. Channel c belongs to head h = c / (C / H), which shares B and C with its
 * group h / (H / G); n < N:
 *
 *   delta[t, h] = clamp(softplus(step[t, h] + step_bias[h]), step_least, step_most)
 *   s[t, c, n]  = exp(delta[t, h] A[h, n]) s[t - 1, c, n] + delta[t, h] x[t, c] B[t, n],   A = -exp(a_log)
 *   y[t, c]     = sum_n s[t, c, n] C[t, n] + skip[h] x[t, c]
 *
 * a_log is [H, N], or [1, H] when all states of a head decay alike. bc is [T, 2 G N]: the B of all groups, then their
 * C. Only the states before every SCAN_CHUNK-th token of a sequence are kept for the backward pass, which recomputes
 * the others: `kept` [T, scan_kept_columns], without gaps between its rows; it may be absent in a forward pass without
 * a backward pass. Backward passes overwrite dx, dstep, dbc, and use dkept as scratch. */
enum { SCAN_CHUNK = 64, SCAN_STATES = 256 }; /* largest N */
struct scan_args {
    const struct batch *batch;
    int64_t heads, groups, states; /* H, G, N */
    double step_least, step_most;
    struct matrix x, step, bc;            /* [T, C], [T, H], [T, 2 G N] */
    struct matrix a_log, skip, step_bias; /* skip [1, H]; step_bias [1, H] or absent */
    struct matrix y, kept;
    /* scan_forward: [B, N C], states before (absent: zeros) and after each sequence (absent: not stored) */
    struct matrix initial, final;
    struct matrix dy, dx, dstep, dbc, dkept;
    struct matrix da_log, dskip, dstep_bias; /* added to; absent: not computed */
    /* Tangents. scan_tangent: x_t, step_t, bc_t and those of the parameters (absent: zero) give y_t and kept_t, with
     * kept of the forward pass. scan_backward_tangent: dy, dy_t give dx, dstep, dbc and dx_t, dstep_t, dbc_t,
     * overwritten, and add to da_log_t, dskip_t, dstep_bias_t (absent: not wanted; da_log, dskip, dstep_bias are not
     * computed). */
    struct matrix x_t, step_t, bc_t, a_log_t, skip_t, step_bias_t, y_t, kept_t;
    struct matrix dy_t, dx_t, dstep_t, dbc_t, dkept_t, da_log_t, dskip_t, dstep_bias_t;
};

static inline int64_t scan_kept_columns(int64_t channels, int64_t states)
{
    return (channels * states + SCAN_CHUNK - 1) / SCAN_CHUNK;
}

/* xIELU (Huang and Schlag, arXiv 2411.13010), [T, C], with two learned numbers, stored before their softplus:
 *   p = softplus(alpha_p),  n = beta + softplus(alpha_n)
 *   y = p x^2 + beta x                                for x > 0
 *   y = n (expm1(min(x, epsilon)) - x) + beta x       otherwise
 * alpha_p, alpha_n, beta and epsilon are [1, 1]; the last two are constants. Sums for dalpha_p and dalpha_n are
 * accumulated in double. */
struct xielu_args {
    struct matrix x, alpha_p, alpha_n, beta, epsilon, y;
    struct matrix dy, dx, dalpha_p, dalpha_n; /* backward; dalpha is added to; absent: not computed */
    bool accumulate;                          /* dx (and dx_t) */
    /* Tangents. xielu_tangent: x_t, alpha_p_t, alpha_n_t (absent: zero) give y_t. xielu_backward_tangent: dy, dy_t give
     * dx and dx_t, and add to dalpha_p_t, dalpha_n_t (absent: not wanted; dalpha_p, dalpha_n are not computed). */
    struct matrix x_t, alpha_p_t, alpha_n_t, y_t, dy_t, dx_t, dalpha_p_t, dalpha_n_t;
};

/* Chooses K experts for each token, and their weights: the K largest logits [T, E] (the first of equals), weighted by
 * the softmax over all experts, or over the chosen ones (normalise). `routes` [T, routes_columns(E, K)] is written by
 * the forward pass and read by the others (routes.h has its layout); no gap between its rows. Gradients go through the
 * weights, not through the choice. */
struct route_args {
    int64_t per_token; /* K */
    bool normalise;
    struct matrix logits, weights, routes; /* weights [T, K] */
    struct matrix dweights, dlogits;       /* backward */
    bool accumulate;                       /* dlogits (and dlogits_t) */
    /* Tangents. route_tangent: logits_t gives weights_t. route_backward_tangent: dweights, dweights_t give dlogits and
     * dlogits_t. */
    struct matrix logits_t, weights_t, dweights_t, dlogits_t;
};

/* Rows of tokens [T, C] and the same sorted by expert [T K, C]; visit (t, j) has the weight weights[t][j], or 1 without
 * weights.
 *   experts_spread   sorted[row of (t, j)] = weight token[t]
 *   experts_collect  token[t] = sum_j weight sorted[row of (t, j)]
 *   experts_dot      dot[t][j] = token[t] · sorted[row of (t, j)]
 * `accumulate` adds to the output. */
struct experts_args {
    int64_t per_token;
    struct matrix routes, weights, token, sorted, dot;
    bool accumulate;
};

/* Cross-entropy of logits [T, V] against targets[T]: losses[t] = log_sum[t] - logits[t][target]; both 0 for TARGET_NONE
 * (such a row is not read). Host arrays. */
struct cross_entropy_args {
    struct matrix logits;
    const uint32_t *targets;
    double *losses, *log_sum;
    double weight; /* backward: logits become weight * (softmax - onehot), rows of TARGET_NONE zero; reads log_sum */
    /* cross_entropy_backward_tangent: as backward, and logits_t (the tangent of the logits) becomes the tangent of that
     * gradient: weight * softmax * (logits_t - sum softmax logits_t). */
    struct matrix logits_t;
};

/* Compares the logits p and q in one pass over both. For each row with a target: losses[t] and q_log_sum[t] of q as in
 * cross_entropy_forward, kl[t] = KL(softmax(p) || softmax(q)) in nats, agree[t] = 1 when the largest entries (first of
 * equals) have the same index. All are 0 for TARGET_NONE. p_log_sum comes from cross_entropy_forward. Host arrays. */
struct compare_args {
    struct matrix p, q; /* [T, V] */
    const uint32_t *targets;
    const double *p_log_sum;
    double *q_log_sum, *losses, *kl;
    uint8_t *agree;
};

/* One AdamW step (Loshchilov and Hutter, arXiv 1711.05101) on `count` elements:
 *
 *   g  = gradient * gradient_scale
 *   m  = b1 m + (1 - b1) g
 *   v  = b2 v + (1 - b2) g^2
 *   p -= rate * (m / correction1 / (sqrt(v / correction2) + epsilon) + decay p) */
struct adamw_args {
    void *parameter, *moment1, *moment2;
    const void *gradient;
    int64_t count;
    double rate, beta1, beta2, epsilon, weight_decay, correction1, correction2, gradient_scale;
};

/* The primitives: X(return type, name, parameters after the backend). The tables of all backends and the prototypes of
 * their functions are made from this list, so that a missing entry or function does not build. */
#define BACKEND_SLOTS(X)                                                                                              \
    /* Copy between a matrix and dense host memory of F32 or F64; upload also widens BF16 and F16. */                 \
    X(void, upload, struct matrix to, const void *from, enum dtype dtype)                                             \
    X(void, download, struct matrix from, void *to, enum dtype dtype)                                                 \
    /* Copy bytes between memory of the backend and the host's. */                                                    \
    X(void, write_bytes, void *to, const void *from, size_t bytes)                                                    \
    X(void, read_bytes, const void *from, void *to, size_t bytes)                                                     \
                                                                                                                      \
    X(void, fill, struct matrix to, double value)                                                                     \
    /* to = alpha from + beta to; beta == 0 never reads `to`. */                                                      \
    X(void, add, struct matrix to, struct matrix from, double alpha, double beta)                                     \
    /* to = a + b; `to` may be a. */                                                                                  \
    X(void, sum, struct matrix to, struct matrix a, struct matrix b)                                                  \
    /* to = to (|by| + offset), elementwise. */                                                                       \
    X(void, scale_by_magnitude, struct matrix to, struct matrix by, double offset)                                    \
    /* to = min(max(from, -bound), bound); `to` may be `from`. */                                                     \
    X(void, clip, struct matrix to, struct matrix from, double bound)                                                 \
    /* to = from where |by| <= bound, else 0; `accumulate` adds. */                                                   \
    X(void, clip_pass, struct matrix to, struct matrix from, struct matrix by, double bound, bool accumulate)         \
    X(double, dot, struct matrix a, struct matrix b)                                                                  \
    X(bool, finite, struct matrix a) /* no NaN, no infinity */                                                        \
                                                                                                                      \
    X(void, gemm, const struct gemm_args *args)                                                                       \
    /* Lower triangle of c [C, C] = alpha xᵀx + beta c, x [T, C]. The entries above the diagonal are not used, */   \
    /* and are undefined afterwards. */                                                                               \
    X(void, syrk, struct matrix c, struct matrix x, double alpha, double beta)                                        \
    /* h [C, C], lower triangle: becomes the upper factor U with h⁻¹ = UᵀU (strictly lower part 0). */           \
    /* False when h is not positive definite; h is then destroyed. */                                                 \
    X(bool, inverse_cholesky, struct matrix h)                                                                        \
    X(void, add_row, struct matrix to, struct matrix row)       /* every row += row [1, C] */                         \
    X(void, sum_rows, struct matrix to_row, struct matrix from) /* to_row += sum of rows */                           \
                                                                                                                      \
    X(void, norm_forward, const struct norm_args *args)                                                               \
    X(void, norm_backward, const struct norm_args *args)                                                              \
    X(void, rope, const struct rope_args *args)                                                                       \
    X(void, attention_forward, const struct attention_args *args)                                                     \
    X(void, attention_backward, const struct attention_args *args)                                                    \
    X(void, activation_forward, const struct activation_args *args)                                                   \
    X(void, activation_backward, const struct activation_args *args)                                                  \
    X(void, xielu_forward, const struct xielu_args *args)                                                             \
    X(void, xielu_backward, const struct xielu_args *args)                                                            \
    X(void, route_forward, const struct route_args *args)                                                             \
    X(void, route_backward, const struct route_args *args)                                                            \
    X(void, route_tangent, const struct route_args *args)                                                             \
    X(void, route_backward_tangent, const struct route_args *args)                                                    \
    X(void, experts_spread, const struct experts_args *args)                                                          \
    X(void, experts_collect, const struct experts_args *args)                                                         \
    X(void, experts_dot, const struct experts_args *args)                                                             \
    X(void, convolution_forward, const struct convolution_args *args)                                                 \
    X(void, convolution_backward, const struct convolution_args *args)                                                \
    X(void, scan_forward, const struct scan_args *args)                                                               \
    X(void, scan_backward, const struct scan_args *args)                                                              \
    /* to[t] = table[ids[t]]; table[ids[t]] += from[t] in order of t. */                                              \
    X(void, gather, struct matrix to, struct matrix table, const uint32_t *ids)                                       \
    X(void, scatter_add, struct matrix table, struct matrix from, const uint32_t *ids)                                \
    X(void, cross_entropy_forward, const struct cross_entropy_args *args)                                             \
    X(void, cross_entropy_backward, const struct cross_entropy_args *args)                                            \
                                                                                                                      \
    /* Directional derivatives of the passes above (Pearlmutter 1994, "Fast exact multiplication by the Hessian"). */ \
    /* A matrix named …_t is the derivative of its namesake along the direction. Linear ops (gemm, rope, */         \
    /* convolution, gather, sums) need no pass of their own. */                                                       \
    X(void, norm_tangent, const struct norm_args *args)                                                               \
    X(void, norm_backward_tangent, const struct norm_args *args)                                                      \
    X(void, attention_tangent, const struct attention_args *args)                                                     \
    X(void, attention_backward_tangent, const struct attention_args *args)                                            \
    X(void, activation_tangent, const struct activation_args *args)                                                   \
    X(void, activation_backward_tangent, const struct activation_args *args)                                          \
    X(void, xielu_tangent, const struct xielu_args *args)                                                             \
    X(void, xielu_backward_tangent, const struct xielu_args *args)                                                    \
    X(void, scan_tangent, const struct scan_args *args)                                                               \
    X(void, scan_backward_tangent, const struct scan_args *args)                                                      \
    X(void, cross_entropy_backward_tangent, const struct cross_entropy_args *args)                                    \
    X(void, compare, const struct compare_args *args)                                                                 \
    X(void, adamw, const struct adamw_args *args)                                                                     \
                                                                                                                      \
    /* Slots for quantizers (codes.h). */                                                                             \
    X(void, mirror, struct matrix h) /* [C, C]: copies the lower triangle to the upper one */                         \
    /* to[r][c] = from[rows[r]][columns[c]]; host arrays, NULL: r, c. */                                              \
    X(void, select, struct matrix to, struct matrix from, const int32_t *rows, const int32_t *columns)                \
    /* to[r][c] = from[r][c] by[c], by [1, C]; `to` may be `from`. */                                                 \
    X(void, scale_columns, struct matrix to, struct matrix from, struct matrix by)                                    \
    /* Scales, zero points and codes of all groups of weight; codes->coding has layout and rule (coding.h). */        \
    X(void, encode, struct matrix weight, const struct codes *codes)                                                  \
    /* to = the values of rows [first, first + to.rows), or from - values if `from` is present. */                    \
    X(void, decode, const struct codes *codes, int64_t first, struct matrix to, struct matrix from)                   \
    X(void, clip_search, const struct clip_search_args *args)                                                         \
    /* sums[c] += the sum of |x[t][c]|, largest[c] = the larger of itself and all |x[t][c]|; sums [C] in double, */   \
    /* in memory of the backend; largest [1, C]. */                                                                   \
    X(void, add_magnitudes, double *sums, struct matrix largest, struct matrix x)                                     \
    X(void, gptq_block, const struct gptq_block_args *args)                                                           \
    X(void, round_rows, const struct round_rows_args *args)                                                           \
    X(void, hadamard, const struct hadamard_args *args)                                                               \
    /* to[0][r] += the sum of x[r][c] by[c], summed in double; x [R, C], by [1, C]. */                                \
    X(void, add_products, struct matrix to, struct matrix x, struct matrix by)

struct backend;

/* How much goes through the primitives at a time: what fills a device, or stays near a processor's caches. Some sums
 * are cut here, so the sizes may depend on nothing but the kind of backend. */
struct backend_sizes {
    int64_t activation; /* numbers of the hidden states of a chunk of a forward pass */
    int64_t chunk;      /* most tokens of such a chunk */
    int64_t logits;     /* numbers of a slice of logits */
    int64_t micro;      /* tokens of one gradient, which add up to a training step or a Hessian-vector product */
};
extern const struct backend_sizes backend_host_sizes;

struct backend_ops {
    const char *name; /* "reference", "reference64", "cpu", "cuda" */
    size_t element;   /* bytes of an element */
    bool host;        /* matrices are plain host memory of float/double */
    const struct backend_sizes *sizes;
    const struct lane_ops *lanes;        /* NULL where host */
    const struct rounding_ops *rounding; /* NULL where host */

    void (*close)(struct backend *backend); /* releases the state; backend_free calls it */
    void (*describe)(const struct backend *backend, char *text, size_t size);

    /* Bytes that a run may plan with: half of the machine's memory, or the rest of a device's budget, including bytes
     * that other workers hold for now (backend_claim waits for those). */
    int64_t (*memory)(struct backend *backend);
    /* Zeroed, 64-byte aligned. STATUS_NO_MEMORY. */
    enum status (*allocate)(struct backend *backend, int64_t elements, const char *what, void **out,
                            struct error *error);
    void (*release)(struct backend *backend, void *block);
    /* Sizes the scratch for the longest sequence and the widest row to come. May be called again; the scratch only
     * grows. */
    enum status (*prepare)(struct backend *backend, int64_t longest_sequence, int64_t widest_row, struct error *error);
    /* Bytes of host memory that such a call of prepare takes. */
    int64_t (*scratch)(int64_t longest_sequence, int64_t widest_row);
    enum status (*sync)(struct backend *backend, struct error *error);

#define X(type, slot, ...) type (*slot)(struct backend *, __VA_ARGS__);
    BACKEND_SLOTS(X)
#undef X
};

struct backend {
    const struct backend_ops *ops;
    struct team *team; /* lent; NULL: one thread */
    void *state;       /* the backend's own */
    /* bytes of host memory that a run may take, set by the opener; 0: the machine's free memory */
    int64_t host_budget;
    int64_t *device_peak; /* lent; raised to the most bytes held on the device. NULL: not recorded */
    struct error *fault;  /* lent; its status becomes STATUS_DEVICE when the device fails. NULL: not recorded */
};

/* Number of elements that hold so many bytes, for `allocate`. */
static inline int64_t backend_elements(const struct backend *backend, int64_t bytes)
{
    const int64_t element = (int64_t)backend->ops->element;
    return (bytes + element - 1) / element;
}

/* Zeroed rows without gaps between them. The caller owns *out (matrix_release), which is absent on failure:
 * STATUS_NO_MEMORY. */
static inline MUST_CHECK enum status matrix_new(struct backend *backend, int64_t rows, int64_t columns,
                                                const char *what, struct matrix *out, struct error *error)
{
    void *data = NULL;
    const enum status status = backend->ops->allocate(backend, rows * columns, what, &data, error);
    *out = status == STATUS_OK ? matrix_of(data, rows, columns, backend->ops->element) : (struct matrix){0};
    return status;
}

/* Releases an allocated matrix and clears it; an absent one is fine. */
static inline void matrix_release(struct backend *backend, struct matrix *matrix)
{
    if (matrix->data != NULL) backend->ops->release(backend, matrix->data);
    *matrix = (struct matrix){0};
}

/* The plain loops, in float and in double. Owned by the caller (backend_free). STATUS_NO_MEMORY. */
MUST_CHECK enum status backend_reference_new(bool use_double, struct team *team, struct backend **out,
                                             struct error *error);

/* OpenBLAS and vectorised kernels for this processor. This loads OpenBLAS and sets its core type for the processor
 * (OPENBLAS_CORETYPE in the environment takes precedence; DELTAQ_OPENBLAS names another library), so call it before
 * other threads read the environment. Without OpenBLAS it uses our own product kernel (and plain loops for
 * inverse_cholesky), and backend_describe says so. DELTAQ_KERNELS names a lower level (x86-64-v3, x86-64-v2;
 * armv8-neon, armv8-portable). STATUS_NO_MEMORY, STATUS_UNSUPPORTED (a processor below x86-64-v2). */
MUST_CHECK enum status backend_cpu_new(struct team *team, struct backend **out, struct error *error);

/* Device `ordinal` of CUDA, through the plugin build/libdeltaq-cuda.so (DELTAQ_CUDA_PLUGIN names another). products:
 * "f32", "tf32" or "bf16" (factors rounded, sums in float); NULL: the value of DELTAQ_CUDA_PRODUCTS, or f32. The
 * backend may take the device's free memory less a reserve (cuda/open.h), at most DELTAQ_CUDA_MEMORY MiB.
 * DELTAQ_CUBLAS, DELTAQ_CUDA_LIBRARIES: cuBLAS, or directories to look for it. STATUS_UNSUPPORTED saying what is
 * missing, STATUS_NO_MEMORY. */
MUST_CHECK enum status backend_cuda_new(int ordinal, const char *products, struct team *team, struct backend **out,
                                        struct error *error);
/* Number of CUDA devices; `text` describes what was found, or why there are none. */
int backend_cuda_count(char *text, size_t size);
/* Identifies device `ordinal` without making a context on it. False with the reason in `text`. */
bool backend_cuda_identify(int ordinal, struct device_identity *out, char *text, size_t size);
/* The ordinal of the device with this UUID ("GPU-8f3c0b1e-…", or as much of it as one device alone has) or address on
 * the PCI bus ("0000:3b:00.0", "3b:00.0"); -1 with the reason in `text`. */
int backend_cuda_find(const char *word, char *text, size_t size);

/* By name: "cpu" or "cuda:N". products: as for CUDA; for the CPU "f32" (or NULL) or "bf16", which rounds the factors of
 * attention, and of gemm unless it is exact, to bfloat16 (nearest, ties to even); sums and everything else are floats.
 * STATUS_INVALID for another name, STATUS_UNSUPPORTED for products that the CPU does not compute. */
MUST_CHECK enum status backend_new(const char *device, const char *products, struct team *team, struct backend **out,
                                   struct error *error);

/* The slot `memory` of backends whose matrices lie in host memory: host_budget, or half of the machine's memory. */
int64_t backend_host_memory(struct backend *backend);

/* The slot `scratch` of backends that need none. */
int64_t backend_no_scratch(int64_t longest_sequence, int64_t widest_row);

/* The bytes available now, for plans whose choice does not affect the numbers: host_budget or the machine's free
 * memory, the rest of the device's budget, and the free bytes of the disk that holds `directory` (NULL: none). All free
 * memory of a shared device is promised to this backend until backend_claim. */
struct plan_budget backend_budget(struct backend *backend, const char *directory);
/* Where the backend's matrices lie. */
enum plan_space backend_space(const struct backend *backend);

/* A planning backend: floats in host memory, and it computes nothing. STATUS_NO_MEMORY. */
MUST_CHECK enum status backend_paper_new(struct backend **out, struct error *error);
/* A planning backend for a CUDA device of which a run may take `budget` bytes (INT64_MAX: unknown). products: as for
 * backend_cuda_new, since bf16 needs memory for rounded factors. No driver is used. STATUS_NO_MEMORY. */
MUST_CHECK enum status backend_cuda_paper_new(int64_t budget, const char *products, struct backend **out,
                                              struct error *error);
/* Lowers *out to DELTAQ_CUDA_MEMORY if that is set. STATUS_INVALID. */
MUST_CHECK enum status backend_cuda_budget(int64_t *out, struct error *error);
/* Most bytes of its device that a backend can have when no other backend holds any. */
int64_t backend_cuda_may_take(const struct backend *backend);
/* Most bytes that a backend of its device can ever have: all but the reserve, and within DELTAQ_CUDA_MEMORY. */
MUST_CHECK enum status backend_cuda_capacity(const struct backend *backend, int64_t *out, struct error *error);

/* ---- A device that several workers use (cuda/share.c); these do nothing for backends on the host ---- */

/* Call before anything is allocated. From then on the backend plans together with all backends that were given the same
 * `directory`, in any process, and takes at most `limit` bytes of its device (0: no limit). STATUS_IO,
 * STATUS_TOO_MANY. */
MUST_CHECK enum status backend_share(struct backend *backend, int64_t limit, const char *directory,
                                     struct error *error);
/* Call when a plan has been made. `need` bytes of the device and a quarter more stay promised to this backend; the rest
 * of its promise is returned to the others. If `need` bytes are missing only because others were promised them, it
 * waits for the others, with a line in the log, and *again says that a better plan may fit now. If they would be
 * missing anyway, it returns, and the caller refuses its plan. `monitor` may stop the wait. STATUS_NO_MEMORY when it
 * would have to wait while this backend holds memory, because two backends could then wait for each other. */
MUST_CHECK enum status backend_claim(struct backend *backend, int64_t need, const struct monitor *monitor, bool *again,
                                     struct error *error);
/* Describes how the device's part of a budget is computed; "" without a device. */
void backend_device_words(struct backend *backend, char *text, size_t size);
/* STATUS_TOO_LARGE, where the slot `memory` is the bound: "WHAT `needed` bytes, `limit` are available (how that is
 * computed): ADVICE, or more memory". */
MUST_CHECK enum status backend_refuse(struct backend *backend, const char *what, int64_t needed, int64_t limit,
                                      const char *advice, struct error *error);

void backend_free(struct backend *backend); /* NULL is fine */

/* One line: kernels, OpenBLAS version and core type, threads. `text` gets at most `size` bytes. */
void backend_describe(const struct backend *backend, char *text, size_t size);

#endif
