/* sharpness_metrics.h: the metrics of a sharpness run, for the table of its report (sharpness_report.c). */
#ifndef KINDS_SHARPNESS_METRICS_H
#define KINDS_SHARPNESS_METRICS_H

#include "base/result.h"

extern const struct result_metric sharpness_metric_gradient_norm, sharpness_metric_weight_norm,
    sharpness_metric_top_eigenvalue, sharpness_metric_largest_algebraic, sharpness_metric_smallest_algebraic,
    sharpness_metric_spectral_norm, sharpness_metric_relative_largest, sharpness_metric_relative_trace,
    sharpness_metric_critical, sharpness_metric_preconditioned, sharpness_metric_trace_per_parameter,
    sharpness_metric_trace, sharpness_metric_predicted_delta, sharpness_metric_gradient_term,
    sharpness_metric_curvature_term, sharpness_metric_measured_delta, sharpness_metric_random_curvature_term,
    sharpness_metric_curvature_ratio, sharpness_metric_random_delta;

#endif
