/* prometheus.h: Prometheus' text form of metrics (version 0.0.4). A metric is a row of a table; its head is written
 * also where it has no sample. */
#ifndef HTTP_PROMETHEUS_H
#define HTTP_PROMETHEUS_H

#include "base/buffer.h"

#define PROMETHEUS_TYPE "text/plain; version=0.0.4; charset=utf-8"

enum { PROMETHEUS_LABELS = 2 };

struct prometheus_row {
    const char *name;                      /* "deltaq_..." with its unit: _bytes, _seconds; counters end with _total */
    const char *type;                      /* "gauge", "counter", "histogram" */
    const char *help;                      /* one line */
    const char *labels[PROMETHEUS_LABELS]; /* ends with NULL */
};

void prometheus_head(const struct prometheus_row *row, struct buffer *out);
/* Writes one sample. `labels`: one value for each label of the row, any characters; may be NULL when the row has
 * none. */
void prometheus_sample(const struct prometheus_row *row, const char *const *labels, double value, struct buffer *out);

#endif
