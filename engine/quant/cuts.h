/* cuts.h: the places in a block where a pass stops to quantize. A cut is before the linears of a subset (consecutive
 * steps that read one slot). Between cuts the live slots must be held for all calibration tokens, or recomputed from
 * the cut before:
 *   - A cut is resumed as far back as cheap steps go (norms, activations, additions: neither products nor attention)
 *     if that holds less: the normed input of q, k, v is recomputed from the hidden states rather than held.
 *   - A cut that would hold more than `budget_width` columns per token is not held: the next pass starts at the last
 *     cut that was.
 * Hidden states are updated in place, so a pass that writes them must be held, whatever its size: repeating it would
 * begin from other states. After an addition to them few other slots are live (none in existing decoders). */
#ifndef QUANT_CUTS_H
#define QUANT_CUTS_H

#include "model/program.h"

struct cut {
    int step, count; /* the linears: steps [step, step + count), each of one weight, or of one per expert */
    int resume;      /* later passes start here, if the cut is held */
    bool held;
    int live_count;
    int live[PROGRAM_SLOTS]; /* slots to hold: read at `resume` or later, not in the hidden states' memory */
    int64_t live_width;      /* their columns */
};

struct cuts {
    int count;
    struct cut cuts[PROGRAM_STEPS];
};

void cuts_plan(const struct program *program, int64_t budget_width, struct cuts *out);

#endif
