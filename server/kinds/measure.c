#include "kinds/measure.h"

#include "eval/student.h"
#include "kinds/method.h"
#include "kinds/metrics.h"
#include "schema/result_render.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

static_assert(sizeof((struct measurement *)0)->label == METHOD_LABEL, "a label is stored whole");

struct measurement measure_series(const struct store_id *checkpoint, const char *dataset, const char *protocol,
                                  const struct quantize_method *method)
{
    struct measurement series = {.checkpoint = *checkpoint, .low = NAN, .high = NAN};
    (void)snprintf(series.dataset, sizeof series.dataset, "%s", dataset);
    (void)snprintf(series.protocol, sizeof series.protocol, "%s", protocol);
    if (method == NULL) return series;
    (void)snprintf(series.method, sizeof series.method, "%s", quantizer_by_id(method->quantizer)->name);
    method_label(method, series.label);
    series.bits = method_bits(method);
    return series;
}

void measure_calibrated(struct measurement *series, const struct protocol_calibration *calibration)
{
    (void)snprintf(series->calibration, sizeof series->calibration, "%s", calibration->id);
    (void)snprintf(series->calibrated_on, sizeof series->calibrated_on, "%s", calibration->text);
}

static double double_at(const char *base, size_t offset)
{
    return *(const double *)(base + offset);
}

static enum status measure_field(const struct result_field *field, const char *base, const struct measurement *series,
                                 struct measurements *out, struct error *error)
{
    const struct result_metric *metric = field->metric;
    struct measurement item = *series;
    if (metrics_find(metric->name) != metric)
        return error_set(error, STATUS_INTERNAL, "the metric %s is in no table of a kind", metric->name);
    item.value = double_at(base, field->offset);
    item.low = item.high = NAN;
    if (field->spread == RESULT_BETWEEN) {
        item.low = double_at(base, field->spread_low);
        item.high = double_at(base, field->spread_high);
    }
    if (field->spread == RESULT_STDERR) {
        const double degrees = field->spread_degrees > 0 ? double_at(base, field->spread_degrees)
                                                         : (double)(*(const int64_t *)(base + field->spread_count) - 1);
        const double spread = student_quantile(degrees) * double_at(base, field->spread_low);
        item.low = item.value - spread;
        item.high = item.value + spread;
    }
    (void)snprintf(item.metric, sizeof item.metric, "%s", metric->name);
    if (!metric->of_method && !field->of_method) {
        item.method[0] = item.label[0] = item.calibration[0] = item.calibrated_on[0] = '\0';
        item.bits = 0;
    }
    return measurements_add(out, &item, error);
}

enum status measure_result(const struct result_shape *shape, const void *from, const struct measurement *series,
                           struct measurements *out, struct error *error)
{
    const char *base = from;
    enum status status = STATUS_OK;
    for (const struct result_field *field = shape->fields; field->type != RESULT_END && status == STATUS_OK; field++) {
        if (!result_has(field, base)) continue;
        if (field->type == RESULT_OBJECT || field->type == RESULT_MERGED)
            status = measure_result(field->shape, base + field->offset, series, out, error);
        else if (field->metric != NULL && !field->unkept)
            status = measure_field(field, base, series, out, error);
    }
    return status;
}
