/* curve_points.h: the points of curves (curves.h). They are read as rows, and not as JSON that the database builds:
 * that takes four times the processor time, and a curve has thousands of points. */
#ifndef STORE_CURVE_POINTS_H
#define STORE_CURVE_POINTS_H

#include "store/curves.h"

/* The named trajectories. They are passed as an array because the planner assumes that it is short; of a set it assumes
 * a hundred rows. */
#define CURVE_NAMED "array(select json_array_elements_text($1::json))"

/* By enum curve_axis. */
extern const char *const curve_points_axes[];

enum curve_column {
    CURVE_X,
    CURVE_Y,
    CURVE_LOW,
    CURVE_HIGH,
    CURVE_CHECKPOINT,
    CURVE_CHECKPOINT_NAME,
    CURVE_POINT_STEP,
    CURVE_RUN,
    CURVE_COLUMNS
};
/* The name of a column in a point, and whether it is a number. */
struct curve_column_name {
    const char *name;
    bool number;
};
extern const struct curve_column_name curve_points_columns[CURVE_COLUMNS];

/* The points of one series: rows [first, first + count), and which of them are kept. */
struct curve_span {
    int first, count;
    bool *kept; /* [count], owned; NULL: all */
};

struct curve_points {
    json_t *series; /* [[place of the trajectory among those that were named, id of the series, number of points,
                     * rank of query->checkpoint or null]] */
    struct curve_span *spans; /* of each, by x */
    size_t count;             /* of spans */
    struct rows *rows;
};

/* Reads the curves of `trajectories`, ids. A series with more points than query->points keeps the first, the last, the
 * lowest and highest of each part of the curve, and that of query->checkpoint. On STATUS_OK the caller owns what is in
 * *out (curve_points_reset). */
MUST_CHECK enum status curve_points_read(struct connection *connection, const json_t *trajectories,
                                         const struct curve_query *query, struct curve_points *out,
                                         struct error *error);
void curve_points_reset(struct curve_points *points);

/* Whether another checkpoint has, or had, the content of one of the trajectories, ids; of any where none is named. Only
 * then does a question have to look for numbers that were measured elsewhere. */
MUST_CHECK enum status curve_points_shared(struct connection *connection, const json_t *trajectories, bool *shared,
                                           struct error *error);

/* The value as PostgreSQL writes it; NULL for null. Lent. */
const char *curve_points_text(const struct curve_points *points, int row, enum curve_column column);

/* The points of a span: [{"x", "y", "low", "high", "checkpoint", "checkpoint_name", "step", "run"}]. */
MUST_CHECK enum status curve_points_json(const struct curve_points *points, size_t span, json_t **out,
                                         struct error *error);

#endif
