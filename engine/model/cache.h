/* cache.h: values that a block keeps from earlier batches, so that segments (backend/batch.h, branches) are computed
 * once and continued many times: keys and values of every token of a path, or a recurrent state at the ends of
 * segments.
 *
 * A cache holds a single path and serves one block at a time: cache_begin when the block is loaded, then the batches in
 * order through walk_forward (docs/models.md, "Texts that share beginnings").
 *
 * An op with memory across tokens declares what it keeps (op.h: cached_token_columns, cached_state_columns). In its
 * forward pass over a batch with branches
 * - attention reads the rows of earlier batches from cache_tokens (row = position in the text). Afterwards it writes
 *   there the rows of this batch's segments on the path to the deepest fork (branch_climb from ends[forks - 1]);
 * - a recurrent op begins segment b with cache_state(parents[b]), or with zeros of its own for BRANCH_ROOT. If slots[b]
 *   is not -1 it writes the state at the end to cache_state(b). A parent precedes its children in the batch.
 *   cache_end moves the states of forks. */
#ifndef MODEL_CACHE_H
#define MODEL_CACHE_H

#include "model/program.h"

struct model_config;

struct cache {
    struct backend *backend;
    const struct program *program; /* of the current block */
    const struct batch *batch;     /* the current one */
    int64_t positions, slots, forks;
    int64_t token_columns, state_columns; /* of the block that keeps most */
    void *tokens, *states;                /* [positions, token_columns]; [forks + slots, state_columns]; owned */
};

/* Space for paths of `positions` tokens, batches of at most `slots` states and `forks` forks. The caller owns it
 * (cache_reset). STATUS_UNSUPPORTED (an op that looks across tokens and keeps nothing), STATUS_NO_MEMORY. */
MUST_CHECK enum status cache_init(struct cache *cache, const struct model_config *config, struct backend *backend,
                                  int64_t positions, int64_t slots, int64_t forks, struct error *error);
void cache_reset(struct cache *cache); /* {0} is fine */

/* Bytes of one state; 0: the model has no recurrent op. */
int64_t cache_state_bytes(const struct model_config *config, const struct backend *backend);

/* Bytes of the backend's memory that cache_init takes. */
int64_t cache_bytes(const struct model_config *config, const struct backend *backend, int64_t positions, int64_t slots,
                    int64_t forks);

/* Begins another block, or the same block for another forest: the cache is empty then. */
void cache_begin(struct cache *cache, const struct program *program);

/* Called before and after the steps of a batch (walk.c). cache_end moves the batch's states to its forks. */
void cache_batch(struct cache *cache, const struct batch *batch);
void cache_end(struct cache *cache);

/* The memory of `step`: cache_tokens is that of the path, [positions, its columns]; cache_state that of the end of
 * `branch`, [1, its columns]. */
struct matrix cache_tokens(const struct cache *cache, const struct step *step);
struct matrix cache_state(const struct cache *cache, const struct step *step, int64_t branch);

#endif
