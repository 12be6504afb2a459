#include "resources/routes.h"

#include "kinds/kind.h"
#include "kinds/metrics.h"
#include "kinds/worst_tokens.h"
#include "resources/handlers.h"
#include "schema/result_describe.h"
#include "schema/schema.h"

#include <ctype.h>
#include <stdio.h>

static const char *const no_query[] = {NULL};
static const char *const trajectories_query[] = {"archived", "name", "created_from", "created_to", "sort",
                                                 "fields",   "view", "limit",        "cursor",     NULL};
static const char *const checkpoints_query[] = {"trajectory",   "name",       "tag",  "step_from", "step_to",
                                                "created_from", "created_to", "sort", "fields",    "view",
                                                "limit",        "cursor",     NULL};
static const char *const runs_query[] = {"kind",   "state",     "checkpoint", "trajectory",   "sweep",      "name",
                                         "tag",    "step_from", "step_to",    "created_from", "created_to", "sort",
                                         "fields", "view",      "limit",      "cursor",       NULL};
static const char *const named_query[] = {"name", "fields", "view", "limit", "cursor", NULL};
static const char *const viewed_query[] = {"fields", "view", "limit", "cursor", NULL};
static const char *const whole_query[] = {"fields", "view", NULL};
static const char *const created_query[] = {"name", "created_from", "created_to", "sort", "fields",
                                            "view", "limit",        "cursor",     NULL};
static const char *const wait_query[] = {"wait", NULL};
static const char *const discover_query[] = {"repo", "match", NULL};
static const char *const curves_query[] = {"trajectory", "metric",      "x",      "method",     "bits", "dataset",
                                           "protocol",   "calibration", "points", "checkpoint", NULL};
static const char *const integrity_query[] = {"checkpoint", NULL};
static const char *const measurements_query[] = {
    "trajectory", "checkpoint",  "fields", "metric",        "method",        "bits",        "dataset",
    "protocol",   "calibration", "tag",    "name",          "measured_from", "measured_to", "sort",
    "step_from",  "step_to",     "format", "updated_since", "limit",         "cursor",      NULL};
static const char *const correlations_query[] = {"trajectory", "x",        "y",           "method", "bits",
                                                 "dataset",    "protocol", "calibration", "seed",   NULL};
static const char *const changepoints_query[] = {"metric",   "x",           "method", "bits", "dataset",
                                                 "protocol", "calibration", "from",   NULL};
static const char *const worst_tokens_query[] = {"limit", "context", "decode", "against", NULL};
static const char *const compare_query[] = {"a", "b", NULL};
static const char *const events_query[] = {"kind", "trajectory", "after", "follow", NULL};
static const char *const verdict_query[] = {"checkpoint", "wait", NULL};
static const char *const flips_query[] = {"trajectory", "task", "label", "limit", NULL};

static const struct route routes[] = {
    {"GET", "/healthz", system_health, SCOPE_NONE, ROUTE_BODY_NONE, NULL, ROUTE_INLINE | ROUTE_PROBE, no_query},
    {"GET", "/readyz", system_ready, SCOPE_NONE, ROUTE_BODY_NONE, NULL, ROUTE_PROBE, no_query},
    {"GET", "/metrics", system_metrics, SCOPE_NONE, ROUTE_BODY_NONE, NULL, ROUTE_PROBE, no_query},
    {"GET", "/v1/trajectories", trajectories_list, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, trajectories_query},
    {"GET", "/v1/trajectories/{trajectory}", trajectories_get, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, no_query},
    {"PATCH", "/v1/trajectories/{trajectory}", trajectories_patch, SCOPE_WRITE, ROUTE_BODY_REQUIRED, NULL, 0, no_query},
    {"DELETE", "/v1/trajectories/{trajectory}", trajectories_delete, SCOPE_WRITE, ROUTE_BODY_NONE, NULL, ROUTE_WORK,
     no_query},
    {"POST", "/v1/trajectories/{trajectory}/scan", trajectories_scan, SCOPE_WRITE, ROUTE_BODY_REQUIRED, NULL,
     ROUTE_WORK, no_query},
    {"GET", "/v1/trajectories/{trajectory}/integrity", trajectories_integrity, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0,
     integrity_query},
    {"GET", "/v1/trajectories/{trajectory}/changepoints", changepoints_get, SCOPE_READ, ROUTE_BODY_NONE, NULL,
     ROUTE_WORK, changepoints_query},
    {"GET", "/v1/schedules", schedules_list, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, no_query},
    {"GET", "/v1/trajectories/{trajectory}/discover", discover_get, SCOPE_READ, ROUTE_BODY_NONE, NULL, ROUTE_WORK,
     discover_query},
    {"POST", "/v1/trajectories/{trajectory}/discover", discover_post, SCOPE_WRITE, ROUTE_BODY_REQUIRED, NULL,
     ROUTE_WORK, no_query},
    {"GET", "/v1/checkpoints", checkpoints_list, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, checkpoints_query},
    {"POST", "/v1/checkpoints", checkpoints_post, SCOPE_WRITE, ROUTE_BODY_REQUIRED, NULL, ROUTE_WORK, no_query},
    {"GET", "/v1/checkpoints/{checkpoint}", checkpoints_get, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, no_query},
    {"PATCH", "/v1/checkpoints/{checkpoint}", checkpoints_patch, SCOPE_WRITE, ROUTE_BODY_REQUIRED, NULL, 0, no_query},
    {"DELETE", "/v1/checkpoints/{checkpoint}", checkpoints_delete, SCOPE_WRITE, ROUTE_BODY_NONE, NULL, 0, no_query},
    {"GET", "/v1/checkpoints/{checkpoint}/tensors", checkpoints_tensors, SCOPE_READ, ROUTE_BODY_NONE, NULL, ROUTE_WORK,
     no_query},
    {"GET", "/v1/checkpoints/{checkpoint}/health", checkpoints_health, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, no_query},
    {"GET", "/v1/datasets", datasets_list, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, created_query},
    {"POST", "/v1/datasets", datasets_post, SCOPE_WRITE, ROUTE_BODY_REQUIRED, "sequences", ROUTE_WORK, no_query},
    {"GET", "/v1/datasets/{dataset}", datasets_get, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, no_query},
    {"DELETE", "/v1/datasets/{dataset}", datasets_delete, SCOPE_WRITE, ROUTE_BODY_NONE, NULL, 0, no_query},
    {"POST", "/v1/tokenize", tokenize_post, SCOPE_READ, ROUTE_BODY_REQUIRED, "texts", ROUTE_WORK, no_query},
    {"GET", "/v1/runs", runs_list, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, runs_query},
    {"POST", "/v1/runs", runs_post, SCOPE_WRITE, ROUTE_BODY_REQUIRED, NULL, 0, no_query},
    {"GET", "/v1/runs/{run}", runs_get, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, wait_query},
    {"DELETE", "/v1/runs/{run}", runs_delete, SCOPE_WRITE, ROUTE_BODY_NONE, NULL, 0, no_query},
    {"POST", "/v1/runs/{run}/cancel", runs_cancel, SCOPE_WRITE, ROUTE_BODY_OPTIONAL, NULL, 0, no_query},
    {"POST", "/v1/runs/{run}/retry", runs_retry, SCOPE_WRITE, ROUTE_BODY_OPTIONAL, NULL, 0, no_query},
    {"GET", "/v1/runs/{run}/events", run_events_get, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, no_query},
    {"GET", "/v1/runs/{run}/artifacts", run_artifacts_list, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, whole_query},
    {"GET", "/v1/runs/{run}/artifacts/{artifact}", run_artifacts_get, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, no_query},
    {"GET", "/v1/runs/{run}/worst-tokens", worst_tokens_get, SCOPE_READ, ROUTE_BODY_NONE, NULL, ROUTE_WORK,
     worst_tokens_query},
    {"GET", "/v1/sweeps", sweeps_list, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, created_query},
    {"POST", "/v1/sweeps", sweeps_post, SCOPE_WRITE, ROUTE_BODY_REQUIRED, NULL, 0, no_query},
    {"GET", "/v1/sweeps/{sweep}", sweeps_get, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, wait_query},
    {"DELETE", "/v1/sweeps/{sweep}", sweeps_delete, SCOPE_WRITE, ROUTE_BODY_NONE, NULL, 0, no_query},
    {"POST", "/v1/sweeps/{sweep}/cancel", sweeps_cancel, SCOPE_WRITE, ROUTE_BODY_OPTIONAL, NULL, 0, no_query},
    {"POST", "/v1/sweeps/{sweep}/retry-failed", sweeps_retry_failed, SCOPE_WRITE, ROUTE_BODY_OPTIONAL, NULL, 0,
     no_query},
    {"POST", "/v1/sweeps/{sweep}/extend", sweeps_extend, SCOPE_WRITE, ROUTE_BODY_REQUIRED, NULL, 0, no_query},
    {"GET", "/v1/curves", curves_get, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, curves_query},
    {"GET", "/v1/measurements", measurements_get, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, measurements_query},
    {"GET", "/v1/correlations", correlations_get, SCOPE_READ, ROUTE_BODY_NONE, NULL, ROUTE_WORK, correlations_query},
    {"GET", "/v1/compare", compare_get, SCOPE_READ, ROUTE_BODY_NONE, NULL, ROUTE_WORK, compare_query},
    {"GET", "/v1/flips", flips_get, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, flips_query},
    {"GET", "/v1/events", events_get, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, events_query},
    {"GET", "/v1/gates", gates_list, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, named_query},
    {"POST", "/v1/gates", gates_post, SCOPE_WRITE, ROUTE_BODY_REQUIRED, NULL, 0, no_query},
    {"GET", "/v1/gates/{gate}", gates_get, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, no_query},
    {"DELETE", "/v1/gates/{gate}", gates_delete, SCOPE_WRITE, ROUTE_BODY_NONE, NULL, 0, no_query},
    {"GET", "/v1/gates/{gate}/verdict", gates_verdict, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, verdict_query},
    {"GET", "/v1/webhooks", webhooks_list, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, viewed_query},
    {"POST", "/v1/webhooks", webhooks_post, SCOPE_WRITE, ROUTE_BODY_REQUIRED, NULL, 0, no_query},
    {"GET", "/v1/webhooks/{webhook}", webhooks_get, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, no_query},
    {"DELETE", "/v1/webhooks/{webhook}", webhooks_delete, SCOPE_WRITE, ROUTE_BODY_NONE, NULL, 0, no_query},
    {"GET", "/v1/webhooks/{webhook}/deliveries", webhooks_deliveries, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0,
     viewed_query},
    {"GET", "/v1/tokens", tokens_list, SCOPE_ADMIN, ROUTE_BODY_NONE, NULL, 0, named_query},
    {"POST", "/v1/tokens", tokens_post, SCOPE_ADMIN, ROUTE_BODY_REQUIRED, NULL, 0, no_query},
    {"DELETE", "/v1/tokens/{token}", tokens_delete, SCOPE_ADMIN, ROUTE_BODY_NONE, NULL, 0, no_query},
    {"GET", "/v1/recipes", recipes_get, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, no_query},
    {"GET", "/v1/metrics", metrics_get, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, no_query},
    {"GET", "/v1/curves/metrics", curves_metrics, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, no_query},
    {"GET", "/v1/workers", system_workers, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, whole_query},
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

enum status routes_schemas(json_t **out, struct error *error)
{
    static const struct {
        const char *name;
        const struct param *table;
    } bodies[] = {
        {"TrajectoryPatch", trajectories_patch_body}, {"ScanBody", trajectories_scan_body},
        {"DiscoverBody", discover_post_body},         {"CheckpointBody", checkpoints_post_body},
        {"CheckpointPatch", checkpoints_patch_body},  {"DatasetBody", datasets_post_body},
        {"TokenizeBody", tokenize_post_body},         {"SweepBody", sweeps_post_body},
        {"SweepExtension", sweeps_extend_body},       {"GateBody", gates_post_body},
        {"WebhookBody", webhooks_post_body},          {"TokenBody", tokens_post_body},
    };
    enum status status = STATUS_OK;
    *out = json_object();
    for (size_t i = 0; status == STATUS_OK && i < sizeof bodies / sizeof bodies[0]; i++)
        status = schema_describe(*out, bodies[i].name, bodies[i].table, error);
    if (status == STATUS_OK) status = describe_requests(*out, error);
    if (status == STATUS_OK && !(result_describe(&compare_result, *out) && result_describe(&worst_tokens_shape, *out)))
        status = error_set(error, STATUS_NO_MEMORY, "no memory for schemas");
    if (status == STATUS_OK && json_object_set_new(*out, "Metric", describe_metric()) != 0)
        status = error_set(error, STATUS_NO_MEMORY, "no memory for schemas");
    if (status != STATUS_OK) {
        json_decref(*out);
        *out = NULL;
    }
    return status;
}
