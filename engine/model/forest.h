/* forest.h: token sequences with common beginnings, as a forest of segments: a common beginning of two sequences is one
 * segment, which is computed once. The segments are cut into chunks of equal size, and one that does not fit continues
 * in the next chunk. So no padding is computed, and a token costs the same in long and short texts. */
#ifndef MODEL_FOREST_H
#define MODEL_FOREST_H

#include "model/cache.h"
#include "model/chunks.h"

struct forest_segment {
    int64_t row;  /* of its first token, among the rows of all chunks */
    int64_t past; /* tokens of its text before it */
    int64_t tokens;
    int64_t parent;                  /* segment, or -1 */
    int64_t chunk, last_child_chunk; /* -1: no segment continues it */
};

struct forest {
    /* their batches have branches; targets are TARGET_NONE throughout; `longest` is the longest text */
    struct chunks chunks;
    int64_t segment_count;
    struct forest_segment *segments; /* owned, in order of their rows */
    int64_t *leaves;                 /* [sequences] the segment that the last token of a sequence lies in; owned */
    int64_t slots, forks;            /* what a cache for these chunks needs (cache_init) */
    struct branches *branches;       /* [chunks.count], owned */
    void *memory;                    /* their arrays */
};

/* Copies what it needs of `sequences` (each of one token or more). Chunks have `chunk_tokens` rows, the last one fewer;
 * `slots` > 0 bounds the number of a chunk's segments that are continued, because recurrent states are large; chunks
 * are smaller then. The caller owns *out (forest_reset). STATUS_NO_MEMORY. */
MUST_CHECK enum status forest_init(const struct sequences *sequences, int64_t chunk_tokens, int64_t slots,
                                   struct forest *out, struct error *error);
/* forest_init without sharing: each text is on its own and whole in its chunk, for models in which a token's values
 * depend on its whole text. */
MUST_CHECK enum status forest_init_apart(const struct sequences *sequences, int64_t chunk_tokens, struct forest *out,
                                         struct error *error);
/* Bytes of a forest of sequences of so many tokens in all. */
int64_t forest_bytes(const struct forest *forest, int64_t sequences, int64_t tokens);
void forest_reset(struct forest *forest); /* {0} is fine */

/* The row, among those of all chunks, of a sequence's token at `position`. */
int64_t forest_row(const struct forest *forest, int64_t sequence, int64_t position);

#endif
