/* paired.h: two models that answer the same questions: `up` questions only the second gets right, `down` only the
 * first. */
#ifndef EVAL_PAIRED_H
#define EVAL_PAIRED_H

#include <stdint.h>

/* The exact test of McNemar (Psychometrika 12, 1947): the probability of a split of up + down at least as uneven if
 * both directions are equally likely. Two-sided binomial; 1 if there are none. */
double paired_mcnemar(int64_t up, int64_t down);

/* An interval, of at least 95 %, of the change (up - down) / n of the share of right answers, n >= up + down. The
 * change is d (2 u - 1), with d the share of questions that flip and u the part of them that flip up. An end is the end
 * of Clopper and Pearson's interval of 2 u - 1, which is conditional on the flips, times the limit of Wilson's interval
 * of d that lies farther out. So 0 is outside exactly when paired_mcnemar is below 0.05, and the uncertainty of d
 * widens the interval: with the counted d it would end at -down / n if no question flips up, and contain the truth a
 * third of the time. In simulations (10 to 1000 questions, 2 to 30 % flips) this interval contained it 96 % of the time
 * or more. */
void paired_change(int64_t up, int64_t down, int64_t n, double *low, double *high);

#endif
