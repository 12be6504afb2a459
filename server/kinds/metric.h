/* metric.h: metrics and result rows that several kinds share; those of one kind are in its own file. */
#ifndef KINDS_METRIC_H
#define KINDS_METRIC_H

#include "base/result.h"

extern const struct result_metric metric_loss, metric_loss_fp, metric_loss_q, metric_delta, metric_kl,
    metric_top1_agreement, metric_bits_per_weight;

/* The result row of a note, a text (const char *) at `at`, left out where it is NULL. */
#define METRIC_NOTE_FIELD(at)                                                            \
    {                                                                                    \
        .name = "note", .type = RESULT_TEXT, .offset = (at), .absence = RESULT_LEFT_OUT, \
        .help = "A note on the numbers"                                                  \
    }

#endif
