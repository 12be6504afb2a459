/* service_metrics.h: what /metrics tells beside the counters of HTTP. Its numbers are of one moment, and are read anew
 * every SERVICE_METRICS_SECONDS at most, however often they are asked for. */
#ifndef RESOURCES_SERVICE_METRICS_H
#define RESOURCES_SERVICE_METRICS_H

#include "base/buffer.h"
#include "postgres/connection.h"

enum { SERVICE_METRICS_SECONDS = 5 };

struct service_metrics;

/* `data_directory` is lent for its life. The caller owns *out (service_metrics_free). */
MUST_CHECK enum status service_metrics_new(const char *data_directory, struct service_metrics **out,
                                           struct error *error);
void service_metrics_free(struct service_metrics *metrics); /* NULL is fine */

/* Appends Prometheus text. While the database is away deltaq_database_up is 0 and what it would tell is left out. Any
 * thread, with a connection of its own; a failure to append is the buffer's. */
void service_metrics_render(struct service_metrics *metrics, struct connection *connection, struct buffer *out);

#endif
