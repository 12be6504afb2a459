#include "jobs/point.h"

#include "base/checksum.h"
#include "jobs/quantize.h"

#include <math.h>
#include <string.h>

/* A table leaves a null method zeroed, and no quantizer has 0 bits. */
bool point_method_given(const struct quantize_method *method)
{
    return method->quantizer != QUANTIZER_RTN || method->rtn.bits != 0;
}

static enum status measure_quantized(const struct point_request *request, const struct model *model, const struct monitor *monitor,
                                     struct point *out, struct error *error)
{
    const struct quantize_request quantize = {
        .model = model,
        .backend = request->backend,
        .method = *request->method,
        .calibration = request->calibration,
        .evaluation = request->evaluation,
        .seed = request->seed,
        .monitor = monitor,
    };
    struct quantize_result found = {0};
    const enum status status = quantize_run(&quantize, &found, error);
    if (status == STATUS_OK) *out = (struct point){found.fp.loss, found.q.loss, found.delta, found.delta_low, found.delta_high};
    quantize_result_reset(&found);
    return status;
}

enum status point_measure(const struct point_request *request, const double *coefficients, double divisor, struct point *out,
                          struct error *error)
{
    struct monitor quiet = {0};
    struct model *model = NULL;
    struct evaluate_result found = {0};
    if (request->monitor != NULL) quiet = (struct monitor){.owner = request->monitor->owner, .check = request->monitor->check};
    enum status status = family_model(request->family, coefficients, divisor, &model, error);
    if (status == STATUS_OK && request->method != NULL) {
        status = measure_quantized(request, model, &quiet, out, error);
    } else if (status == STATUS_OK) {
        status = evaluate_run(model, request->backend, request->evaluation, &quiet, &found, error);
        *out = (struct point){found.loss, NAN, NAN, NAN, NAN};
    }
    evaluate_result_reset(&found);
    model_close(model);
    return status;
}

uint64_t point_fingerprint(const struct point_request *request)
{
    struct checksum sum;
    const int64_t numbers[] = {request->family->count,
                               request->family->parameters,
                               request->evaluation->count,
                               request->evaluation->starts[request->evaluation->count],
                               (int64_t)request->seed,
                               request->calibration != NULL ? request->calibration->count : 0,
                               request->method != NULL ? 1 + request->method->quantizer : 0};
    checksum_init(&sum);
    checksum_add(&sum, numbers, sizeof numbers);
    return checksum_value(&sum);
}
