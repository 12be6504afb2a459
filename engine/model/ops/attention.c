/* attention: causal self-attention over the heads of its q, k and v slots (which may be one fused slot). The slots have
 * no other reader, so the backward pass overwrites their gradients. */
#include "model/cache.h"

static struct head_view heads_of(const struct matrix *by_slot, const struct step *step, int i)
{
    const struct attention_attributes *a = &step->attributes.attention;
    return (struct head_view){by_slot[step->input[i]], a->offset[i], a->head_stride[i]};
}

static struct attention_args attention_arguments(const struct pass *pass, const struct step *step)
{
    const struct attention_attributes *a = &step->attributes.attention;
    return (struct attention_args){
        .batch = pass->batch,
        .heads = a->heads,
        .kv_heads = a->kv_heads,
        .head_dim = a->head_dim,
        .window = a->window,
        .scale = 1 / __builtin_sqrt((double)a->head_dim),
        .q = heads_of(pass->values, step, 0),
        .k = heads_of(pass->values, step, 1),
        .v = heads_of(pass->values, step, 2),
        .out = {pass->values[step->output], 0, a->head_dim},
        .log_sum = step->saved == NO_SLOT ? (struct matrix){0} : pass->values[step->saved],
    };
}

/* Keys, then values, of every token of a path. */
static int64_t attention_cached(const struct step *step)
{
    return 2 * step->attributes.attention.kv_heads * step->attributes.attention.head_dim;
}

static void keep_heads(const struct pass *pass, const struct attention_args *args, struct head_view from,
                       struct head_view to, struct branch_stretch stretch)
{
    for (int64_t head = 0; head < args->kv_heads; head++) {
        const struct matrix source = matrix_columns(from.matrix, from.offset + head * from.head_stride, args->head_dim);
        const struct matrix target = matrix_columns(to.matrix, to.offset + head * to.head_stride, args->head_dim);
        pass->backend->ops->add(pass->backend, matrix_rows(target, stretch.first, stretch.count),
                                matrix_rows(source, stretch.row, stretch.count), 1, 0);
    }
}

/* Writes the path to the deepest fork to the cache: the part that the cache lacks are segments of this batch. */
static void keep_path(const struct pass *pass, const struct attention_args *args)
{
    const struct branches *branches = pass->batch->branches;
    struct branch_stretch stretch;
    if (branches->forks == 0) return;
    int64_t branch = branches->ends[branches->forks - 1], end = branches->lengths[branches->forks - 1];
    while (branch_climb(pass->batch, &branch, &end, &stretch) && !stretch.kept) {
        keep_heads(pass, args, args->k, args->past_k, stretch);
        keep_heads(pass, args, args->v, args->past_v, stretch);
    }
}

static void attention_forward(const struct pass *pass, const struct step *step)
{
    struct attention_args args = attention_arguments(pass, step);
    if (pass->batch->branches == NULL) {
        pass->backend->ops->attention_forward(pass->backend, &args);
        return;
    }
    const struct matrix past = cache_tokens(pass->cache, step);
    args.past_k = (struct head_view){past, 0, args.head_dim};
    args.past_v = (struct head_view){past, args.kv_heads * args.head_dim, args.head_dim};
    pass->backend->ops->attention_forward(pass->backend, &args);
    keep_path(pass, &args);
}

static void gradients_set(struct attention_args *args, const struct pass *pass, const struct step *step)
{
    args->dout = (struct head_view){pass->gradients[step->output], 0, args->head_dim};
    args->dq = heads_of(pass->gradients, step, 0);
    args->dk = heads_of(pass->gradients, step, 1);
    args->dv = heads_of(pass->gradients, step, 2);
    for (int i = 0; i < STEP_INPUTS; i++) pass->written[step->input[i]] = true;
}

static void attention_backward(const struct pass *pass, const struct step *step)
{
    struct attention_args args = attention_arguments(pass, step);
    gradients_set(&args, pass, step);
    pass->backend->ops->attention_backward(pass->backend, &args);
}

static struct attention_args tangent_arguments(const struct pass *pass, const struct step *step)
{
    struct attention_args args = attention_arguments(pass, step);
    args.q_t = heads_of(pass->value_tangents, step, 0);
    args.k_t = heads_of(pass->value_tangents, step, 1);
    args.v_t = heads_of(pass->value_tangents, step, 2);
    args.out_t = (struct head_view){pass->value_tangents[step->output], 0, args.head_dim};
    args.log_sum_t = pass->value_tangents[step->saved];
    return args;
}

static void attention_tangent(const struct pass *pass, const struct step *step)
{
    const struct attention_args args = tangent_arguments(pass, step);
    pass->backend->ops->attention_tangent(pass->backend, &args);
}

static void attention_backward_tangent(const struct pass *pass, const struct step *step)
{
    struct attention_args args = tangent_arguments(pass, step);
    gradients_set(&args, pass, step);
    args.dout_t = (struct head_view){pass->gradient_tangents[step->output], 0, args.head_dim};
    args.dq_t = heads_of(pass->gradient_tangents, step, 0);
    args.dk_t = heads_of(pass->gradient_tangents, step, 1);
    args.dv_t = heads_of(pass->gradient_tangents, step, 2);
    pass->backend->ops->attention_backward_tangent(pass->backend, &args);
}

const struct op op_attention = {
    .name = "attention",
    .forward = attention_forward,
    .backward = attention_backward,
    .tangent = attention_tangent,
    .backward_tangent = attention_backward_tangent,
    .across_tokens = true,
    .cached_token_columns = attention_cached,
};
