/* paired.h: two models answering the same questions. */
#ifndef EVAL_PAIRED_H
#define EVAL_PAIRED_H

#include <stdint.h>

/* The exact test of McNemar (Psychometrika 12, 1947): of up + down questions that one of two models alone gets right,
 * how likely is a split at least as uneven when either is as likely? Two-sided binomial probability, 1 for none. */
double paired_mcnemar(int64_t up, int64_t down);

#endif
