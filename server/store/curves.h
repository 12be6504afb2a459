/* curves.h: measurements against the course of training. */
#ifndef STORE_CURVES_H
#define STORE_CURVES_H

#include "store/series_filter.h"
#include "store/store.h"

enum curve_axis { CURVE_STEP, CURVE_TOKENS, CURVE_LEARNING_RATE };

struct curve_query {
    const char *const *trajectories; /* references */
    size_t trajectory_count;
    const char *metric; /* any measured metric, or "learning_rate" */
    enum curve_axis axis;
    struct series_filter series;
    int64_t points;         /* most of a series: the first, the last, the lowest and highest of each part; 0: all */
    const char *checkpoint; /* id of one whose point is kept besides and has a rank; NULL: none */
};

/* {"metric", "x", "series": [{"trajectory", "label", "method_label", "method", "bits", "dataset", "protocol_id",
 * "calibration_id", "calibrated_on", "evaluated_on", "total", "rank", "points": [{"x", "y", "low", "high",
 * "checkpoint", "checkpoint_name", "step", "run"}]}]}, points by x. Where a checkpoint was measured more than once, the
 * newest run counts. "rank": the place of query->checkpoint among all points, the greatest first; null without. A label
 * names the calibration or the evaluation where it would otherwise equal that of another series.
 * STATUS_NOT_FOUND for an unknown trajectory. */
MUST_CHECK enum status curve_read(struct connection *connection, const struct curve_query *query, json_t **document,
                                  struct error *error);

/* As curve_read, but "points" of a series is the number of its span in *points. On STATUS_OK the caller owns both
 * (curve_points_reset of curve_points.h). */
struct curve_points;
MUST_CHECK enum status curve_open(struct connection *connection, const struct curve_query *query,
                                  struct curve_points *points, json_t **document, struct error *error);

/* Replaces the span numbers of such a document by the points. */
MUST_CHECK enum status curve_attach(json_t *document, const struct curve_points *points, struct error *error);

struct curve_pairs_query {
    const char *const *trajectories; /* references */
    size_t trajectory_count;         /* 0: all */
    const char *x, *y;               /* metrics, or "step", "tokens", "learning_rate" of the checkpoint */
    struct series_filter series;     /* of y */
    const char *protocol_x;          /* of x; NULL: any */
    int64_t most;                    /* at most so many pairs, whichever they are; 0: all */
};

/* [{"trajectory", "checkpoint", "checkpoint_name", "step", "tokens", "unit", "series", "label", "method", "bits",
 * "dataset", "protocol_id", "calibration_id", "calibrated_on", "label_x", "dataset_x", "protocol_id_x",
 * "calibration_id_x", "x", "y", "run_x", "run_y"}]: two metrics of the same checkpoints, the newest measurement of each
 * series. A pair of a series of y and one of x has a number of its own, "series" from 0: x is of the same label where
 * it was measured so, else of full precision; where y is of full precision and x is not, each method of x has a pair.
 * x is of the same protocol, dataset and calibration before others (so is y, where x alone has a method), and of all
 * series that are equally near. By series, trajectory, step. "unit": what is independent of others, the tag `seed` of
 * the checkpoint, or else the first trajectory of its line: branches and averages belong to their trunk. Checkpoints of
 * the same content share numbers as in curves; where several trajectories have it, the one that was registered first
 * has the pair, and the others do not. STATUS_NOT_FOUND for an unknown trajectory. */
MUST_CHECK enum status curve_pairs(struct connection *connection, const struct curve_pairs_query *query,
                                   json_t **document, struct error *error);

/* The names of all metrics that were measured: ["delta", "loss_fp", ...]. */
MUST_CHECK enum status curve_metrics(struct connection *connection, json_t **document, struct error *error);

#endif
