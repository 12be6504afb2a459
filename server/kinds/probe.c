#include "kinds/probe.h"

#include "kinds/method.h"

#include <math.h>
#include <stdio.h>

enum status probe_check(struct run_request *request, const char *checkpoint, const struct quantize_method *method,
                        const struct data_use *evaluation, const char *object, const struct data_use *calibration,
                        struct error *error)
{
    enum status status = inputs_check_use(request, checkpoint, evaluation->dataset, object, error);
    if (status != STATUS_OK) return status;
    if (!point_method_given(method)) {
        if (calibration->dataset == NULL) return STATUS_OK;
        return error_set_at(error, STATUS_INVALID, "/params/calibration", "is of no use without a method");
    }
    if ((status = method_check(request, checkpoint, NULL, method, calibration->dataset != NULL, error)) != STATUS_OK)
        return status;
    if (calibration->dataset == NULL) return STATUS_OK;
    return inputs_check_use(request, checkpoint, calibration->dataset, "calibration", error);
}

enum status probe_open(const struct run_context *context, struct checkpoint_set *set,
                       const struct quantize_method *method, const struct data_use *evaluation,
                       const struct data_use *calibration, int64_t seed, struct probe *out, struct error *error)
{
    struct inputs *first = &set->inputs[0];
    const bool quantized = point_method_given(method);
    *out = (struct probe){.method = *method};
    enum status status = inputs_sequences(context, first, evaluation, false, &out->evaluation, out->dataset, error);
    if (status == STATUS_OK && calibration->dataset != NULL)
        status = inputs_sequences(context, first, calibration, true, &out->calibration, NULL, error);
    if (status == STATUS_OK && quantized) status = quantize_method_complete(&out->method, error);
    out->request = (struct point_request){
        .family = &set->family,
        .backend = first->backend,
        .evaluation = &out->evaluation,
        .method = quantized ? &out->method : NULL,
        .calibration = out->calibration.count > 0 ? &out->calibration : NULL,
        .seed = (uint64_t)seed,
        .directory = context->work_directory,
        .monitor = context->monitor,
    };
    if (status != STATUS_OK) probe_reset(out);
    return status;
}

void probe_reset(struct probe *probe)
{
    dataset_sequences_free(&probe->evaluation);
    dataset_sequences_free(&probe->calibration);
    *probe = (struct probe){0};
}

enum status probe_set_open(const struct run_context *context, const char *const *ids, int64_t count, int precision,
                           const struct quantize_method *method, const struct data_use *evaluation,
                           const struct data_use *calibration, int64_t seed, struct probe_set *out, struct error *error)
{
    *out = (struct probe_set){.set = {.count = 0}};
    const enum status status = checkpoint_set_open(context, ids, count, precision, &out->set, error);
    return status == STATUS_OK
               ? probe_open(context, &out->set, method, evaluation, calibration, seed, &out->probe, error)
               : status;
}

void probe_set_reset(struct probe_set *probe)
{
    probe_reset(&probe->probe);
    checkpoint_set_reset(&probe->set);
}

const char *probe_note_text(const struct point *points, int64_t count, char text[PROBE_NOTE])
{
    int64_t missing = 0;
    for (int64_t i = 0; i < count; i++) missing += !isfinite(points[i].loss);
    (void)snprintf(text, PROBE_NOTE,
                   "%lld loss(es) are not finite: the model's outputs overflow or are not numbers there",
                   (long long)missing);
    return missing > 0 ? text : NULL;
}
