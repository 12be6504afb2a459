/* quantize_draws.h: how much of a result is the luck of the calibration sample: the same quantization from several
 * samples that share no sequence. */
#ifndef QUANTIZE_QUANTIZE_DRAWS_H
#define QUANTIZE_QUANTIZE_DRAWS_H

#include "jobs/quantize/quantize.h"

enum { QUANTIZE_DRAWS_MAXIMUM = 64 };

struct quantize_draws {
    int64_t count;
    double deltas[QUANTIZE_DRAWS_MAXIMUM], losses[QUANTIZE_DRAWS_MAXIMUM]; /* delta and loss_q of each draw */
    double mean, deviation; /* of the deltas; deviation over count - 1, NaN for one */
};

/* Cuts request->calibration into `count` parts of equally many sequences, in order (what is over is not used), and runs
 * each; *first is the result of the first part, which is also what a single draw of that size gives. `count` 1 is
 * quantize_run. As many share a walk as fit half of the machine's memory; each keeps streams of its own (KEEP-NUMBER).
 * Progress counts all draws. The caller resets *first. STATUS_INVALID at "/calibration_draws" when there are fewer
 * sequences than draws; statuses of quantize_run. */
MUST_CHECK enum status quantize_draws_run(const struct quantize_request *request, int64_t count,
                                          struct quantize_result *first, struct quantize_draws *out,
                                          struct error *error);

#endif
