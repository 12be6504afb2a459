#include "kinds/method.h"

#include "schema/schema.h"

#include <stddef.h>
#include <stdio.h>

static const struct param_variant variants[] = {QUANTIZE_METHOD_VARIANTS(0), {0}};

enum status method_check(const struct kind_request *request, const struct quantize_method *method, bool calibrated,
                         struct error *error)
{
    const struct quantizer *quantizer = quantizer_by_id(method->quantizer);
    struct quantize_method settled = *method;
    const struct error *cause = error;
    char pointer[sizeof error->pointer], detail[sizeof error->detail];
    if (!calibrated && (quantizer->needs & NEED_INPUT_HESSIAN) != 0)
        return error_set_at(error, STATUS_INVALID, "/params/calibration", "is missing: \"%s\" needs calibration data",
                            quantizer->name);
    const enum status status = quantize_method_settle(&settled, error);
    if (status != STATUS_OK) {
        (void)snprintf(pointer, sizeof pointer, "/params/method%.120s", cause->pointer);
        (void)snprintf(detail, sizeof detail, "%s", cause->detail);
        return error_set_at(error, status, pointer, "%s", detail);
    }
    const struct param_variant *variant = &variants[settled.quantizer];
    return schema_write_back(variant->params, (const char *)&settled + variant->offset, json_object_get(request->params, "method"),
                             error);
}
