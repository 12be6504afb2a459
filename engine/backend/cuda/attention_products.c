/* attention_products.c: attention as matrix products, computed by cuBLAS in float or, as asked, on the tensor cores.
 * All four passes of reference/attention.c, which has the equations, go in blocks of ATTENTION_ROWS queries by the keys
 * that these may see: products compute scores, kernels/attention_rows.h turns these row by row into weights, products
 * compute outputs and gradients from the weights. All heads of all sequences with a block of the same shape share a
 * call, as many as fit in the scratch: memory grows with T.
 *
 * The numbers depend on shapes alone. Gradients of keys and values are added block after block and, in a block, reader
 * after reader of a key's head. No two products of a call write to one place, so the cut into calls does not matter.
 * On a device that was opened for products in bf16, what products read is rounded once: the views in scratch, the
 * weights by the kernel that computes them. A pass that writes to views which begin at other places than multiples of
 * 16 bytes (heads whose columns are no multiple of 4) is computed in float instead: cuBLAS wants all addresses of a
 * batch of bf16 so aligned. */
#include "backend/cuda/cuda.h"
#include "base/integer.h"

#include <stdlib.h>

enum {
    /* queries of a block: each query is multiplied with T / 2 + 128 of T keys on average, instead of T / 2 */
    ATTENTION_ROWS = 256,
    ATTENTION_PAIRS = 16384, /* most products of one call */
    WIDE = 2048,             /* channels of queries from which on weights should stay in the device's cache … */
    WIDE_BYTES = 40 << 20,   /* … in so much scratch (H100: 50 MB, H200: 60 MB) */
    LANES = ATTENTION_LANES, /* rows of weights begin at multiples of so many floats */
    ADDRESSES = ATTENTION_VIEWS + 2 * ATTENTION_WEIGHTS,
};

enum product_kind {
    PRODUCT_NONE,   /* the end of a list */
    PRODUCT_SCORES, /* weights = queries keysᵀ */
    PRODUCT_MIX,    /* queries = weights keys */
    PRODUCT_SPREAD  /* keys += weightsᵀ queries */
};

/* `queries` is a view of queries and heads, `keys` one of keys and kv_heads. add: adds to an earlier product's
 * output. */
struct product {
    enum product_kind kind;
    enum attention_view queries, keys;
    enum attention_weights weights;
    bool add;
};

struct attention_pass {
    struct product scores[7], mixes[4], spreads[7];
    enum kernel rows; /* the kernel between the scores and the other products */
    bool tangent, backward;
};

static const struct attention_pass forward = {
    .scores = {{PRODUCT_SCORES, VIEW_Q, VIEW_K, WEIGHTS_P, false}},
    .rows = KERNEL_attention_softmax,
    .mixes = {{PRODUCT_MIX, VIEW_OUT, VIEW_V, WEIGHTS_P, false}},
};

static const struct attention_pass tangent = {
    .scores = {{PRODUCT_SCORES, VIEW_Q, VIEW_K, WEIGHTS_P, false},
               {PRODUCT_SCORES, VIEW_Q_T, VIEW_K, WEIGHTS_P_T, false},
               {PRODUCT_SCORES, VIEW_Q, VIEW_K_T, WEIGHTS_P_T, true}},
    .rows = KERNEL_attention_softmax_tangent,
    .mixes = {{PRODUCT_MIX, VIEW_OUT_T, VIEW_V, WEIGHTS_P_T, false},
              {PRODUCT_MIX, VIEW_OUT_T, VIEW_V_T, WEIGHTS_P, true}},
    .tangent = true,
};

static const struct attention_pass backward = {
    .scores = {{PRODUCT_SCORES, VIEW_Q, VIEW_K, WEIGHTS_P, false},
               {PRODUCT_SCORES, VIEW_DOUT, VIEW_V, WEIGHTS_DS, false}},
    .rows = KERNEL_attention_slopes,
    .mixes = {{PRODUCT_MIX, VIEW_DQ, VIEW_K, WEIGHTS_DS, false}},
    .spreads = {{PRODUCT_SPREAD, VIEW_DOUT, VIEW_DV, WEIGHTS_P, true},
                {PRODUCT_SPREAD, VIEW_Q, VIEW_DK, WEIGHTS_DS, true}},
    .backward = true,
};

static const struct attention_pass backward_tangent = {
    .scores = {{PRODUCT_SCORES, VIEW_Q, VIEW_K, WEIGHTS_P, false},
               {PRODUCT_SCORES, VIEW_Q_T, VIEW_K, WEIGHTS_P_T, false},
               {PRODUCT_SCORES, VIEW_Q, VIEW_K_T, WEIGHTS_P_T, true},
               {PRODUCT_SCORES, VIEW_DOUT, VIEW_V, WEIGHTS_DS, false},
               {PRODUCT_SCORES, VIEW_DOUT_T, VIEW_V, WEIGHTS_DS_T, false},
               {PRODUCT_SCORES, VIEW_DOUT, VIEW_V_T, WEIGHTS_DS_T, true}},
    .rows = KERNEL_attention_slopes_tangent,
    .mixes = {{PRODUCT_MIX, VIEW_DQ, VIEW_K, WEIGHTS_DS, false},
              {PRODUCT_MIX, VIEW_DQ_T, VIEW_K, WEIGHTS_DS_T, false},
              {PRODUCT_MIX, VIEW_DQ_T, VIEW_K_T, WEIGHTS_DS, true}},
    .spreads = {{PRODUCT_SPREAD, VIEW_DOUT, VIEW_DV, WEIGHTS_P, true},
                {PRODUCT_SPREAD, VIEW_DOUT, VIEW_DV_T, WEIGHTS_P_T, true},
                {PRODUCT_SPREAD, VIEW_DOUT_T, VIEW_DV_T, WEIGHTS_P, true},
                {PRODUCT_SPREAD, VIEW_Q, VIEW_DK, WEIGHTS_DS, true},
                {PRODUCT_SPREAD, VIEW_Q, VIEW_DK_T, WEIGHTS_DS_T, true},
                {PRODUCT_SPREAD, VIEW_Q_T, VIEW_DK_T, WEIGHTS_DS, true}},
    .tangent = true,
    .backward = true,
};

/* ---- One product ---- */

struct operand {
    float **pointers;
    int64_t stride;
};

/* The operand from pair `first` on; the chosen array of pointers begins there at a multiple of 16 bytes. */
static struct operand operand_of(const struct attention_block_args *block, int which, int64_t first)
{
    const int64_t stride = which < ATTENTION_VIEWS ? block->factors[which].matrix.stride : block->stride;
    return (struct operand){block->pointers + (which * 2 + first % 2) * block->pitch + first + first % 2, stride};
}

static int64_t heads_of(const struct attention_block_args *block, int which)
{
    return which < VIEW_K ? block->heads : block->kv_heads;
}

static bool aligned(struct head_view view)
{
    const int64_t elements = view.matrix.stride | view.offset | view.head_stride;
    return (uintptr_t)view.matrix.data % 16 == 0 && elements % 4 == 0;
}

/* c [m, n] = op(a) op(b), column-major. */
static struct device_gemm_batched call_of(struct operand a, bool transpose_a, struct operand b, bool transpose_b,
                                          struct operand c, int64_t m, int64_t n, int64_t k)
{
    return (struct device_gemm_batched){
        .each = {transpose_a, transpose_b, m, n, k, 1, 0, NULL, NULL, NULL, a.stride, b.stride, c.stride},
        .a = a.pointers,
        .b = b.pointers,
        .c = c.pointers,
    };
}

/* Row-major products for a column-major library: the factors are swapped (products.c). */
static void multiply(struct cuda *cuda, const struct attention_block_args *block, const struct product *product,
                     int64_t first, int64_t count)
{
    const int64_t rows = block->rows, keys = block->keys, columns = block->head_dim;
    const struct operand q = operand_of(block, product->queries, first), k = operand_of(block, product->keys, first);
    const bool narrow = block->rounded[WEIGHTS_P] != NULL, written = product->kind == PRODUCT_SCORES;
    const int weights = ATTENTION_VIEWS + (int)product->weights + (narrow && !written ? ATTENTION_WEIGHTS : 0);
    const struct operand w = operand_of(block, weights, first);
    struct device_gemm_batched call;
    if (cuda->status != STATUS_OK) return;
    if (product->kind == PRODUCT_SCORES)
        call = call_of(k, true, q, false, w, keys, rows, columns);
    else if (product->kind == PRODUCT_MIX)
        call = call_of(k, false, w, false, q, columns, rows, keys);
    else
        call = call_of(q, false, w, true, k, columns, keys, rows);
    call.each.beta = product->add ? 1 : 0;
    call.each.bf16 = narrow;
    call.count = count;
    call.aligned = narrow || (!cuda->device->narrow && aligned(block->views[product->queries]) &&
                              aligned(block->views[product->keys]));
    cuda_product_done(cuda, &call.each, count, cuda->device->gemm_batched(cuda->device, &call));
}

static void multiply_all(struct cuda *cuda, const struct attention_block_args *block, const struct product *products,
                         int64_t first, int64_t count)
{
    for (const struct product *p = products; p->kind != PRODUCT_NONE; p++) multiply(cuda, block, p, first, count);
}

/* Readers of the same keys add to the same places, so their products go one after the other, wherever calls begin. */
static void spread_all(struct cuda *cuda, const struct attention_block_args *block, const struct product *products)
{
    const int64_t round = block->sequences * block->kv_heads;
    for (int64_t at = 0; at < block->pairs;) {
        const int64_t count = smaller(round - (block->first + at) % round, block->pairs - at);
        multiply_all(cuda, block, products, at, count);
        at += count;
    }
}

/* ---- Blocks ---- */

struct span {
    int64_t start, length;
};

/* Order: the longest first. */
static int by_length(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    if (x->length != y->length) return x->length > y->length ? -1 : 1;
    return x->start < y->start ? -1 : x->start > y->start;
}

static int64_t weights_of(const struct attention_pass *pass)
{
    return (pass->tangent ? 2 : 1) * (pass->backward ? 2 : 1);
}

static int64_t stride_of(int64_t keys)
{
    return (keys + LANES - 1) / LANES * LANES;
}

/* Whether the pass's products have factors in bf16. */
static bool is_narrow(const struct cuda *cuda, const struct attention_pass *pass,
                      const struct attention_block_args *block)
{
    bool all = cuda->device->narrow;
    for (const struct product *p = pass->mixes; p->kind != PRODUCT_NONE; p++) all &= aligned(block->views[p->queries]);
    for (const struct product *p = pass->spreads; p->kind != PRODUCT_NONE; p++) all &= aligned(block->views[p->keys]);
    return all;
}

/* Bytes of one pair's weights. */
static int64_t pair_bytes(const struct cuda *cuda, const struct attention_pass *pass,
                          const struct attention_block_args *block, int64_t rows, int64_t keys)
{
    const size_t bytes = sizeof(float) + (is_narrow(cuda, pass, block) ? sizeof(uint16_t) : 0);
    return weights_of(pass) * rows * stride_of(keys) * (int64_t)bytes;
}

/* Bytes of weights of one call. Between the products of few pairs scores stay in the cache: 7B is evaluated 1.3 times
 * as fast with 40 MiB as with 256 on a H200. Narrow models wait for the larger number of launches (160M: 0.93
 * times). */
static int64_t call_bytes(const struct cuda *cuda, const struct attention_block_args *block)
{
    return block->heads * block->head_dim < WIDE ? cuda->attention_bytes : smaller(cuda->attention_bytes, WIDE_BYTES);
}

/* Takes scratch for the largest possible call: pointers, then weights. */
static bool take_scratch(struct cuda *cuda, const struct attention_pass *pass, const struct batch *batch,
                         struct attention_block_args *block, float **weights)
{
    const int64_t all = batch->sequences * block->heads, pairs = smaller(all, ATTENTION_PAIRS);
    const int64_t keys =
        block->window > 0 ? smaller(batch->longest, block->window + ATTENTION_ROWS - 1) : batch->longest;
    const int64_t largest = pair_bytes(cuda, pass, block, smaller(batch->longest, ATTENTION_ROWS), keys);
    const int64_t bytes = smaller(pairs * largest, larger(call_bytes(cuda, block), largest));
    block->pitch = (pairs + LANES) / LANES * LANES;
    const size_t pointers = (size_t)(2 * ADDRESSES * block->pitch) * sizeof(float *);
    char *memory = cuda_scratch(cuda, pointers + (size_t)bytes);
    if (memory == NULL) return false;
    block->pointers = (float **)(void *)memory;
    *weights = (float *)(void *)(memory + pointers);
    return true;
}

/* Matrices of `elements` numbers, one behind the other: floats, then bf16. */
static void place_weights(const struct cuda *cuda, const struct attention_pass *pass,
                          struct attention_block_args *block, float *weights, int64_t elements)
{
    const bool wanted[ATTENTION_WEIGHTS] = {[WEIGHTS_P] = true,
                                            [WEIGHTS_P_T] = pass->tangent,
                                            [WEIGHTS_DS] = pass->backward,
                                            [WEIGHTS_DS_T] = pass->tangent && pass->backward};
    uint16_t *rounded = (uint16_t *)(void *)(weights + weights_of(pass) * elements);
    const bool narrow = is_narrow(cuda, pass, block);
    for (int i = 0, at = 0; i < ATTENTION_WEIGHTS; i++) {
        if (!wanted[i]) continue;
        block->weights[i] = weights + at * elements;
        if (narrow) block->rounded[i] = rounded + at * elements;
        at++;
    }
}

/* Computes the block's queries for all heads of its sequences. */
static void run_block(struct cuda *cuda, const struct attention_pass *pass, struct attention_block_args *block,
                      float *weights)
{
    const int64_t all = block->sequences * block->heads, each = pair_bytes(cuda, pass, block, block->rows, block->keys);
    const int64_t step = smaller(larger(call_bytes(cuda, block) / each, 1), ATTENTION_PAIRS);
    block->stride = stride_of(block->keys);
    for (block->first = 0; block->first < all; block->first += step) {
        block->pairs = smaller(step, all - block->first);
        const int64_t elements = block->pairs * block->rows * block->stride;
        place_weights(cuda, pass, block, weights, elements);
        cuda_launch(cuda, KERNEL_attention_pointers, cuda_blocks(ADDRESSES * block->pairs), block);
        multiply_all(cuda, block, pass->scores, 0, block->pairs);
        cuda_launch(cuda, pass->rows,
                    (block->pairs * block->rows * ATTENTION_LANES + KERNEL_THREADS - 1) / KERNEL_THREADS, block);
        multiply_all(cuda, block, pass->mixes, 0, block->pairs);
        spread_all(cuda, block, pass->spreads);
    }
}

/* Goes through sequences from the longest to the shortest, so that those with equally many queries in a block are
 * neighbours. */
static void run_blocks(struct cuda *cuda, const struct attention_pass *pass, struct attention_block_args *block,
                       const struct span *spans, int64_t sequences, float *weights)
{
    const int64_t *starts = block->starts;
    for (block->query = 0; block->query < spans[0].length; block->query += ATTENTION_ROWS) {
        block->key = block->window > 0 ? larger(block->query - block->window + 1, 0) : 0;
        for (int64_t first = 0, end; first < sequences && spans[first].length > block->query; first = end) {
            block->rows = smaller(spans[first].length - block->query, ATTENTION_ROWS);
            for (end = first + 1; end < sequences; end++)
                if (smaller(spans[end].length - block->query, ATTENTION_ROWS) != block->rows) break;
            block->keys = block->query + block->rows - block->key;
            block->starts = starts + first;
            block->sequences = end - first;
            run_block(cuda, pass, block, weights);
        }
    }
}

/* ---- Passes ---- */

static struct attention_block_args block_of(const struct attention_pass *pass, const struct attention_args *args)
{
    struct attention_block_args block = {
        .views = {[VIEW_Q] = args->q, [VIEW_OUT] = args->out, [VIEW_K] = args->k, [VIEW_V] = args->v},
        .log_sum = args->log_sum,
        .tokens = args->batch->tokens,
        .heads = args->heads,
        .kv_heads = args->kv_heads,
        .head_dim = args->head_dim,
        .window = args->window,
        .scale = args->scale,
    };
    if (pass->tangent) {
        block.views[VIEW_Q_T] = args->q_t, block.views[VIEW_OUT_T] = args->out_t;
        block.views[VIEW_K_T] = args->k_t, block.views[VIEW_V_T] = args->v_t;
        block.log_sum_t = args->log_sum_t;
    }
    if (pass->backward) {
        block.views[VIEW_DOUT] = args->dout, block.views[VIEW_DQ] = args->dq;
        block.views[VIEW_DK] = args->dk, block.views[VIEW_DV] = args->dv;
    }
    if (pass->backward && pass->tangent) {
        block.views[VIEW_DOUT_T] = args->dout_t, block.views[VIEW_DQ_T] = args->dq_t;
        block.views[VIEW_DK_T] = args->dk_t, block.views[VIEW_DV_T] = args->dv_t;
    }
    return block;
}

/* The views that the pass's products read, a bit each. */
static unsigned views_read(const struct attention_pass *pass)
{
    unsigned read = 0;
    for (const struct product *p = pass->scores; p->kind != PRODUCT_NONE; p++) read |= 1U << p->queries | 1U << p->keys;
    for (const struct product *p = pass->mixes; p->kind != PRODUCT_NONE; p++) read |= 1U << p->keys;
    for (const struct product *p = pass->spreads; p->kind != PRODUCT_NONE; p++) read |= 1U << p->queries;
    return read;
}

/* Products work on the views, or read copies of them in bf16. */
static void place_factors(struct cuda *cuda, const struct attention_pass *pass, struct attention_block_args *block)
{
    struct head_view *narrow[ATTENTION_VIEWS];
    int64_t heads[ATTENTION_VIEWS];
    const unsigned read = is_narrow(cuda, pass, block) ? views_read(pass) : 0;
    int count = 0;
    for (int which = 0; which < ATTENTION_VIEWS; which++) {
        block->factors[which] = block->views[which];
        if ((read >> which & 1) == 0) continue;
        narrow[count] = &block->factors[which];
        heads[count++] = heads_of(block, which);
    }
    cuda_attention_narrow(cuda, narrow, heads, count, block->tokens, block->head_dim);
}

/* Sorts the sequences by length in host scratch, and stages their first rows on the device. */
static const struct span *sort_sequences(struct cuda *cuda, const struct batch *batch, const int64_t **starts)
{
    const size_t count = (size_t)batch->sequences, starts_bytes = count * sizeof(int64_t);
    char *memory = cuda_host_scratch(cuda, count * sizeof(struct span) + starts_bytes);
    if (memory == NULL) return NULL;
    struct span *spans = (struct span *)(void *)memory;
    int64_t *first_rows = (int64_t *)(void *)(memory + count * sizeof *spans);
    for (int64_t b = 0; b < batch->sequences; b++)
        spans[b] = (struct span){batch->starts[b], batch->starts[b + 1] - batch->starts[b]};
    qsort(spans, count, sizeof *spans, by_length);
    for (int64_t b = 0; b < batch->sequences; b++) first_rows[b] = spans[b].start;
    cuda_announce(cuda, starts_bytes);
    *starts = cuda_staged(cuda, first_rows, starts_bytes);
    return spans;
}

static void run_pass(struct backend *backend, const struct attention_args *args, const struct attention_pass *pass)
{
    struct cuda *cuda = cuda_enter(backend);
    if (!pass->tangent && cuda_attention_fused(cuda, args, pass->backward)) {
        cuda_leave(cuda);
        return;
    }
    struct attention_block_args block = block_of(pass, args);
    const struct span *spans = NULL;
    float *weights = NULL;
    if (args->batch->sequences > 0 && take_scratch(cuda, pass, args->batch, &block, &weights) &&
        (spans = sort_sequences(cuda, args->batch, &block.starts)) != NULL) {
        place_factors(cuda, pass, &block);
        if (pass->backward)
            cuda_launch(cuda, KERNEL_attention_clear, cuda_blocks(block.tokens * block.kv_heads * block.head_dim),
                        &block);
        run_blocks(cuda, pass, &block, spans, args->batch->sequences, weights);
    }
    cuda_leave(cuda);
}

void cuda_attention_products_forward(struct backend *backend, const struct attention_args *args)
{
    run_pass(backend, args, &forward);
}

void cuda_attention_tangent(struct backend *backend, const struct attention_args *args)
{
    run_pass(backend, args, &tangent);
}

void cuda_attention_backward(struct backend *backend, const struct attention_args *args)
{
    run_pass(backend, args, &backward);
}

void cuda_attention_backward_tangent(struct backend *backend, const struct attention_args *args)
{
    run_pass(backend, args, &backward_tangent);
}
