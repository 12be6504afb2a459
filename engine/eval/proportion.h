/* proportion.h: 95 % intervals of a share, from k of n items. */
#ifndef EVAL_PROPORTION_H
#define EVAL_PROPORTION_H

#include <stdint.h>

/* Wilson's (Journal of the American Statistical Association 22, 1927): the shares that the score test does not reject
 * for k of n. Never empty at 0 or n of n, where the standard error is 0. [0, 1] when n is 0. */
void proportion_wilson(int64_t k, int64_t n, double *low, double *high);

/* Clopper and Pearson's (Biometrika 26, 1934): the shares under which neither k or more nor k or fewer of n have a
 * probability below 0.025. It matches the exact binomial test: 1/2 lies outside exactly when that test has p < 0.05.
 * [0, 1] when n is 0. */
void proportion_exact(int64_t k, int64_t n, double *low, double *high);

#endif
