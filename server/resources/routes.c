#include "resources/routes.h"

#include "kinds/health_report.h"
#include "kinds/integrity_report.h"
#include "kinds/kind.h"
#include "kinds/method.h"
#include "kinds/metrics.h"
#include "kinds/worst_tokens.h"
#include "resources/correlation_report.h"
#include "resources/handlers.h"
#include "schema/result_describe.h"
#include "schema/schema.h"

#include <ctype.h>
#include <stdio.h>

static const struct route routes[] = {
#define ROUTE_ROW(method, pattern, handler, scope, body, large, flags, ...) \
    {method, pattern, handler, scope, body, large, flags, (const char *const[]){__VA_ARGS__, NULL}},
    ROUTES(ROUTE_ROW)
#undef ROUTE_ROW
};

const struct route *routes_all(size_t *count)
{
    *count = sizeof routes / sizeof routes[0];
    return routes;
}

static json_t *describe_metric(void)
{
    json_t *names = json_array();
    struct metric all[METRICS_MOST];
    const size_t count = metrics_list(all);
    for (size_t i = 0; i < count; i++) (void)json_array_append_new(names, json_string(all[i].about->name));
    return json_pack("{ss so ss}", "type", "string", "enum", names, "description",
                     "A number that runs measure, or learning_rate");
}

static json_t *describe_method(void)
{
    json_t *names = json_array();
    for (const struct param_variant *variant = quantize_method_variants; variant->name != NULL; variant++)
        (void)json_array_append_new(names, json_string(variant->name));
    return json_pack("{ss so}", "type", "string", "enum", names);
}

/* "quantize" and "Params" make "QuantizeParams". */
static const char *kind_schema(const struct kind *kind, const char *what, char out[80])
{
    (void)snprintf(out, 80, "%c%s%s", toupper((unsigned char)kind->name[0]), kind->name + 1, what);
    return out;
}

static json_t *refer(const char *name)
{
    return json_pack("{ss+}", "$ref", "#/components/schemas/", name);
}

/* The body of a run of that kind, which refers to the schema of its parameters. */
static json_t *describe_request(const json_t *body, const struct kind *kind)
{
    char params[80];
    json_t *request = json_deep_copy(body), *properties = json_object_get(request, "properties");
    json_t *name = json_pack("{ss ss ss}", "type", "string", "const", kind->name, "description", kind->help);
    bool good = json_object_set_new(properties, "kind", name) == 0;
    if (json_object_set_new(properties, "params", refer(kind_schema(kind, "Params", params))) != 0) good = false;
    if (good && json_array_append_new(json_object_get(request, "required"), json_string("params")) == 0) return request;
    json_decref(request);
    return NULL;
}

/* The parameters of each kind, its request body, and "RunRequest", which is any of these bodies. */
static enum status describe_requests(json_t *document, struct error *error)
{
    json_t *bodies = json_object(), *list = json_array(), *mapping = json_object();
    enum status status = schema_describe(bodies, "RunBody", runs_post_body, error);
    bool good = true;
    for (const struct kind *const *kind = kinds; good && status == STATUS_OK && *kind != NULL; kind++) {
        char name[80];
        status = schema_describe(document, kind_schema(*kind, "Params", name), (*kind)->params, error);
        json_t *request = describe_request(json_object_get(bodies, "RunBody"), *kind);
        json_t *reference = refer(kind_schema(*kind, "Request", name));
        good = json_object_set(mapping, (*kind)->name, json_object_get(reference, "$ref")) == 0;
        if (json_array_append_new(list, reference) != 0 || json_object_set_new(document, name, request) != 0)
            good = false;
        if (good) good = result_describe((*kind)->result, document);
    }
    json_t *any =
        json_pack("{so s{ss so}}", "oneOf", list, "discriminator", "propertyName", "kind", "mapping", mapping);
    if (json_object_set_new(document, "RunRequest", any) != 0) good = false;
    json_decref(bodies);
    return good || status != STATUS_OK ? status : error_set(error, STATUS_NO_MEMORY, "no memory for schemas");
}

/* The answers that are made from tables, and the names of metrics. */
static enum status describe_answers(json_t *document, struct error *error)
{
    static const struct result_shape *const answers[] = {&compare_result, &worst_tokens_shape,
                                                         &correlation_report_shape, &integrity_report_shape,
                                                         &health_report_tensor};
    bool good = true;
    for (size_t i = 0; good && i < sizeof answers / sizeof answers[0]; i++)
        good = result_describe(answers[i], document);
    if (good) good = json_object_set_new(document, "Metric", describe_metric()) == 0;
    if (good) good = json_object_set_new(document, "MethodName", describe_method()) == 0;
    return good ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "no memory for schemas");
}

enum status routes_schemas(json_t **out, struct error *error)
{
    static const struct {
        const char *name;
        const struct param *table;
    } bodies[] = {
#define BODY_ROW(schema, table) {schema, table},
        BODIES(BODY_ROW)
#undef BODY_ROW
    };
    enum status status = STATUS_OK;
    *out = json_object();
    for (size_t i = 0; status == STATUS_OK && i < sizeof bodies / sizeof bodies[0]; i++)
        status = schema_describe(*out, bodies[i].name, bodies[i].table, error);
    if (status == STATUS_OK) status = describe_requests(*out, error);
    if (status == STATUS_OK) status = describe_answers(*out, error);
    if (status != STATUS_OK) {
        json_decref(*out);
        *out = NULL;
    }
    return status;
}
