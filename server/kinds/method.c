#include "kinds/method.h"

#include "schema/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct param_variant variants[] = {QUANTIZE_METHOD_VARIANTS(0), {0}};

static const struct param_variant *variant_of(const struct quantize_method *method)
{
    return &variants[method->quantizer];
}

enum status method_check(const struct kind_request *request, const char *object, const struct quantize_method *method,
                         bool calibrated, struct error *error)
{
    const struct quantizer *quantizer = quantizer_by_id(method->quantizer);
    const json_t *holder = object != NULL ? json_object_get(request->params, object) : request->params;
    struct quantize_method settled = *method;
    struct error cause;
    char base[40], pointer[sizeof cause.pointer];
    (void)snprintf(base, sizeof base, "/params%s%s", object != NULL ? "/" : "", object != NULL ? object : "");
    if (!calibrated && (quantizer->needs & NEED_INPUT_HESSIAN) != 0) {
        (void)snprintf(pointer, sizeof pointer, "%s/calibration", base);
        return error_set_at(error, STATUS_INVALID, pointer, "is missing: \"%s\" needs calibration data", quantizer->name);
    }
    const enum status status = quantize_method_settle(&settled, &cause);
    if (status != STATUS_OK) {
        (void)snprintf(pointer, sizeof pointer, "%s/method%.100s", base, cause.pointer);
        return error_set_at(error, status, pointer, "%s", cause.detail);
    }
    const struct param_variant *variant = variant_of(&settled);
    return schema_write_back(variant->params, (const char *)&settled + variant->offset, json_object_get(holder, "method"), error);
}

int64_t method_integer(const struct quantize_method *method, const char *name)
{
    const struct param_variant *variant = variant_of(method);
    int64_t value = 0;
    for (const struct param *param = variant->params; param->type != PARAM_END; param++)
        if (param->type == PARAM_INTEGER && strcmp(param->name, name) == 0)
            memcpy(&value, (const char *)method + variant->offset + param->offset, sizeof value);
    return value;
}

void method_label(const struct quantize_method *method, char *out, size_t size)
{
    const struct param_variant *variant = variant_of(method);
    const char *base = (const char *)method + variant->offset;
    (void)snprintf(out, size, "%s %lld-bit g%lld", variant->name, (long long)method_integer(method, "bits"),
                   (long long)method_integer(method, "group_size"));
    for (const struct param *param = variant->params; param->type != PARAM_END; param++) {
        const size_t used = strlen(out);
        if (param->type == PARAM_BOOLEAN) {
            const bool on = *(const bool *)(const void *)(base + param->offset);
            if (on != (strcmp(param->fallback, "true") == 0))
                (void)snprintf(out + used, size - used, " %s%s", on ? "" : "no ", param->name);
        } else if (param->type == PARAM_NUMBER) {
            double value;
            memcpy(&value, base + param->offset, sizeof value);
            if (value != strtod(param->fallback, NULL)) (void)snprintf(out + used, size - used, " %s %g", param->name, value);
        }
    }
}
