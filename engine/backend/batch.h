/* batch.h: the tokens of one walk: whole sequences laid one after another, no padding ever. */
#ifndef BACKEND_BATCH_H
#define BACKEND_BATCH_H

#include <stdint.h>

#define TARGET_NONE UINT32_MAX /* the last token of a sequence predicts nothing */

/* Lent arrays in host memory. Row t of every activation belongs to token t. */
struct batch {
    int64_t tokens;           /* T in all */
    int64_t sequences;        /* B */
    int64_t longest;          /* tokens in the longest sequence */
    const int64_t *starts;    /* [B + 1], starts[0] = 0, starts[B] = tokens */
    const uint32_t *ids;      /* [T] */
    const uint32_t *targets;  /* [T] ids[t + 1], or TARGET_NONE at a sequence's last token */
    const int32_t *positions; /* [T] distance from the start of the token's sequence */
};

#endif
