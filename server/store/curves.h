/* curves.h: measurements against the course of training. */
#ifndef STORE_CURVES_H
#define STORE_CURVES_H

#include "store/store.h"

enum curve_axis { CURVE_STEP, CURVE_TOKENS, CURVE_LEARNING_RATE };

struct curve_query {
    const char *const *trajectories; /* references */
    size_t trajectory_count;
    const char *metric; /* any measured metric, or "learning_rate" */
    enum curve_axis axis;
    const char *method, *dataset; /* NULL: all */
    int bits;                     /* 0: all */
};

/* {"metric", "x", "series": [{"trajectory", "label", "method", "bits", "dataset", "points": [{"x", "y", "low", "high",
 * "checkpoint", "checkpoint_name", "run"}]}]}, points by x; where a checkpoint was measured more than once the newest run counts.
 * STATUS_NOT_FOUND for an unknown trajectory. */
MUST_CHECK enum status curve_read(struct connection *connection, const struct curve_query *query, json_t **document,
                                  struct error *error);

/* [{"trajectory", "checkpoint", "label_x", "label_y", "x", "y"}]: two metrics of the same checkpoints, for correlations. The labels
 * of y vary; x is matched on the same label if it has one there, else on full precision. `trajectory` may be NULL. */
MUST_CHECK enum status curve_pairs(struct connection *connection, const char *trajectory, const char *metric_x,
                                   const char *metric_y, json_t **document, struct error *error);

/* The names that can be asked for: ["delta", "loss_fp", ...]. */
MUST_CHECK enum status curve_metrics(struct connection *connection, json_t **document, struct error *error);

#endif
