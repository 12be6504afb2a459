/* measure.h: the measurements of a run, taken from its result by the rows that are metrics. */
#ifndef KINDS_MEASURE_H
#define KINDS_MEASURE_H

#include "base/result.h"
#include "kinds/protocol.h"
#include "quant/quantizer.h"
#include "store/measurements.h"

/* Describes the series of measurements: everything but value and metric. `method` NULL: none. */
struct measurement measure_series(const struct store_id *checkpoint, const char *dataset, const char *protocol,
                                  const struct quantize_method *method);

/* Adds the calibration of the series' method. */
void measure_calibrated(struct measurement *series, const struct protocol_calibration *calibration);

/* Adds every metric of the struct at `from`, also of objects in it, but not of lists. `series` describes them:
 * checkpoint, dataset, protocol, and the method with label, bits and calibration, which only metrics of the quantized
 * model get. STATUS_NO_MEMORY, STATUS_TOO_LARGE (measurements_add); STATUS_INTERNAL for a metric that GET /v1/metrics
 * would not list. */
MUST_CHECK enum status measure_result(const struct result_shape *shape, const void *from,
                                      const struct measurement *series, struct measurements *out, struct error *error);

#endif
