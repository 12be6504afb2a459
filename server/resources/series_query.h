/* series_query.h: the query fields by which measurements, curves, correlations and change points are chosen. */
#ifndef RESOURCES_SERIES_QUERY_H
#define RESOURCES_SERIES_QUERY_H

#include "http/request.h"
#include "postgres/connection.h"
#include "store/series_filter.h"

enum { SERIES_QUERY_TRAJECTORIES = 32 /* at most, in one request */ };

/* Reads method, bits, dataset, protocol and calibration. *out lends texts of the request. A method or a dataset that
 * does not exist is STATUS_INVALID, not an empty answer. */
MUST_CHECK enum status series_query_filter(struct connection *connection, const struct request *request,
                                           struct series_filter *out, struct error *error);

/* Refuses what was read so beside a metric that no run measures, which has no series to choose among. `field`: where
 * the metric was asked for ("metric", "y"). STATUS_INVALID at the first of them. */
MUST_CHECK enum status series_query_fits(const struct request *request, const struct series_filter *filter,
                                         const char *field, const char *metric, struct error *error);

/* Reads trajectory, which may be repeated, into names[SERIES_QUERY_TRAJECTORIES], lent by the request. */
MUST_CHECK enum status series_query_trajectories(const struct request *request, const char **names, size_t *count,
                                                 struct error *error);

#endif
