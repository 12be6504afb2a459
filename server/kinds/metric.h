/* metric.h: metrics that several kinds of run know; those of one kind stand in its own file. */
#ifndef KINDS_METRIC_H
#define KINDS_METRIC_H

#include "base/result.h"

extern const struct result_metric metric_loss, metric_loss_fp, metric_loss_q, metric_delta, metric_kl, metric_top1_agreement,
    metric_bits_per_weight;

#endif
