#include "jobs/point.h"

#include "base/checksum.h"
#include "jobs/quantize/quantize.h"

#include <math.h>
#include <string.h>

/* A table leaves a null method zeroed, and no quantizer has 0 bits. */
bool point_method_given(const struct quantize_method *method)
{
    return method->quantizer != QUANTIZER_RTN || method->rtn.bits != 0;
}

static struct quantize_request quantization_of(const struct point_request *request, const struct model *model,
                                               const struct monitor *monitor)
{
    return (struct quantize_request){
        .model = model,
        .backend = request->backend,
        .method = *request->method,
        .calibration = request->calibration,
        .evaluation = request->evaluation,
        .seed = request->seed,
        .directory = request->directory,
        .monitor = monitor,
    };
}

static struct evaluate_request evaluation_of(const struct point_request *request, const struct model *model,
                                             const struct monitor *monitor)
{
    return (struct evaluate_request){.model = model,
                                     .backend = request->backend,
                                     .sequences = request->evaluation,
                                     .directory = request->directory,
                                     .monitor = monitor};
}

static enum status measure_quantized(const struct quantize_request *quantize, struct point *out, struct error *error)
{
    struct quantize_result found = {0};
    const enum status status = quantize_run(quantize, &found, error);
    if (status == STATUS_OK)
        *out = (struct point){found.fp.loss, found.q.loss, found.delta, found.delta_low, found.delta_high};
    quantize_result_reset(&found);
    return status;
}

static enum status measure_full(const struct evaluate_request *evaluate, struct point *out, struct error *error)
{
    struct evaluate_result found = {0};
    const enum status status = evaluate_asked(evaluate, &found, error);
    *out = (struct point){found.loss, NAN, NAN, NAN, NAN};
    evaluate_result_reset(&found);
    return status;
}

enum status point_measure(const struct point_request *request, const double *coefficients, double divisor,
                          struct point *out, struct error *error)
{
    struct monitor quiet = {0};
    struct model *model = NULL;
    if (request->monitor != NULL)
        quiet = (struct monitor){.owner = request->monitor->owner, .check = request->monitor->check};
    enum status status = family_model(request->family, coefficients, divisor, &model, error);
    if (status == STATUS_OK && request->method != NULL) {
        const struct quantize_request quantize = quantization_of(request, model, &quiet);
        status = measure_quantized(&quantize, out, error);
    } else if (status == STATUS_OK) {
        const struct evaluate_request evaluate = evaluation_of(request, model, &quiet);
        status = measure_full(&evaluate, out, error);
    }
    model_close(model);
    return status;
}

enum status point_plan(const struct point_request *request, const double *coefficients, double divisor,
                       const struct plan_budget *budget, struct run_plan *out, struct error *error)
{
    struct model *model = NULL;
    struct run_plan walk;
    *out = (struct run_plan){.flops = 0};
    enum status status = family_model(request->family, coefficients, divisor, &model, error);
    if (status == STATUS_OK && request->method != NULL) {
        const struct quantize_request quantize = quantization_of(request, model, NULL);
        status = quantize_plan(&quantize, 1, budget, &walk, error);
    } else if (status == STATUS_OK) {
        const struct evaluate_request evaluate = evaluation_of(request, model, NULL);
        status = evaluate_plan(&evaluate, budget, &walk, error);
    }
    if (status == STATUS_OK) {
        plan_take(out, PLAN_HOST, family_model_bytes(request->family));
        plan_add(out, &walk, 1);
    }
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
