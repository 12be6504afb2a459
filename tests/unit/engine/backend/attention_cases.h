/* attention_cases.h: the shapes on which attention and its tangent are tried: one token, short and long sequences, the
 * edges of tiles and blocks, grouped heads, odd widths, windows, and queries, keys and values in one fused matrix. */
#ifndef TESTS_BACKEND_ATTENTION_CASES_H
#define TESTS_BACKEND_ATTENTION_CASES_H

#include "engine/backend/rounding.h"

struct attention_shape {
    int64_t lengths[8];
    int64_t heads, kv_heads, head_dim, window;
    bool fused;
    double scale;
};

static const struct attention_shape attention_shapes[] = {
    {{1}, 1, 1, 4, 0, false, 0.5},
    {{5, 1, 9}, 2, 2, 8, 0, false, 0.35},
    {{63, 64, 65, 130}, 4, 2, 16, 0, false, 0.25},
    {{40, 200}, 3, 3, 32, 0, true, 0.18},
    {{300, 7}, 4, 1, 24, 50, false, 0.2},
    {{260}, 2, 2, 8, 1, false, 0.35},
    {{600, 513}, 2, 1, 64, 0, false, 0.125},
    {{1200}, 1, 1, 16, 520, false, 0.25},
    {{1100}, 1, 1, 40, 0, true, 0.158},
    {{257, 20, 257}, 2, 1, 5, 0, false, 0.45},
    {{30, 270, 270}, 3, 1, 12, 100, false, 0.3},
};

enum { ATTENTION_SHAPES = sizeof attention_shapes / sizeof attention_shapes[0] };

/* Whether backends that round what they multiply do so in heads of this shape: a device computes those that begin at
 * odd addresses in float. */
static inline bool attention_rounds(const struct attention_shape *s)
{
#ifdef TESTS_CUDA_STAND_IN_H
    return s->head_dim % 4 == 0;
#else
    return s->head_dim > 0;
#endif
}

/* The arguments of a shape but for its matrices. Fills the batch, which they point to. */
static inline struct attention_args attention_start(const struct attention_shape *s, struct test_batch *batch)
{
    int64_t sequences = 0;
    while (sequences < 8 && s->lengths[sequences] > 0) sequences++;
    test_batch_fill(batch, s->lengths, sequences, 10);
    return (struct attention_args){.batch = &batch->batch,
                                   .heads = s->heads,
                                   .kv_heads = s->kv_heads,
                                   .head_dim = s->head_dim,
                                   .window = s->window,
                                   .scale = s->scale};
}

/* Rows are an odd number of numbers apart, but where a device would compute in bf16 by products: a multiple of 4, so
 * that it does. */
static inline void attention_inputs(struct world *world, const struct attention_shape *s, int64_t tokens,
                                    struct attention_args *args)
{
    const int64_t d = s->head_dim, gap = d % 8 == 0 && d <= 128 ? 1 : 4;
    if (s->fused) {
        const struct matrix qkv = world_random(world, tokens, s->heads * 3 * d, 4, 1),
                            grads = world_zeros(world, tokens, s->heads * 3 * d, 4);
        args->q = (struct head_view){qkv, 0, 3 * d}, args->dq = (struct head_view){grads, 0, 3 * d};
        args->k = (struct head_view){qkv, d, 3 * d}, args->dk = (struct head_view){grads, d, 3 * d};
        args->v = (struct head_view){qkv, 2 * d, 3 * d}, args->dv = (struct head_view){grads, 2 * d, 3 * d};
        return;
    }
    args->q = (struct head_view){world_random(world, tokens, s->heads * d, gap, 1), 0, d};
    args->k = (struct head_view){world_random(world, tokens, s->kv_heads * d, 2 * gap, 1), 0, d};
    args->v = (struct head_view){world_random(world, tokens, s->kv_heads * d, 3 * gap, 1), 0, d};
    args->dq = (struct head_view){world_random(world, tokens, s->heads * d, gap, 1), 0, d};
    args->dk = (struct head_view){world_random(world, tokens, s->kv_heads * d, 2 * gap, 1), 0, d};
    args->dv = (struct head_view){world_random(world, tokens, s->kv_heads * d, 3 * gap, 1), 0, d};
    world->backend->ops->fill(world->backend, args->dq.matrix, (double)NAN);
    world->backend->ops->fill(world->backend, args->dk.matrix, (double)NAN);
    world->backend->ops->fill(world->backend, args->dv.matrix, (double)NAN);
}

/* What the plain loops read is rounded for backends that round what they multiply. */
static inline void attention_round(struct world *world, const struct attention_shape *s,
                                   const struct attention_args *args)
{
    if (world->backend->ops->element != sizeof(double)) return;
    round_all(world, args->q.matrix);
    if (s->fused) return;
    round_all(world, args->k.matrix);
    round_all(world, args->v.matrix);
}

/* Forward and backward. A score of size S = scale |q| |k| carries an error of 6 sqrt(d) u S, which is its weight's
 * relative error; a sum of n weights adds 6 sqrt(n) u. Normal vectors: |q| |k| <= product_norm.
 * rounds: weights and slopes, too, are off by 2^-9 of themselves, an output by as much of the largest value, and with
 * it D by as much of its size. */
static inline void attention_passes(struct world *world, const struct attention_shape *s, bool rounds)
{
    static const double values = 5; /* the largest of a few thousand normal numbers */
    struct test_batch *batch = calloc(1, sizeof *batch);
    struct attention_args args = attention_start(s, batch);
    const int64_t tokens = batch->batch.tokens, d = s->head_dim;
    attention_inputs(world, s, tokens, &args);
    if (rounds) attention_round(world, s, &args);
    args.out = (struct head_view){world_zeros(world, tokens, s->heads * d, 0), 0, d};
    world->backend->ops->fill(world->backend, args.out.matrix, (double)NAN);
    args.log_sum = world_zeros(world, tokens, s->heads, 0);
    world->backend->ops->attention_forward(world->backend, &args);
    const double size = s->scale * ((double)d + 5 * sqrt(2 * (double)d)), keys = (double)batch->batch.longest;
    const double weight_growth = 6 * sqrt((double)d) * size + 6 * sqrt(keys) + 8 + (rounds ? 0x1p-9 / ROUNDOFF : 0);
    world_record(world, "out", args.out.matrix, weight_growth, values);
    world_record(world, "log_sum", args.log_sum, rounds ? 200 : weight_growth, 1);
    args.dout = (struct head_view){world_random(world, tokens, s->heads * d, 0, 1), 0, d};
    if (rounds && world->backend->ops->element == sizeof(double)) round_all(world, args.dout.matrix);
    world->backend->ops->attention_backward(world->backend, &args);
    /* ds = p (dp - D): dp and D are sums of d products; a key's gradient sums over the queries and heads that see it */
    const double slope = s->scale * 2 * sqrt((double)d) * values, sharing = (double)(s->heads / s->kv_heads);
    world_record(world, "dq", args.dq.matrix, 2 * weight_growth, slope * values);
    world_record(world, "dk", args.dk.matrix, 2 * weight_growth, slope * values * sharing * log(keys + 2));
    world_record(world, "dv", args.dv.matrix, 2 * weight_growth, values * sharing * log(keys + 2));
    free(batch);
}

#endif
