#include "resources/routes.h"

#include "kinds/kind.h"
#include "resources/handlers.h"
#include "schema/schema.h"

#include <ctype.h>
#include <stdio.h>

static const struct route routes[] = {
    {"GET", "/healthz", system_health, SCOPE_NONE, ROUTE_BODY_NONE, 0, ROUTE_INLINE},
    {"GET", "/readyz", system_ready, SCOPE_NONE, ROUTE_BODY_NONE, 0, 0},
    {"GET", "/metrics", system_metrics, SCOPE_NONE, ROUTE_BODY_NONE, 0, 0},
    {"GET", "/v1/trajectories", trajectories_list, SCOPE_READ, ROUTE_BODY_NONE, 0, 0},
    {"GET", "/v1/trajectories/{trajectory}", trajectories_get, SCOPE_READ, ROUTE_BODY_NONE, 0, 0},
    {"POST", "/v1/trajectories/{trajectory}/scan", trajectories_scan, SCOPE_WRITE, ROUTE_BODY_REQUIRED, 0, 0},
    {"GET", "/v1/trajectories/{trajectory}/integrity", trajectories_integrity, SCOPE_READ, ROUTE_BODY_NONE, 0, 0},
    {"GET", "/v1/schedules", schedules_list, SCOPE_READ, ROUTE_BODY_NONE, 0, 0},
    {"GET", "/v1/trajectories/{trajectory}/discover", discover_get, SCOPE_READ, ROUTE_BODY_NONE, 0, 0},
    {"POST", "/v1/trajectories/{trajectory}/discover", discover_post, SCOPE_WRITE, ROUTE_BODY_REQUIRED, 0, 0},
    {"GET", "/v1/checkpoints", checkpoints_list, SCOPE_READ, ROUTE_BODY_NONE, 0, 0},
    {"POST", "/v1/checkpoints", checkpoints_post, SCOPE_WRITE, ROUTE_BODY_REQUIRED, 0, 0},
    {"GET", "/v1/checkpoints/{checkpoint}", checkpoints_get, SCOPE_READ, ROUTE_BODY_NONE, 0, 0},
    {"PATCH", "/v1/checkpoints/{checkpoint}", checkpoints_patch, SCOPE_WRITE, ROUTE_BODY_REQUIRED, 0, 0},
    {"DELETE", "/v1/checkpoints/{checkpoint}", checkpoints_delete, SCOPE_WRITE, ROUTE_BODY_NONE, 0, 0},
    {"GET", "/v1/checkpoints/{checkpoint}/tensors", checkpoints_tensors, SCOPE_READ, ROUTE_BODY_NONE, 0, 0},
    {"GET", "/v1/checkpoints/{checkpoint}/health", checkpoints_health, SCOPE_READ, ROUTE_BODY_NONE, 0, 0},
    {"GET", "/v1/datasets", datasets_list, SCOPE_READ, ROUTE_BODY_NONE, 0, 0},
    {"POST", "/v1/datasets", datasets_post, SCOPE_WRITE, ROUTE_BODY_REQUIRED, HTTP_BODY_LIMIT_LARGE, 0},
    {"GET", "/v1/datasets/{dataset}", datasets_get, SCOPE_READ, ROUTE_BODY_NONE, 0, 0},
    {"DELETE", "/v1/datasets/{dataset}", datasets_delete, SCOPE_WRITE, ROUTE_BODY_NONE, 0, 0},
    {"POST", "/v1/tokenize", tokenize_post, SCOPE_READ, ROUTE_BODY_REQUIRED, HTTP_BODY_LIMIT_LARGE, ROUTE_BODY_TEXT},
    {"GET", "/v1/runs", runs_list, SCOPE_READ, ROUTE_BODY_NONE, 0, 0},
    {"POST", "/v1/runs", runs_post, SCOPE_WRITE, ROUTE_BODY_REQUIRED, 0, 0},
    {"GET", "/v1/runs/{run}", runs_get, SCOPE_READ, ROUTE_BODY_NONE, 0, 0},
    {"POST", "/v1/runs/{run}/cancel", runs_cancel, SCOPE_WRITE, ROUTE_BODY_OPTIONAL, 0, 0},
    {"POST", "/v1/runs/{run}/retry", runs_retry, SCOPE_WRITE, ROUTE_BODY_OPTIONAL, 0, 0},
    {"GET", "/v1/runs/{run}/events", run_events_get, SCOPE_READ, ROUTE_BODY_NONE, 0, 0},
    {"GET", "/v1/runs/{run}/artifacts", run_artifacts_list, SCOPE_READ, ROUTE_BODY_NONE, 0, 0},
    {"GET", "/v1/runs/{run}/artifacts/{artifact}", run_artifacts_get, SCOPE_READ, ROUTE_BODY_NONE, 0, 0},
    {"GET", "/v1/sweeps", sweeps_list, SCOPE_READ, ROUTE_BODY_NONE, 0, 0},
    {"POST", "/v1/sweeps", sweeps_post, SCOPE_WRITE, ROUTE_BODY_REQUIRED, 0, 0},
    {"GET", "/v1/sweeps/{sweep}", sweeps_get, SCOPE_READ, ROUTE_BODY_NONE, 0, 0},
    {"POST", "/v1/sweeps/{sweep}/cancel", sweeps_cancel, SCOPE_WRITE, ROUTE_BODY_OPTIONAL, 0, 0},
    {"GET", "/v1/curves", curves_get, SCOPE_READ, ROUTE_BODY_NONE, 0, 0},
    {"GET", "/v1/correlations", correlations_get, SCOPE_READ, ROUTE_BODY_NONE, 0, 0},
    {"GET", "/v1/flips", flips_get, SCOPE_READ, ROUTE_BODY_NONE, 0, 0},
    {"GET", "/v1/recipes", recipes_get, SCOPE_READ, ROUTE_BODY_NONE, 0, 0},
    {"GET", "/v1/curves/metrics", curves_metrics, SCOPE_READ, ROUTE_BODY_NONE, 0, 0},
    {"GET", "/v1/workers", system_workers, SCOPE_READ, ROUTE_BODY_NONE, 0, 0},
};

const struct route *routes_all(size_t *count)
{
    *count = sizeof routes / sizeof routes[0];
    return routes;
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
    for (const struct kind *const *kind = kinds; good && *kind != NULL; kind++) {
        char name[80];
        (void)snprintf(name, sizeof name, "%c%sParams", toupper((unsigned char)(*kind)->name[0]), (*kind)->name + 1);
        good = json_object_set_new(document, name, schema_describe((*kind)->params)) == 0;
    }
    if (good) return document;
    json_decref(document);
    return NULL;
}
