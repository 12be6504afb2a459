#include "kinds/metrics.h"

#include "resources/answer.h"
#include "resources/handlers.h"

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
    static const char *const better[] = {[RESULT_NEITHER] = NULL, [RESULT_LOWER] = "lower", [RESULT_HIGHER] = "higher"};
    const struct result_metric *about = metric->about;
    return json_pack("{ss ss? ss ss ss? ss so}", "name", about->name, "unit", about->unit, "label", about->label,
                     "help", about->help, "better", better[about->better], "format",
                     about->percent ? "percent" : "number", "kinds", kinds_of(metric));
}

enum status metrics_get(struct http_context *context, const struct request *request, struct response *response,
                        struct error *error)
{
    struct metric all[METRICS_MOST];
    const size_t count = metrics_list(all);
    json_t *items = json_array();
    (void)context, (void)request;
    for (size_t i = 0; items != NULL && i < count; i++) {
        if (json_array_append_new(items, metric_of(&all[i])) == 0) continue;
        json_decref(items);
        items = NULL;
    }
    if (items == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for the metrics");
    return response_json(response, 200, json_pack("{so}", "items", items), error);
}
