/* quantize_draws.h: how much a result depends on the calibration sample. The same quantization runs with several
 * samples that share no sequence. */
#ifndef QUANTIZE_QUANTIZE_DRAWS_H
#define QUANTIZE_QUANTIZE_DRAWS_H

#include "jobs/quantize/quantize.h"

enum { QUANTIZE_DRAWS_MAXIMUM = 64 };

struct quantize_draws {
    int64_t count;
    /* of each draw, as in struct quantize_result */
    double deltas[QUANTIZE_DRAWS_MAXIMUM], losses[QUANTIZE_DRAWS_MAXIMUM];
    double kls[QUANTIZE_DRAWS_MAXIMUM], agreements[QUANTIZE_DRAWS_MAXIMUM];
    double mean, deviation; /* of the deltas; deviation over count - 1, NaN for one */
};

/* The standard deviation of values[count], over count - 1; NAN for one. */
double quantize_draws_deviation(const double *values, int64_t count);

/* Cuts request->calibration into `count` parts of equally many sequences, in order, and runs a quantization with each;
 * sequences that are left over are not used. In *out q's losses, delta, kl and top1_agreement (of sequences too)
 * are means over the draws, and all intervals hold the variance between them (ratio_interval_draws); q.loss_stderr is
 * NAN. Layers, bits and counts are those of the first part, which is what a single draw of that size gives. `count`
 * 1 is quantize_run. As many draws share a forward pass as fit in memory (quantize_batch_most). Each saves streams of
 * its own (KEEP-NUMBER). Progress counts all draws. The caller resets *out. STATUS_INVALID at "/calibration_draws" when
 * there are fewer sequences than draws; statuses of quantize_run. */
MUST_CHECK enum status quantize_draws_run(const struct quantize_request *request, int64_t count,
                                          struct quantize_result *out, struct quantize_draws *draws,
                                          struct error *error);

#endif
