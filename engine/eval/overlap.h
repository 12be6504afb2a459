/* overlap.h: how much of the evaluation also occurs in the calibration: text in both makes a quantized model look
 * better than it is. */
#ifndef EVAL_OVERLAP_H
#define EVAL_OVERLAP_H

#include "base/error.h"
#include "dataset/dataset.h"

enum { OVERLAP_WINDOW = 32 };

struct overlap {
    int64_t window;  /* tokens of a window: OVERLAP_WINDOW, or fewer if the longest evaluation sequence is shorter */
    int64_t windows; /* of the evaluation, one after another from the start of each sequence */
    int64_t overlapping; /* … that also occur in a calibration sequence */
};

/* Equal hashes are confirmed by comparing the tokens. STATUS_NO_MEMORY. */
MUST_CHECK enum status overlap_find(const struct sequences *evaluation, const struct sequences *calibration,
                                    struct overlap *out, struct error *error);

#endif
