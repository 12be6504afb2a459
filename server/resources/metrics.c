#include "kinds/metrics.h"
#include "kinds/kind.h"
#include "kinds/method.h"

#include "resources/answer.h"
#include "resources/handlers.h"

static const char *const betters[] = {[RESULT_NEITHER] = NULL, [RESULT_LOWER] = "lower", [RESULT_HIGHER] = "higher"};
static const char *const formats[RESULT_FORMATS] = {
    [RESULT_DIGITS] = "number", [RESULT_FIXED] = "fixed", [RESULT_PERCENT] = "percent", [RESULT_BYTES] = "bytes"};

static json_t *kinds_of(const struct metric *metric)
{
    json_t *list = json_array();
    for (size_t i = 0; list != NULL && i < metric->kind_count; i++) {
        if (json_array_append_new(list, json_string(metric->kinds[i])) == 0) continue;
        json_decref(list);
        return NULL;
    }
    return list;
}

static json_t *metric_of(const struct metric *metric)
{
    const struct result_metric *about = metric->about;
    return json_pack("{ss ss? ss ss ss ss? ss so}", "name", about->name, "unit", about->unit, "label", about->label,
                     "axis", about->axis != NULL ? about->axis : about->label, "help", about->help, "better",
                     betters[about->better], "format", formats[about->format], "kinds", kinds_of(metric));
}

static json_t *metrics(void)
{
    struct metric all[METRICS_MOST];
    const size_t count = metrics_list(all);
    json_t *items = json_array();
    bool good = items != NULL;
    for (size_t i = 0; good && i < count; i++) good = json_array_append_new(items, metric_of(&all[i])) == 0;
    if (good) return items;
    json_decref(items);
    return NULL;
}

/* The field of the same struct that has the interval, or the standard error, of this number; NULL: none. */
static const char *spread_of(const struct result_field *fields, const struct result_field *field,
                             enum result_spread spread)
{
    const enum result_type type = spread == RESULT_BETWEEN ? RESULT_INTERVAL : RESULT_NUMBER;
    if (field->spread != spread) return NULL;
    for (; fields->type != RESULT_END; fields++)
        if (fields->type == type && fields->offset == field->spread_low) return fields->name;
    return NULL;
}

static json_t *figure_of(const struct kind *kind, const struct result_field *fields, const struct result_field *field,
                         bool optional)
{
    static const struct result_metric none = {0};
    const struct result_metric *metric = field->metric != NULL ? field->metric : &none;
    const bool own = field->label != NULL;
    return json_pack("{ss ss ss? ss ss? ss? ss? ss sb ss? ss?}", "kind", kind->name, "name", field->name, "metric",
                     metric->name, "label", own ? field->label : metric->label, "unit",
                     field->unit != NULL ? field->unit : metric->unit, "help",
                     field->help != NULL ? field->help : metric->help, "better", betters[metric->better], "format",
                     formats[own ? field->format : metric->format], "optional", (int)optional, "interval",
                     spread_of(fields, field, RESULT_BETWEEN), "stderr", spread_of(fields, field, RESULT_STDERR));
}

/* Adds the labelled numbers at the top level of a kind's result. */
static bool add_figures(const struct kind *kind, const struct result_shape *shape, bool optional, json_t *out)
{
    bool good = true;
    for (const struct result_field *field = shape->fields; good && field->type != RESULT_END; field++) {
        const bool may_lack = optional || field->absence != RESULT_ALWAYS;
        const bool number = field->type == RESULT_NUMBER || field->type == RESULT_INTEGER;
        if (field->type == RESULT_MERGED)
            good = add_figures(kind, field->shape, may_lack, out);
        else if (number && (field->label != NULL || field->metric != NULL))
            good = json_array_append_new(out, figure_of(kind, shape->fields, field, may_lack)) == 0;
    }
    return good;
}

static json_t *figures(void)
{
    json_t *out = json_array();
    bool good = out != NULL;
    for (const struct kind *const *kind = kinds; good && *kind != NULL; kind++)
        good = add_figures(*kind, (*kind)->result, false, out);
    if (good) return out;
    json_decref(out);
    return NULL;
}

/* Names of the quantizers in the order of QUANTIZERS, which only grows at its end. */
static json_t *methods(void)
{
    json_t *out = json_array();
    bool good = out != NULL;
    for (const struct param_variant *variant = quantize_method_variants; good && variant->name != NULL; variant++)
        good = json_array_append_new(out, json_string(variant->name)) == 0;
    if (good) return out;
    json_decref(out);
    return NULL;
}

enum status metrics_get(struct http_context *context, const struct request *request, struct response *response,
                        struct error *error)
{
    json_t *document = json_pack("{so so so}", "items", metrics(), "figures", figures(), "methods", methods());
    (void)context, (void)request;
    if (document == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for the metrics");
    return response_json(response, 200, document, error);
}
