/* measurement_fields.h: the columns of GET /v1/measurements: what names a row, and every metric with its interval. */
#ifndef RESOURCES_MEASUREMENT_FIELDS_H
#define RESOURCES_MEASUREMENT_FIELDS_H

#include "base/error.h"

#include <jansson.h>

/* Checks the names of a comma-separated `list` (`fields`), or takes all names of a row when it is NULL: *columns is an
 * array of names in their order. *metrics is an array of those metrics that they show, or NULL when `list` is NULL or
 * names none. The caller owns both (json_decref). STATUS_INVALID for an unknown name or one that comes twice, with what
 * there is. */
MUST_CHECK enum status measurement_fields_read(const char *list, json_t **columns, json_t **metrics,
                                               struct error *error);

/* Appends NAME, NAME_low and NAME_high of each metric in `names`, in the order of GET /v1/metrics. */
MUST_CHECK enum status measurement_fields_add(json_t *columns, const json_t *names, struct error *error);

/* Where a row has what stands in a column: in itself, or in one of its metrics. */
struct measurement_column {
    const char *name;   /* lent by the array of names */
    const char *metric; /* NULL: the row itself has a field of that name */
    size_t part;        /* of the metric's [VALUE, LOW, HIGH] */
};

/* Looks up every name once, for all rows. On STATUS_OK the caller owns *out (free), as many as there are names. */
MUST_CHECK enum status measurement_fields_place(const json_t *columns, struct measurement_column **out,
                                                struct error *error);

/* What a stored row ("values": {METRIC: [VALUE, LOW, HIGH]}) has under that column; NULL: nothing. Lent by the row. */
json_t *measurement_field(const json_t *row, const struct measurement_column *column);

#endif
