/* quantized_loss.h: a quantization of a tiny model, which must succeed, and what it does to the loss. */
#ifndef QUANTIZED_LOSS_H
#define QUANTIZED_LOSS_H

#include "engine/jobs/tiny_fixture.h"
#include "jobs/quantize/quantize.h"

static inline enum status try_method(const struct fixture *f, struct quantize_method method,
                                     struct quantize_result *result, struct error *error)
{
    const enum status status = quantize_method_complete(&method, error);
    const struct quantize_request request = {.model = f->model,
                                             .backend = f->backend,
                                             .method = method,
                                             .calibration = &f->calibration,
                                             .evaluation = &f->evaluation};
    return status == STATUS_OK ? quantize_run(&request, result, error) : status;
}

static inline struct quantize_result run(const struct fixture *f, struct quantize_method method)
{
    struct error error;
    struct quantize_result result = {0};
    if (try_method(f, method, &result, &error) != STATUS_OK) fail_msg("%s: %s", error.pointer, error.detail);
    return result;
}

static inline double kl_of(const struct fixture *f, struct quantize_method method)
{
    struct quantize_result result = run(f, method);
    const double kl = result.kl;
    quantize_result_reset(&result);
    return kl;
}

static inline struct quantize_method rtn_of(int64_t bits)
{
    return (struct quantize_method){.quantizer = QUANTIZER_RTN, .rtn = {bits, 16, true}};
}

#endif
