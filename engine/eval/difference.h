/* difference.h: how much a mean, or a ratio of losses, differs between two measurements of the same sequences. Effects
 * common to both, above all the difficulty of a sequence, cancel in the pairs, so the intervals are far narrower than
 * two separate ones suggest. */
#ifndef EVAL_DIFFERENCE_H
#define EVAL_DIFFERENCE_H

#include "eval/ratio.h"

/* Most sequences that are resampled: with more, the percentiles equal Student's interval, and the time of the bootstrap
 * stays below a second or two. */
enum { DIFFERENCE_BOOTSTRAP_MOST = 16384, DIFFERENCE_PAIRS_MOST = 4 };

/* A number of one measurement: sum(w over) / sum(w under). All lent, [count]. */
struct difference_side {
    const double *over;
    const double *under; /* NULL: ones, for a mean */
};

struct difference_pair {
    struct difference_side a, b;
};

struct difference {
    double a, b, value;             /* value = b - a; NAN where a loss is not finite */
    double standard_error;          /* of value, by the linearized differences; NAN for a single sequence */
    struct ratio_interval interval; /* of value, 95 %; never RATIO_DRAWS */
    int64_t greater, smaller;       /* sequences whose own number is greater (smaller) in b */
    double sign_p;                  /* exact two-sided sign test of these two counts (paired_mcnemar); 1 for none */
};

/* Whether intervals of `count` sequences of so many leverage_degrees are percentiles: if ratio_resampled, up to
 * DIFFERENCE_BOOTSTRAP_MOST. */
bool difference_resampled(double degrees, int64_t count);

/* Measures `pair_count` (1 to DIFFERENCE_PAIRS_MOST) numbers of the same `count` (1 or more) sequences with weights w
 * into out[pair_count]. Unless difference_resampled, an interval is value ± t standard_error, t Student's of
 * leverage_degrees, standard_error = sqrt(n / (n - 1) sum(e^2)) with the linearized difference of a sequence e = w
 * (over_b - b under_b) / sum(w under_b) - w (over_a - a under_a) / sum(w under_a); with unequal weights as leverage.h
 * says. Else it is the percentiles of BOOTSTRAP_DRAWS samples of sequences with replacement, all of a sequence
 * together. Measurements that are equal differ by exactly 0, and so do both ends. STATUS_NO_MEMORY. */
MUST_CHECK enum status difference_measure(const struct difference_pair *pairs, int pair_count, const int64_t *weights,
                                          int64_t count, uint64_t seed, struct difference *out, struct error *error);

#endif
