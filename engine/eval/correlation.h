/* correlation.h: how two quantities go together, and how sure that is. */
#ifndef EVAL_CORRELATION_H
#define EVAL_CORRELATION_H

#include "base/error.h"

#include <stdint.h>

struct correlation {
    double pearson, spearman; /* NAN: fewer than three pairs, or one of the quantities does not vary */
    double low, high;         /* 95 % percentile interval of pearson under resampling of pairs; NAN likewise */
    double spearman_low, spearman_high;
};

/* Of n pairs of finite numbers. Spearman's is Pearson's of the ranks, ties sharing the mean of theirs. Intervals:
 * BOOTSTRAP_DRAWS samples of n pairs with replacement (Efron), those without variance drawn again by being left out;
 * widened to hold the value itself. The same seed gives the same bits. STATUS_NO_MEMORY. */
MUST_CHECK enum status correlation_measure(const double *x, const double *y, int64_t n, uint64_t seed,
                                           struct correlation *out, struct error *error);

/* ranks [n]: 1 for the smallest, ties the mean of theirs. `order` [n] is scratch. */
void correlation_ranks(const double *values, int64_t n, int64_t *order, double *ranks);

#endif
