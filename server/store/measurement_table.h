/* measurement_table.h: the table of measurements that people read: a row for each checkpoint and series. Full precision
 * counts as a method. */
#ifndef STORE_MEASUREMENT_TABLE_H
#define STORE_MEASUREMENT_TABLE_H

#include "store/series_filter.h"
#include "store/store.h"

struct measurement_filter {
    const char *const *trajectories; /* references */
    size_t trajectory_count;         /* 0: all */
    const char *checkpoint;          /* reference; NULL: all */
    const json_t *metrics;           /* array of names; NULL: all. Rows without any of these metrics are left out */
    const json_t *shown;             /* array of the names whose numbers a row has, those of metrics too; NULL: all */
    const json_t *tags;              /* array of {"key", "value" or null}, all of which a checkpoint must have; NULL */
    struct series_filter series;
    int64_t step_from, step_to;         /* inclusive; a checkpoint without a step matches the full range only */
    const char *name;                   /* of the checkpoint; "*" stands for any text; NULL: all */
    int64_t measured_from, measured_to; /* when the measuring run ended; as in struct list_filter */
    bool descending;                    /* by falling step within a trajectory */
};

/* A filter whose references were resolved to ids. */
struct measurement_selection {
    const struct measurement_filter *filter;
    json_t *trajectories; /* owned: array of ids */
    struct store_id checkpoint;
};

/* STATUS_NOT_FOUND for an unknown trajectory or checkpoint. On STATUS_OK the caller owns what is in *out
 * (measurement_selection_reset); `filter` is lent. */
MUST_CHECK enum status measurement_select(struct connection *connection, const struct measurement_filter *filter,
                                          struct measurement_selection *out, struct error *error);
void measurement_selection_reset(struct measurement_selection *selection);

/* {"labels": {SERIES: LABEL}, "metrics": [NAME]}: a distinct label for each series of the selected trajectories, and
 * the metrics that occur in the selection. */
MUST_CHECK enum status measurement_series(struct connection *connection, const struct measurement_selection *selection,
                                          json_t **document, struct error *error);

/* {"items", "next"}: all rows of at most page->limit checkpoints that have any, by trajectory in the given order, step
 * (or falling step) and series. A row: {"trajectory", "trajectory_id", "checkpoint", "checkpoint_name", "step",
 * "tokens", "learning_rate", "tags", "series", "method_label", "method", "bits", "dataset", "evaluated_on",
 * "protocol_id", "calibration_id", "calibrated_on", "run", "measured_at", "values": {METRIC: [VALUE, LOW, HIGH]}}. The
 * newest measurement counts; `run` and `measured_at` are of the newest in the row. Checkpoints of the same content
 * share what was measured. STATUS_INVALID at /cursor when the page's last checkpoint is gone. */
MUST_CHECK enum status measurement_page(struct connection *connection, const struct measurement_selection *selection,
                                        const struct page *page, json_t **document, struct error *error);

/* {"items", "next", "cursor"}: the rows of the selection that are new or changed since the change `since` (changes.h),
 * in the order in which they changed; each row once, with its newest numbers. A call examines page->limit changes at
 * most. The page's cursor, when given, replaces `since`. "cursor": every change up to it is reported; "next": the same
 * cursor while more can be read at once, else null. The query needs only the log's marks, so no `since` is too old; one
 * beyond the log's end is STATUS_GONE. */
MUST_CHECK enum status measurement_updates(struct connection *connection, const struct measurement_selection *selection,
                                           const struct page *page, int64_t since, json_t **document,
                                           struct error *error);

#endif
