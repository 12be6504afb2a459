/* token_ranking.h: the predictions of an evaluation with the largest losses. */
#ifndef EVAL_TOKEN_RANKING_H
#define EVAL_TOKEN_RANKING_H

#include <stdint.h>

/* Writes the indices of the predictions that lost most into places[most], the worst first and among equals the earlier,
 * and returns their number (at most `most`). `losses` [count] are ranked by their excess over `reference` [count], or
 * by themselves if that is NULL. A loss that is not finite is the worst possible, unless its reference is not finite
 * either: then it is left out. */
int64_t token_ranking(const float *losses, const float *reference, int64_t count, int64_t most, int64_t *places);

/* The number by which a prediction is ranked; NAN: it is left out. */
double token_ranking_key(const float *losses, const float *reference, int64_t place);

#endif
