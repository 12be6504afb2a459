/* attention.h: cuts attention into tiles of queries and blocks of keys, for its passes (attention.c) and their tangents
 * (attention_tangent.c). */
#ifndef BACKEND_CPU_ATTENTION_H
#define BACKEND_CPU_ATTENTION_H

#include "backend/cpu/cpu.h"

struct attention {
    const struct cpu *cpu;
    const struct attention_args *args;
    int64_t tile, tiles; /* queries per tile, tiles of the longest sequence */
    int64_t keys;        /* most keys per block: the stride of its scores */
    int64_t step;        /* keys per block at the diagonal */
};

/* One tile of queries of one head. Rows are tokens of the whole batch. */
struct tile {
    int64_t start;      /* the sequence's first row */
    int64_t first, end; /* positions in the sequence */
    int64_t head, kv_head;
    int64_t sequence; /* index in the batch */
};

/* Chooses the tile size: small tiles waste less on masked scores, large ones make faster products. */
static inline struct attention attention_plan(struct backend *backend, const struct attention_args *args, int64_t keys)
{
    const int64_t longest = args->batch->longest, tile = longest <= 512 ? 128 : CPU_TILE_QUERIES;
    return (struct attention){cpu_of(backend), args, tile, ceil_divide(longest, tile), keys, tile / 2};
}

/* The tile of a task (sequence, head, tile); empty where the sequence has fewer tiles. */
static inline struct tile attention_tile(const struct attention *attention, int64_t task)
{
    const struct attention_args *args = attention->args;
    /* the last tiles see the most keys, so they are started first */
    const int64_t tile_index = attention->tiles - 1 - task / (args->heads * args->batch->sequences);
    const int64_t rest = task % (args->heads * args->batch->sequences), b = rest / args->heads,
                  head = rest % args->heads;
    const int64_t start = args->batch->starts[b], length = args->batch->starts[b + 1] - start;
    return (struct tile){
        .start = start,
        .first = tile_index * attention->tile,
        .end = smaller(length, (tile_index + 1) * attention->tile),
        .head = head,
        .kv_head = head / (args->heads / args->kv_heads),
        .sequence = b,
    };
}

static inline int64_t attention_first_key(const struct attention_args *args, const struct tile *tile)
{
    return args->window > 0 ? larger(0, tile->first - args->window + 1) : 0;
}

/* A block of keys with the rows of the tile that see some of them: all rows before the diagonal; along it `step` keys
 * at a time, without the rows above them. */
struct reach {
    int64_t key, columns;
    int64_t skipped; /* rows of the tile that see none of the keys */
};

/* The block that begins at `key`; it ends at `end` at the latest. */
static inline struct reach attention_reach(const struct attention *attention, const struct tile *tile, int64_t key,
                                           int64_t end)
{
    if (key < tile->first) return (struct reach){key, smaller(attention->keys, smaller(end, tile->first) - key), 0};
    return (struct reach){key, smaller(attention->step, end - key), key - tile->first};
}

/* The scores of the tile's rows against a block of keys. */
static inline struct score_block attention_scores(const struct attention *attention, const struct tile *tile,
                                                  struct reach reach, float *scores)
{
    const struct attention_args *args = attention->args;
    const int64_t first = tile->first + reach.skipped;
    const struct score_block block = {
        .scores = scores,
        .stride = attention->keys,
        .rows = tile->end - first,
        .columns = reach.columns,
        .first_query = first,
        .first_key = reach.key,
        .window = args->window,
    };
    cpu_product(attention->cpu, false, true, block.rows, block.columns, args->head_dim, (float)args->scale,
                float_head(args->q, tile->start + first, tile->head), args->q.matrix.stride,
                float_head(args->k, tile->start + reach.key, tile->kv_head), args->k.matrix.stride, 0, scores,
                attention->keys);
    return block;
}

#endif
