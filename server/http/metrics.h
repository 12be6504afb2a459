/* metrics.h: counters of the HTTP layer, lock-free, rendered as Prometheus text. */
#ifndef HTTP_METRICS_H
#define HTTP_METRICS_H

#include "base/buffer.h"
#include "http/router.h"

#include <stdint.h>

struct metrics;

/* Makes a row for each route, then METRICS_STATIC and METRICS_OTHER. The caller owns *out (metrics_free). */
MUST_CHECK enum status metrics_new(const struct route *routes, size_t count, struct metrics **out, struct error *error);
void metrics_free(struct metrics *metrics); /* NULL is fine */

size_t metrics_row(const struct metrics *metrics,
                   const struct route *route); /* NULL: the row of requests that match no route */
size_t metrics_row_static(const struct metrics *metrics);

/* Counts one answer. */
void metrics_count(struct metrics *metrics, size_t row, int http_status, int64_t milliseconds);

/* The reason why a request was refused before any work was done for it. */
enum metrics_refused { METRICS_REFUSED_TOKEN_RATE, METRICS_REFUSED_ADDRESS_RATE, METRICS_REFUSED_WHO, METRICS_REFUSED };
void metrics_refused(struct metrics *metrics, enum metrics_refused why);

/* Changes the gauge of open connections. */
void metrics_connections(struct metrics *metrics, int change);

/* Appends all counters except those of routes that were never used. */
void metrics_render(const struct metrics *metrics, unsigned queued, unsigned waiting, unsigned streams,
                    struct buffer *out);

#endif
