/* token_ranking.h: which predictions of an evaluation lost most. */
#ifndef EVAL_TOKEN_RANKING_H
#define EVAL_TOKEN_RANKING_H

#include <stdint.h>

/* Writes the places of the predictions that lost most into places[most], the worst first and of equal ones the
 * earlier, and returns how many there are (at most `most`). `losses` [count] are ranked by what they are above
 * `reference` [count], or by themselves where that is NULL. A loss that is not finite is the worst there can be, unless
 * its reference is not finite either: then nothing can be said of it, and it is left out. */
int64_t token_ranking(const float *losses, const float *reference, int64_t count, int64_t most, int64_t *places);

/* What a prediction is ranked by; NAN: it is left out. */
double token_ranking_key(const float *losses, const float *reference, int64_t place);

#endif
