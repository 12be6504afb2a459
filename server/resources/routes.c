#include "resources/routes.h"

#include "kinds/kind.h"
#include "resources/handlers.h"
#include "schema/schema.h"
#include "store/measured.h"

#include <ctype.h>
#include <stdio.h>

static const char *const no_query[] = {NULL};
static const char *const page_query[] = {"limit", "cursor", NULL};
static const char *const checkpoints_query[] = {"trajectory", "limit", "cursor", NULL};
static const char *const runs_query[] = {"kind", "state", "checkpoint", "trajectory", "sweep", "limit", "cursor", NULL};
static const char *const run_query[] = {"wait", NULL};
static const char *const discover_query[] = {"repo", "match", NULL};
static const char *const curves_query[] = {"trajectory", "metric", "x", "method", "bits", "dataset", "protocol", NULL};
static const char *const correlations_query[] = {"trajectory", "x", "y", "method", "bits", "dataset", "protocol", "seed", NULL};
static const char *const flips_query[] = {"trajectory", "task", "label", "limit", NULL};

static const struct route routes[] = {
    {"GET", "/healthz", system_health, SCOPE_NONE, ROUTE_BODY_NONE, 0, ROUTE_INLINE, no_query},
    {"GET", "/readyz", system_ready, SCOPE_NONE, ROUTE_BODY_NONE, 0, 0, no_query},
    {"GET", "/metrics", system_metrics, SCOPE_NONE, ROUTE_BODY_NONE, 0, 0, no_query},
    {"GET", "/v1/trajectories", trajectories_list, SCOPE_READ, ROUTE_BODY_NONE, 0, 0, page_query},
    {"GET", "/v1/trajectories/{trajectory}", trajectories_get, SCOPE_READ, ROUTE_BODY_NONE, 0, 0, no_query},
    {"POST", "/v1/trajectories/{trajectory}/scan", trajectories_scan, SCOPE_WRITE, ROUTE_BODY_REQUIRED, 0, 0, no_query},
    {"GET", "/v1/trajectories/{trajectory}/integrity", trajectories_integrity, SCOPE_READ, ROUTE_BODY_NONE, 0, 0, no_query},
    {"GET", "/v1/schedules", schedules_list, SCOPE_READ, ROUTE_BODY_NONE, 0, 0, no_query},
    {"GET", "/v1/trajectories/{trajectory}/discover", discover_get, SCOPE_READ, ROUTE_BODY_NONE, 0, 0, discover_query},
    {"POST", "/v1/trajectories/{trajectory}/discover", discover_post, SCOPE_WRITE, ROUTE_BODY_REQUIRED, 0, 0, no_query},
    {"GET", "/v1/checkpoints", checkpoints_list, SCOPE_READ, ROUTE_BODY_NONE, 0, 0, checkpoints_query},
    {"POST", "/v1/checkpoints", checkpoints_post, SCOPE_WRITE, ROUTE_BODY_REQUIRED, 0, 0, no_query},
    {"GET", "/v1/checkpoints/{checkpoint}", checkpoints_get, SCOPE_READ, ROUTE_BODY_NONE, 0, 0, no_query},
    {"PATCH", "/v1/checkpoints/{checkpoint}", checkpoints_patch, SCOPE_WRITE, ROUTE_BODY_REQUIRED, 0, 0, no_query},
    {"DELETE", "/v1/checkpoints/{checkpoint}", checkpoints_delete, SCOPE_WRITE, ROUTE_BODY_NONE, 0, 0, no_query},
    {"GET", "/v1/checkpoints/{checkpoint}/tensors", checkpoints_tensors, SCOPE_READ, ROUTE_BODY_NONE, 0, 0, no_query},
    {"GET", "/v1/checkpoints/{checkpoint}/health", checkpoints_health, SCOPE_READ, ROUTE_BODY_NONE, 0, 0, no_query},
    {"GET", "/v1/datasets", datasets_list, SCOPE_READ, ROUTE_BODY_NONE, 0, 0, page_query},
    {"POST", "/v1/datasets", datasets_post, SCOPE_WRITE, ROUTE_BODY_REQUIRED, HTTP_BODY_LIMIT_LARGE, 0, no_query},
    {"GET", "/v1/datasets/{dataset}", datasets_get, SCOPE_READ, ROUTE_BODY_NONE, 0, 0, no_query},
    {"DELETE", "/v1/datasets/{dataset}", datasets_delete, SCOPE_WRITE, ROUTE_BODY_NONE, 0, 0, no_query},
    {"POST", "/v1/tokenize", tokenize_post, SCOPE_READ, ROUTE_BODY_REQUIRED, HTTP_BODY_LIMIT_LARGE, ROUTE_BODY_TEXT, no_query},
    {"GET", "/v1/runs", runs_list, SCOPE_READ, ROUTE_BODY_NONE, 0, 0, runs_query},
    {"POST", "/v1/runs", runs_post, SCOPE_WRITE, ROUTE_BODY_REQUIRED, 0, 0, no_query},
    {"GET", "/v1/runs/{run}", runs_get, SCOPE_READ, ROUTE_BODY_NONE, 0, 0, run_query},
    {"POST", "/v1/runs/{run}/cancel", runs_cancel, SCOPE_WRITE, ROUTE_BODY_OPTIONAL, 0, 0, no_query},
    {"POST", "/v1/runs/{run}/retry", runs_retry, SCOPE_WRITE, ROUTE_BODY_OPTIONAL, 0, 0, no_query},
    {"GET", "/v1/runs/{run}/events", run_events_get, SCOPE_READ, ROUTE_BODY_NONE, 0, 0, no_query},
    {"GET", "/v1/runs/{run}/artifacts", run_artifacts_list, SCOPE_READ, ROUTE_BODY_NONE, 0, 0, no_query},
    {"GET", "/v1/runs/{run}/artifacts/{artifact}", run_artifacts_get, SCOPE_READ, ROUTE_BODY_NONE, 0, 0, no_query},
    {"GET", "/v1/sweeps", sweeps_list, SCOPE_READ, ROUTE_BODY_NONE, 0, 0, page_query},
    {"POST", "/v1/sweeps", sweeps_post, SCOPE_WRITE, ROUTE_BODY_REQUIRED, 0, 0, no_query},
    {"GET", "/v1/sweeps/{sweep}", sweeps_get, SCOPE_READ, ROUTE_BODY_NONE, 0, 0, no_query},
    {"POST", "/v1/sweeps/{sweep}/cancel", sweeps_cancel, SCOPE_WRITE, ROUTE_BODY_OPTIONAL, 0, 0, no_query},
    {"GET", "/v1/curves", curves_get, SCOPE_READ, ROUTE_BODY_NONE, 0, 0, curves_query},
    {"GET", "/v1/correlations", correlations_get, SCOPE_READ, ROUTE_BODY_NONE, 0, 0, correlations_query},
    {"GET", "/v1/flips", flips_get, SCOPE_READ, ROUTE_BODY_NONE, 0, 0, flips_query},
    {"GET", "/v1/recipes", recipes_get, SCOPE_READ, ROUTE_BODY_NONE, 0, 0, no_query},
    {"GET", "/v1/curves/metrics", curves_metrics, SCOPE_READ, ROUTE_BODY_NONE, 0, 0, no_query},
    {"GET", "/v1/workers", system_workers, SCOPE_READ, ROUTE_BODY_NONE, 0, 0, no_query},
};

const struct route *routes_all(size_t *count)
{
    *count = sizeof routes / sizeof routes[0];
    return routes;
}

static json_t *describe_metric(void)
{
    json_t *names = json_array();
    for (const char *const *name = measured_names; *name != NULL; name++) (void)json_array_append_new(names, json_string(*name));
    return json_pack("{ss so ss}", "type", "string", "enum", names, "description", "A number that runs measure, or learning_rate");
}

json_t *routes_schemas(void)
{
    static const struct {
        const char *name;
        const struct param *table;
    } bodies[] = {
        {"ScanBody", trajectories_scan_body},
        {"DiscoverBody", discover_post_body},
        {"CheckpointBody", checkpoints_post_body},
        {"CheckpointPatch", checkpoints_patch_body},
        {"DatasetBody", datasets_post_body},
        {"TokenizeBody", tokenize_post_body},
        {"RunBody", runs_post_body},
        {"SweepBody", sweeps_post_body},
    };
    json_t *document = json_object();
    bool good = document != NULL;
    for (size_t i = 0; good && i < sizeof bodies / sizeof bodies[0]; i++)
        good = json_object_set_new(document, bodies[i].name, schema_describe(bodies[i].table)) == 0;
    if (good) good = json_object_set_new(document, "Metric", describe_metric()) == 0;
    for (const struct kind *const *kind = kinds; good && *kind != NULL; kind++) {
        char name[80];
        (void)snprintf(name, sizeof name, "%c%sParams", toupper((unsigned char)(*kind)->name[0]), (*kind)->name + 1);
        good = json_object_set_new(document, name, schema_describe((*kind)->params)) == 0;
    }
    if (good) return document;
    json_decref(document);
    return NULL;
}
