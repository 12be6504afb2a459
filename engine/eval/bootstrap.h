/* bootstrap.h: the uncertainty of a ratio of two losses on the same sequences. */
#ifndef EVAL_BOOTSTRAP_H
#define EVAL_BOOTSTRAP_H

#include "base/error.h"

#include <stdint.h>

enum { BOOTSTRAP_DRAWS = 2000 };

/* 95 % percentile interval of sum(w b) / sum(w a) - 1 when the sequences are resampled with replacement (Efron's
 * bootstrap); pairs (a, b) stay together; w is a sequence's number of predictions. Quantiles are interpolated linearly
 * between order statistics. The interval is widened to contain `value`, the ratio of the whole sample, if chance leaves
 * it outside (few, skewed sequences). NaN if a loss is not finite. STATUS_NO_MEMORY. */
MUST_CHECK enum status bootstrap_ratio(const double *a, const double *b, const int64_t *weights, int64_t count,
                                       double value, uint64_t seed, double *low, double *high, struct error *error);

/* Means of the rows of `values` [count, columns] when rows are resampled with replacement, all columns of a row
 * together: draws[column * BOOTSTRAP_DRAWS + i]. Different `stream`s under one seed give independent draws. */
void bootstrap_means(const double *values, int64_t count, int columns, uint64_t seed, uint32_t stream, double *draws);

/* The 95 % percentile interval of `count` draws (sorted in place), widened to contain `value`. */
void bootstrap_interval(double *draws, int64_t count, double value, double *low, double *high);

#endif
