/* cuts.h: where the walk over a block stops to quantize. A cut lies before the linears of a subset (consecutive steps
 * that read one slot). Between cuts the slots that are live have to be held for all calibration tokens, or computed
 * again from the cut before:
 *   - A cut is resumed as far back as cheap steps go (norms, activations, additions: neither products nor attention)
 *     where that holds less: the normed input of q, k, v is computed again from the hidden states rather than held.
 *   - What would need more than `budget_width` columns a token is not held: the next pass starts at the last cut that
 *     was.
 * Hidden states are updated in place, so a pass that writes them has to be held, whatever it holds: doing it again
 * would begin from other states. After an addition to them little else is live (nothing, in the decoders there are). */
#ifndef QUANT_CUTS_H
#define QUANT_CUTS_H

#include "model/program.h"

struct cut {
    int step, count; /* the linears: steps [step, step + count), each of one weight, or of one for each expert */
    int resume;      /* later passes start here, when held */
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
