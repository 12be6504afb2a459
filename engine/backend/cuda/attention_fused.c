/* attention_fused.c: attention on a device that was opened for products in bf16, by kernels that keep scores and
 * weights to themselves (kernels/attention_fused.h). The products of attention_products.c write and read every score
 * several times, which took most of attention's time. Tangents, and heads that do not suit the kernels, stay there. */
#include "backend/cuda/cuda.h"
#include "base/integer.h"

enum { VECTOR = 8, SMALL_DIM = 64 }; /* numbers of 16 bytes; columns up to which the smaller kernels serve */

void cuda_attention_narrow(struct cuda *cuda, struct head_view *const *views, const int64_t *heads, int count,
                           int64_t tokens, int64_t head_dim)
{
    const int64_t pitch = cuda_narrow_pitch(head_dim);
    int64_t numbers = 0;
    for (int i = 0; i < count; i++) numbers += tokens * pitch * heads[i];
    uint16_t *at = numbers > 0 ? cuda_narrow_scratch(cuda, (size_t)numbers * sizeof *at) : NULL;
    for (int i = 0; i < count && at != NULL; i++) {
        struct head_view view = *views[i];
        view.matrix.rows = tokens;
        cuda_narrow(cuda, view, heads[i], head_dim, at);
        *views[i] =
            (struct head_view){.matrix = matrix_of(at, tokens, heads[i] * pitch, sizeof *at), .head_stride = pitch};
        at += tokens * pitch * heads[i];
    }
}

/* The kernels' arguments, with all that they read on the device; delta comes after the first rows. */
static struct attention_fused_args arguments_of(struct cuda *cuda, const struct attention_args *args, bool backward)
{
    const struct batch *batch = args->batch;
    const size_t starts = (size_t)(batch->sequences + 1) * sizeof *batch->starts;
    struct attention_fused_args call = {.q = args->q,
                                        .k = args->k,
                                        .v = args->v,
                                        .dout = args->dout,
                                        .out = args->out,
                                        .dout_exact = args->dout,
                                        .dq = args->dq,
                                        .dk = args->dk,
                                        .dv = args->dv,
                                        .log_sum = args->log_sum,
                                        .tiles = (batch->longest + ATTENTION_FUSED_ROWS - 1) / ATTENTION_FUSED_ROWS,
                                        .tokens = batch->tokens,
                                        .heads = args->heads,
                                        .kv_heads = args->kv_heads,
                                        .head_dim = args->head_dim,
                                        .window = args->window,
                                        .scale = args->scale};
    struct head_view *const views[] = {&call.q, &call.k, &call.v, &call.dout};
    const int64_t heads[] = {args->heads, args->kv_heads, args->kv_heads, args->heads};
    cuda_announce(cuda, starts);
    call.starts = cuda_staged(cuda, batch->starts, starts);
    if (backward) call.delta = cuda_scratch(cuda, (size_t)(batch->tokens * args->heads) * sizeof *call.delta);
    cuda_attention_narrow(cuda, views, heads, backward ? 4 : 3, batch->tokens, args->head_dim);
    return call;
}

bool cuda_attention_fused(struct cuda *cuda, const struct attention_args *args, bool backward)
{
    if (!cuda->device->narrow || args->head_dim % VECTOR != 0 || args->head_dim > ATTENTION_FUSED_DIM ||
        args->scale <= 0)
        return false;
    if (args->batch->tokens == 0) return true;
    const bool small = args->head_dim <= SMALL_DIM;
    const struct attention_fused_args call = arguments_of(cuda, args, backward);
    const int64_t tiles = call.tiles * args->batch->sequences, rows = KERNEL_THREADS / ATTENTION_LANES;
    if (!backward) {
        cuda_launch(cuda, small ? KERNEL_attention_fused_64 : KERNEL_attention_fused_128, tiles * call.heads, &call);
        return true;
    }
    cuda_launch(cuda, KERNEL_attention_delta, (call.tokens * call.heads + rows - 1) / rows, &call);
    cuda_launch(cuda, small ? KERNEL_attention_keys_64 : KERNEL_attention_keys_128, tiles * call.kv_heads, &call);
    cuda_launch(cuda, small ? KERNEL_attention_queries_64 : KERNEL_attention_queries_128, tiles * call.heads, &call);
    return true;
}
