#include "eval/token_ranking.h"

#include <math.h>
#include <stddef.h>

double token_ranking_key(const float *losses, const float *reference, int64_t place)
{
    const double loss = losses[place], before = reference != NULL ? (double)reference[place] : 0;
    if (!isfinite(before)) return NAN;
    return isfinite(loss) ? loss - before : INFINITY;
}

/* The list stays sorted: of millions of predictions few enter a list of some hundred. */
int64_t token_ranking(const float *losses, const float *reference, int64_t count, int64_t most, int64_t *places)
{
    int64_t kept = 0;
    for (int64_t place = 0; place < count && most > 0; place++) {
        const double key = token_ranking_key(losses, reference, place);
        if (isnan(key)) continue;
        if (kept == most && key <= token_ranking_key(losses, reference, places[most - 1])) continue;
        int64_t at = kept < most ? kept++ : most - 1;
        for (; at > 0 && token_ranking_key(losses, reference, places[at - 1]) < key; at--) places[at] = places[at - 1];
        places[at] = place;
    }
    return kept;
}
