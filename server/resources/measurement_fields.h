/* measurement_fields.h: the columns of GET /v1/measurements: the names that identify a row, and every metric with its
 * interval. */
#ifndef RESOURCES_MEASUREMENT_FIELDS_H
#define RESOURCES_MEASUREMENT_FIELDS_H

#include "base/error.h"

#include <jansson.h>

/* Checks the names of a comma-separated `list` (`fields`), or takes all identifying names when it is NULL. *columns:
 * the array of names in their order. *metrics: the array of metrics among them; NULL when `list` is NULL or names none.
 * The caller owns both (json_decref). STATUS_INVALID for an unknown or repeated name, with the known names. */
MUST_CHECK enum status measurement_fields_read(const char *list, json_t **columns, json_t **metrics,
                                               struct error *error);

/* Appends NAME, NAME_low and NAME_high of each metric in `names`, in the order of GET /v1/metrics. */
MUST_CHECK enum status measurement_fields_add(json_t *columns, const json_t *names, struct error *error);

/* The source of a column in a row: a field of the row, or a part of one of its metrics. */
struct measurement_column {
    const char *name;   /* lent by the array of names */
    const char *metric; /* NULL: the row has a field of that name */
    size_t part;        /* index into the metric's [VALUE, LOW, HIGH] */
};

/* Looks up all names once, for all rows. On STATUS_OK the caller owns *out (free), which has one item for each name. */
MUST_CHECK enum status measurement_fields_place(const json_t *columns, struct measurement_column **out,
                                                struct error *error);

/* The value of a stored row ("values": {METRIC: [VALUE, LOW, HIGH]}) in that column; NULL: none. Lent by the row. */
json_t *measurement_field(const json_t *row, const struct measurement_column *column);

#endif
