/* quantize_intervals.h: 95 % intervals of the means of a quantization over its evaluation's predictions. The sequences
 * are what is drawn at random: predictions within one depend on each other. Student's t on the sequences' values, each
 * weighing its predictions, whatever their number. */
#ifndef QUANTIZE_QUANTIZE_INTERVALS_H
#define QUANTIZE_QUANTIZE_INTERVALS_H

#include "jobs/quantize/quantize_draws.h"

/* Fills result->intervals from the means and the sequences' values. An interval ends where its number does: at 0, and
 * at 1 for a share. There is none for one sequence, for a mean that is not finite, and for a share of exactly 0 or 1:
 * the sequences then tell nothing of how often the rare case occurs. */
void quantize_intervals(struct quantize_result *result);

/* The same of means over several draws (quantize_draws_run): the spread between calibration samples is part of them
 * (ratio_interval_draws). The full-precision loss has none. */
void quantize_intervals_draws(const struct quantize_draws *draws, struct quantize_result *result);

#endif
