#include "jobs/quantize/quantize_intervals.h"

#include "eval/leverage.h"

#include <math.h>

/* A mean over predictions, and the values of the sequences that it is made of. */
struct column {
    double mean;
    const double *values;
    double most;         /* that the mean can be */
    const double *draws; /* the means of the draws; NULL: all have the same */
};

static struct ratio_interval within(struct ratio_interval interval, const struct column *column)
{
    const struct ratio_interval none = {NAN, NAN, RATIO_NONE};
    if (interval.method == RATIO_NONE || (column->most == 1 && (column->mean == 0 || column->mean == 1))) return none;
    return (struct ratio_interval){fmax(interval.low, 0), fmin(interval.high, column->most), interval.method};
}

void quantize_intervals_draws(const struct quantize_draws *draws, struct quantize_result *result)
{
    const int64_t *weights = result->fp.sequence_predictions, sequences = result->fp.sequences;
    const double degrees = leverage_degrees(weights, sequences);
    const struct column columns[QUANTIZE_MEANS] = {
        [QUANTIZE_LOSS_FP] = {result->fp.loss, result->fp.sequence_losses, INFINITY, NULL},
        [QUANTIZE_LOSS_Q] = {result->q.loss, result->q.sequence_losses, INFINITY, draws->losses},
        [QUANTIZE_KL] = {result->kl, result->sequence_kl, INFINITY, draws->kls},
        [QUANTIZE_TOP1] = {result->top1_agreement, result->sequence_top1, 1, draws->agreements},
    };
    for (int i = 0; i < QUANTIZE_MEANS; i++) {
        const struct column *column = &columns[i];
        const double variance = ratio_variance(NULL, column->values, weights, sequences);
        struct ratio_interval found = ratio_interval_mean(column->mean, variance, degrees);
        if (draws->count > 1 && column->draws != NULL) {
            const double apart = quantize_draws_deviation(column->draws, draws->count);
            found = ratio_interval_draws(column->mean, variance, degrees, apart * apart, draws->count);
        }
        result->intervals[i] = within(found, column);
    }
}

void quantize_intervals(struct quantize_result *result)
{
    const struct quantize_draws one = {.count = 1};
    quantize_intervals_draws(&one, result);
}
