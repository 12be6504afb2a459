/* ratio.h: 95 % intervals for the ratio of two losses on the same sequences, and for a mean, whatever their number. */
#ifndef EVAL_RATIO_H
#define EVAL_RATIO_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* From so many sequences on the interval is the bootstrap's; with fewer its percentiles are too close together. Of
 * unlike lengths they count as leverage_degrees + 1: with 64 that spread like a lognormal of 1.5, worth 15 of equal
 * length, the percentiles held the truth 92 times of 100 and Student's interval 95. */
enum { RATIO_BOOTSTRAP_FROM = 64 };

enum ratio_method {
    RATIO_NONE,      /* no interval: one sequence, or a loss that is not finite */
    RATIO_STUDENT,   /* Student's t on the linearized ratio */
    RATIO_BOOTSTRAP, /* percentiles of the paired bootstrap */
    RATIO_DRAWS,     /* Student's t, including the variance of the calibration sample */
};

struct ratio_interval {
    double low, high; /* NAN: none */
    enum ratio_method method;
};

/* The variance of sum(w b) / sum(w a) over samples of sequences, by the delta method: with r that ratio and residuals e
 * = w (b - r a), count / (count - 1) * sum(e^2) / sum(w a)^2 (Cochran, Sampling Techniques, 1977, 6.4); with unequal
 * weights the residuals are leverage_residual's. `a` NULL: ones, for a mean. NAN for fewer than two sequences or a loss
 * that is not finite. */
double ratio_variance(const double *a, const double *b, const int64_t *weights, int64_t count);

/* Whether sequences of so many leverage_degrees are enough for percentiles: RATIO_BOOTSTRAP_FROM - 1 or more. */
bool ratio_resampled(double degrees);

/* The interval of `value`, which is sum(w b) / sum(w a) - 1: bootstrap_ratio if ratio_resampled, else value ± t sqrt(
 * ratio_variance) with Student's t of leverage_degrees. STATUS_NO_MEMORY. */
MUST_CHECK enum status ratio_interval(const double *a, const double *b, const int64_t *weights, int64_t count,
                                      double value, uint64_t seed, struct ratio_interval *out, struct error *error);

/* The interval of a mean over sequences: mean ± t sqrt(variance), with Student's t of `degrees`, the leverage_degrees
 * of their weights. `variance` is the ratio_variance of the sequences' values with `a` NULL. */
struct ratio_interval ratio_interval_mean(double mean, double variance, double degrees);

/* The interval of a mean over `draws` calibration samples (two or more), all evaluated on the same sequences, whose
 * weights have `degrees`: mean ± t sqrt(V), V = evaluation + between / draws. `evaluation` is the ratio_variance of the
 * sequences' losses averaged over the draws, `between` the variance of the draws' ratios (over draws - 1). t is Cochran
 * and Cox's (Experimental Designs, 1957, 4.14): the mean of Student's t of `degrees` and of draws - 1 degrees, weighted
 * by the two terms of V. It contains the truth 95 to 98 times of 100; Satterthwaite's degrees of freedom would be
 * narrower, but contain it only 88 to 93 times when two or three draws dominate the variance. */
struct ratio_interval ratio_interval_draws(double mean, double evaluation, double degrees, double between,
                                           int64_t draws);

#endif
