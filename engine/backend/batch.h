/* batch.h: the tokens of one forward pass: whole sequences, one after another, without padding. With `branches` the
 * sequences are segments of texts with common beginnings: a common beginning is one segment, which is computed once and
 * continued by others. */
#ifndef BACKEND_BATCH_H
#define BACKEND_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TARGET_NONE UINT32_MAX /* the last token of a sequence predicts nothing */

/* The parent of a segment. From 0 on: it continues the end of the segment with that (always smaller) number in the same
 * batch. BRANCH_ROOT: it begins a text. Below that: it continues a fork, the end of a segment of an earlier batch. */
enum { BRANCH_ROOT = -1 };

static inline int64_t branch_of_fork(int64_t fork)
{
    return -2 - fork;
}

static inline int64_t fork_of_branch(int64_t branch)
{
    return -2 - branch;
}

/* Batches of one forest come in order (parents first, depth first), so that everything that later batches may continue
 * lies on one path: the text up to the deepest fork. Lent arrays in host memory. */
struct branches {
    const int64_t *parents; /* [B] the parent of segment b */
    const int64_t *pasts;   /* [B] tokens of its text before segment b: the position of its first token */
    /* [B] which of the batch's `slot_count` states stores the state at the end of segment b, for the segments that
     * continue it or for a fork; -1: no segment continues it */
    const int64_t *slots;
    int64_t slot_count;
    /* The forks that this batch leaves, from the shallowest to the deepest: fork j is the end of ends[j] (a segment of
     * this batch, or a fork that this batch was given; coded like parents), lengths[j] tokens into its text. */
    int64_t forks;
    const int64_t *ends, *lengths;
};

/* Lent arrays in host memory. Row t of every activation belongs to token t. */
struct batch {
    int64_t tokens;           /* T in all */
    int64_t sequences;        /* B */
    int64_t longest;          /* tokens in the longest sequence (segment) */
    const int64_t *starts;    /* [B + 1], starts[0] = 0, starts[B] = tokens */
    const uint32_t *ids;      /* [T] */
    const uint32_t *targets;  /* [T] ids[t + 1], or TARGET_NONE at a sequence's last token */
    const int32_t *positions; /* [T] distance from the start of the token's sequence (of its text, with branches) */
    const struct branches *branches; /* NULL: sequences share nothing. Only for forward passes */
};

/* A stretch of the text before a segment: its positions [first, first + count) are rows [row, row + count) of the batch
 * or, if `kept`, of the values that earlier batches left (row = first). */
struct branch_stretch {
    bool kept;
    int64_t row, first, count;
};

/* Goes one step up from a segment's parent: start with *branch = parents[b], *end = pasts[b]; false at the root. */
static inline bool branch_climb(const struct batch *batch, int64_t *branch, int64_t *end, struct branch_stretch *out)
{
    if (*branch == BRANCH_ROOT) return false;
    if (*branch < BRANCH_ROOT) {
        *out = (struct branch_stretch){true, 0, 0, *end};
        *branch = BRANCH_ROOT;
        return true;
    }
    const int64_t segment = *branch, count = batch->starts[segment + 1] - batch->starts[segment];
    *out = (struct branch_stretch){false, batch->starts[segment], *end - count, count};
    *branch = batch->branches->parents[segment];
    *end -= count;
    return true;
}

#endif
