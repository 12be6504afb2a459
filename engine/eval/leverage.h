/* leverage.h: variances of sums over sequences that weigh unlike amounts. A residual about the mean of its own sample
 * is too small, by 1 - w / W of its sequence: the mean leans on it. With equal weights the usual factor n / (n - 1)
 * makes up for that. With unequal ones it does not, and a few long sequences leave fewer degrees of freedom than n - 1:
 * for weights that spread like a standard lognormal, Student's interval held the mean 86 to 90 times of 100. */
#ifndef EVAL_LEVERAGE_H
#define EVAL_LEVERAGE_H

#include <stdint.h>

/* The variance of a sum of residuals is (over / under) times the sum of the squares of leverage_residual. */
struct leverage {
    double over, under;
    double degrees; /* of freedom: (sum w)^2 / (sum w^2) - 1, at least 1; exactly n - 1 with equal weights */
    double total;   /* sum w; 0: all weigh the same, and residuals stay as they are */
};

/* Takes `count` (1 or more) weights. Equal ones: n / (n - 1) and the residuals as they are; else (n - 1) / n and
 * residuals over 1 - w / W, the jackknife's. Both are the same formula. */
struct leverage leverage_of(const int64_t *weights, int64_t count);

/* The same of sequences that begin at starts[count + 1], each weighing its predictions: its tokens less one. */
struct leverage leverage_of_starts(const int64_t *starts, int64_t count);

double leverage_residual(const struct leverage *leverage, double residual, int64_t weight);

/* leverage_of(weights, count).degrees; 0 below two, for which student_quantile has no number. */
double leverage_degrees(const int64_t *weights, int64_t count);

#endif
