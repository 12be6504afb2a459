/* service_metrics.h: the part of /metrics that is not about HTTP. Its numbers are of one moment, and are read again at
 * most every SERVICE_METRICS_SECONDS, however often they are requested. */
#ifndef RESOURCES_SERVICE_METRICS_H
#define RESOURCES_SERVICE_METRICS_H

#include "base/buffer.h"
#include "postgres/connection.h"

enum { SERVICE_METRICS_SECONDS = 5 };

struct service_metrics;

/* `data_directory` is lent while it lives. The caller owns *out (service_metrics_free). */
MUST_CHECK enum status service_metrics_new(const char *data_directory, struct service_metrics **out,
                                           struct error *error);
void service_metrics_free(struct service_metrics *metrics); /* NULL is fine */

/* Appends Prometheus text. While the database is unavailable deltaq_database_up is 0 and its other numbers are left
 * out. Any thread, with its own connection; a failed append is reported by the buffer. */
void service_metrics_render(struct service_metrics *metrics, struct connection *connection, struct buffer *out);

#endif
