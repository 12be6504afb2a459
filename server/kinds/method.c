#include "kinds/method.h"

#include "base/words.h"
#include "inputs/posted_model.h"
#include "quant/overrides.h"
#include "schema/schema.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

bool method_known(const char *name, char known[METHODS_TEXT])
{
    known[0] = '\0';
    for (const struct param_variant *variant = quantize_method_variants; variant->name != NULL; variant++) {
        if (strcmp(variant->name, name) == 0) return true;
        words_add(known, METHODS_TEXT, "%s", variant->name);
        assert(strlen(known) < METHODS_TEXT - 1);
    }
    return false;
}

static const struct param_variant *variant_of(const struct quantize_method *method)
{
    return &quantize_method_variants[method->quantizer];
}

static enum status overrides_look(const struct model *model, const void *context, struct error *error)
{
    struct overrides *overrides = NULL;
    enum status status = overrides_new(context, &overrides, error);
    if (status == STATUS_OK && overrides != NULL)
        status = overrides_check(overrides, model->programs, model->config.layers, error);
    overrides_free(overrides);
    return status;
}

enum status method_check(const struct run_request *request, const char *checkpoint, const char *object,
                         const struct quantize_method *method, bool calibrated, struct error *error)
{
    const struct quantizer *quantizer = quantizer_by_id(method->quantizer);
    const json_t *holder = object != NULL ? json_object_get(request->params, object) : request->params;
    struct quantize_method complete = *method;
    struct error cause;
    char base[40], pointer[sizeof cause.pointer];
    (void)snprintf(base, sizeof base, "/params%s%s", object != NULL ? "/" : "", object != NULL ? object : "");
    if (!calibrated && quantizer->needs != 0) {
        (void)snprintf(pointer, sizeof pointer, "%s/calibration", base);
        return error_set_at(error, STATUS_INVALID, pointer, "is missing: \"%s\" needs calibration data",
                            quantizer->name);
    }
    enum status status = quantize_method_complete(&complete, &cause);
    if (status == STATUS_OK && complete.options.override_count > 0)
        status = posted_model_ask(request, checkpoint, overrides_look, &complete, &cause);
    if (status != STATUS_OK) {
        (void)snprintf(pointer, sizeof pointer, "%s/method%.100s", base, cause.pointer);
        return error_set_at(error, status, pointer, "%s", cause.detail);
    }
    const struct param_variant *variant = variant_of(&complete);
    return schema_write_back(variant->params, (const char *)&complete + variant->offset,
                             json_object_get(holder, "method"), error);
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

int method_bits(const struct quantize_method *method)
{
    const int fixed = quantizer_by_id(method->quantizer)->bits;
    return fixed > 0 ? fixed : (int)method_integer(method, "bits");
}

/* The parameter's value when it is not the default; "" otherwise. */
static void param_label(const struct param *param, const char *base, char *out, size_t size)
{
    const bool none = strcmp(param->fallback, "null") == 0;
    int64_t integer;
    double number;
    int choice;
    out[0] = '\0';
    if (param->type == PARAM_BOOLEAN) {
        const bool on = *(const bool *)(const void *)(base + param->offset);
        if (on != (strcmp(param->fallback, "true") == 0))
            (void)snprintf(out, size, " %s%s", on ? "" : "no ", param->name);
    } else if (param->type == PARAM_NUMBER) {
        memcpy(&number, base + param->offset, sizeof number);
        if (number == (none ? 0 : strtod(param->fallback, NULL))) return;
        (void)snprintf(out, size, "%g", number);
        const bool shown = strtod(out, NULL) == number;
        (void)snprintf(out, size, shown ? " %s %g" : " %s %.17g", param->name, number);
    } else if (param->type == PARAM_INTEGER) {
        memcpy(&integer, base + param->offset, sizeof integer);
        if (integer != (none ? 0 : strtoll(param->fallback, NULL, 10)))
            (void)snprintf(out, size, " %s %lld", param->name, (long long)integer);
    } else if (param->type == PARAM_CHOICE) {
        memcpy(&choice, base + param->offset, sizeof choice);
        const char *text = param->choices[choice];
        if (strncmp(param->fallback + 1, text, strlen(text)) != 0) (void)snprintf(out, size, " %s", text);
    }
}

void method_label_marked(const struct quantize_method *method, const char *mark, char out[METHOD_LABEL])
{
    const struct param_variant *variant = variant_of(method);
    const char *base = (const char *)method + variant->offset;
    const int64_t group = method_integer(method, "group_size");
    char whole[4 * METHOD_LABEL], id[RECIPE_TEXT], end[40] = "";
    struct error error;
    (void)snprintf(whole, sizeof whole, "%s %d-bit", variant->name, method_bits(method));
    if (group != 0) (void)snprintf(whole + strlen(whole), sizeof whole - strlen(whole), " g%lld", (long long)group);
    for (const struct param *param = variant->params; param->type != PARAM_END; param++) {
        char part[80];
        if (strcmp(param->name, "bits") == 0 || strcmp(param->name, "group_size") == 0) continue;
        param_label(param, base, part, sizeof part);
        const size_t used = strlen(whole);
        (void)snprintf(whole + used, sizeof whole - used, "%s", part);
    }
    const bool overrides = method->options.override_count > 0; /* they have no shorter name */
    if ((overrides || strlen(whole) + strlen(mark) >= METHOD_LABEL) && recipes_id(method, id, &error) == STATUS_OK)
        (void)snprintf(end, sizeof end, " %s %.8s", overrides ? "overrides" : "recipe", id);
    const size_t left = METHOD_LABEL - 1 - strlen(end) - strlen(mark);
    (void)snprintf(out, METHOD_LABEL, "%.*s%s%s", (int)left, whole, end, mark);
}

void method_label(const struct quantize_method *method, char out[METHOD_LABEL])
{
    method_label_marked(method, "", out);
}
