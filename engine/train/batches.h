/* batches.h: the tokens of each training step. The token stream is cut into blocks of sequence_length (the last partial
 * one is never used); every epoch visits each block once in its own order. The order is computed, not stored: the
 * tokens of a step are a pure function of (seed, step), so that a run resumes with no state. */
#ifndef TRAIN_BATCHES_H
#define TRAIN_BATCHES_H

#include "backend/batch.h"
#include "base/error.h"

#include <stdint.h>

struct batches {
    const uint32_t *tokens; /* lent */
    int64_t blocks, sequence_length;
    uint64_t seed;
    int64_t *starts; /* of the batch that batches_next fills; all owned */
    uint32_t *ids, *targets;
    int32_t *positions;
    int64_t capacity; /* sequences a batch */
};

/* Batches of up to `sequences` sequences. STATUS_INVALID when the stream is shorter than one block, STATUS_NO_MEMORY.
 * The caller owns it (batches_reset). */
MUST_CHECK enum status batches_init(struct batches *batches, const uint32_t *tokens, int64_t count,
                                    int64_t sequence_length, int64_t sequences, uint64_t seed, struct error *error);
void batches_reset(struct batches *batches); /* {0} is fine */

/* The block visited at `index`, counted from the start of training. */
int64_t batches_block(const struct batches *batches, int64_t index);

/* Blocks [first, first + count) of the order as one batch, lent until the next call. Each sequence predicts all its
 * tokens but the first. Allocates nothing. */
struct batch batches_next(struct batches *batches, int64_t first, int64_t count);

/* The image of `index` under a permutation of [0, count) chosen by (seed, stream): a Feistel network over the next
 * power of four, iterated until it falls into the range (Black and Rogaway, CT-RSA 2002). */
int64_t batches_permute(uint64_t seed, uint64_t stream, int64_t index, int64_t count);

#endif
