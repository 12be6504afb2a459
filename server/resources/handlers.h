/* handlers.h: the whole API on one page: every route with its handler, and the parameter tables of bodies. A handler is
 * declared by its row here, so one that has none does not compile. routes.c makes the tables. */
#ifndef RESOURCES_HANDLERS_H
#define RESOURCES_HANDLERS_H

#include "base/param.h"
#include "base/result.h"
#include "http/router.h"

/* clang-format off */

/* Query fields of routes; others are refused, and so is one that comes twice, unless its name ends with
 * REQUEST_QUERY_REPEATS. */
#define QUERY_NONE NULL
#define QUERY_TRAJECTORIES \
    "archived", "name", "created_from", "created_to", "sort", "fields", "view", "limit", "cursor"
#define QUERY_CHECKPOINTS \
    "trajectory", "name", "tag+", "step_from", "step_to", "created_from", "created_to", "sort", "fields", "view", \
    "limit", "cursor"
#define QUERY_RUNS \
    "kind", "state", "checkpoint", "trajectory", "sweep", "name", "tag+", "step_from", "step_to", "created_from", \
    "created_to", "sort", "fields", "view", "limit", "cursor"
#define QUERY_NAMED "name", "fields", "view", "limit", "cursor"
#define QUERY_VIEWED "fields", "view", "limit", "cursor"
#define QUERY_WHOLE "fields", "view"
#define QUERY_CREATED "name", "created_from", "created_to", "sort", "fields", "view", "limit", "cursor"
#define QUERY_WAIT "wait"
#define QUERY_DISCOVER "repo", "match"
#define QUERY_CURVES \
    "trajectory+", "metric", "x", "method", "bits", "dataset", "protocol", "calibration", "points", "checkpoint", \
    "format"
#define QUERY_INTEGRITY "checkpoint"
#define QUERY_MEASUREMENTS \
    "trajectory+", "checkpoint", "fields", "metric+", "method", "bits", "dataset", "protocol", "calibration", \
    "tag+", "name", "measured_from", "measured_to", "sort", "step_from", "step_to", "format", "updated_since", \
    "limit", "cursor"
#define QUERY_CORRELATIONS \
    "trajectory+", "x", "y", "method", "bits", "dataset", "protocol", "calibration", "protocol_x", "seed", "format"
#define QUERY_CHANGEPOINTS "metric", "x", "method", "bits", "dataset", "protocol", "calibration", "from"
#define QUERY_WORST_TOKENS "limit", "context", "decode", "against"
#define QUERY_COMPARE "a", "b"
#define QUERY_EVENTS "kind+", "trajectory+", "after", "follow"
#define QUERY_VERDICT "checkpoint", "wait"
#define QUERY_FLIPS "trajectory", "task", "label", "shots", "protocol", "calibration", "limit"

/* The fields of struct route in their order, the query fields last. */
#define ROUTES(X) \
    X("GET", "/healthz", system_health, SCOPE_NONE, ROUTE_BODY_NONE, NULL, ROUTE_INLINE | ROUTE_PROBE, QUERY_NONE) \
    X("GET", "/readyz", system_ready, SCOPE_NONE, ROUTE_BODY_NONE, NULL, ROUTE_PROBE, QUERY_NONE) \
    X("GET", "/metrics", system_metrics, SCOPE_NONE, ROUTE_BODY_NONE, NULL, ROUTE_PROBE, QUERY_NONE) \
    X("GET", "/v1/trajectories", trajectories_list, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, QUERY_TRAJECTORIES) \
    X("GET", "/v1/trajectories/{trajectory}", trajectories_get, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, QUERY_NONE) \
    X("PATCH", "/v1/trajectories/{trajectory}", trajectories_patch, SCOPE_WRITE, ROUTE_BODY_REQUIRED, NULL, 0, \
      QUERY_NONE) \
    X("DELETE", "/v1/trajectories/{trajectory}", trajectories_delete, SCOPE_WRITE, ROUTE_BODY_NONE, NULL, \
      ROUTE_WORK, QUERY_NONE) \
    X("POST", "/v1/trajectories/{trajectory}/scan", trajectories_scan, SCOPE_WRITE, ROUTE_BODY_REQUIRED, NULL, \
      ROUTE_WORK, QUERY_NONE) \
    X("GET", "/v1/trajectories/{trajectory}/integrity", trajectories_integrity, SCOPE_READ, ROUTE_BODY_NONE, NULL, \
      0, QUERY_INTEGRITY) \
    X("GET", "/v1/trajectories/{trajectory}/changepoints", changepoints_get, SCOPE_READ, ROUTE_BODY_NONE, NULL, \
      ROUTE_WORK, QUERY_CHANGEPOINTS) \
    X("GET", "/v1/schedules", schedules_list, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, QUERY_NONE) \
    X("GET", "/v1/trajectories/{trajectory}/discover", discover_get, SCOPE_WRITE, ROUTE_BODY_NONE, NULL, \
      ROUTE_WORK, QUERY_DISCOVER) \
    X("POST", "/v1/trajectories/{trajectory}/discover", discover_post, SCOPE_WRITE, ROUTE_BODY_REQUIRED, NULL, \
      ROUTE_WORK, QUERY_NONE) \
    X("GET", "/v1/checkpoints", checkpoints_list, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, QUERY_CHECKPOINTS) \
    X("POST", "/v1/checkpoints", checkpoints_post, SCOPE_WRITE, ROUTE_BODY_REQUIRED, NULL, ROUTE_WORK, QUERY_NONE) \
    X("GET", "/v1/checkpoints/{checkpoint}", checkpoints_get, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, QUERY_NONE) \
    X("PATCH", "/v1/checkpoints/{checkpoint}", checkpoints_patch, SCOPE_WRITE, ROUTE_BODY_REQUIRED, NULL, 0, \
      QUERY_NONE) \
    X("DELETE", "/v1/checkpoints/{checkpoint}", checkpoints_delete, SCOPE_WRITE, ROUTE_BODY_NONE, NULL, 0, QUERY_NONE) \
    X("GET", "/v1/checkpoints/{checkpoint}/tensors", checkpoints_tensors, SCOPE_READ, ROUTE_BODY_NONE, NULL, \
      ROUTE_WORK, QUERY_NONE) \
    X("GET", "/v1/checkpoints/{checkpoint}/health", checkpoints_health, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, \
      QUERY_NONE) \
    X("GET", "/v1/datasets", datasets_list, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, QUERY_CREATED) \
    X("POST", "/v1/datasets", datasets_post, SCOPE_WRITE, ROUTE_BODY_REQUIRED, "sequences", ROUTE_WORK, QUERY_NONE) \
    X("GET", "/v1/datasets/{dataset}", datasets_get, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, QUERY_NONE) \
    X("DELETE", "/v1/datasets/{dataset}", datasets_delete, SCOPE_WRITE, ROUTE_BODY_NONE, NULL, 0, QUERY_NONE) \
    X("POST", "/v1/tokenize", tokenize_post, SCOPE_READ, ROUTE_BODY_REQUIRED, "texts", ROUTE_WORK, QUERY_NONE) \
    X("GET", "/v1/runs", runs_list, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, QUERY_RUNS) \
    X("POST", "/v1/runs", runs_post, SCOPE_WRITE, ROUTE_BODY_REQUIRED, NULL, 0, QUERY_NONE) \
    X("GET", "/v1/runs/{run}", runs_get, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, QUERY_WAIT) \
    X("DELETE", "/v1/runs/{run}", runs_delete, SCOPE_WRITE, ROUTE_BODY_NONE, NULL, 0, QUERY_NONE) \
    X("POST", "/v1/runs/{run}/cancel", runs_cancel, SCOPE_WRITE, ROUTE_BODY_OPTIONAL, NULL, 0, QUERY_NONE) \
    X("POST", "/v1/runs/{run}/retry", runs_retry, SCOPE_WRITE, ROUTE_BODY_OPTIONAL, NULL, 0, QUERY_NONE) \
    X("GET", "/v1/runs/{run}/events", run_events_get, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, QUERY_NONE) \
    X("GET", "/v1/runs/{run}/artifacts", run_artifacts_list, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, QUERY_WHOLE) \
    X("GET", "/v1/runs/{run}/artifacts/{artifact}", run_artifacts_get, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, \
      QUERY_NONE) \
    X("GET", "/v1/runs/{run}/worst-tokens", worst_tokens_get, SCOPE_READ, ROUTE_BODY_NONE, NULL, ROUTE_WORK, \
      QUERY_WORST_TOKENS) \
    X("GET", "/v1/sweeps", sweeps_list, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, QUERY_CREATED) \
    X("POST", "/v1/sweeps", sweeps_post, SCOPE_WRITE, ROUTE_BODY_REQUIRED, NULL, 0, QUERY_NONE) \
    X("GET", "/v1/sweeps/{sweep}", sweeps_get, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, QUERY_WAIT) \
    X("DELETE", "/v1/sweeps/{sweep}", sweeps_delete, SCOPE_WRITE, ROUTE_BODY_NONE, NULL, 0, QUERY_NONE) \
    X("POST", "/v1/sweeps/{sweep}/cancel", sweeps_cancel, SCOPE_WRITE, ROUTE_BODY_OPTIONAL, NULL, 0, QUERY_NONE) \
    X("POST", "/v1/sweeps/{sweep}/retry-failed", sweeps_retry_failed, SCOPE_WRITE, ROUTE_BODY_OPTIONAL, NULL, 0, \
      QUERY_NONE) \
    X("POST", "/v1/sweeps/{sweep}/extend", sweeps_extend, SCOPE_WRITE, ROUTE_BODY_REQUIRED, NULL, 0, QUERY_NONE) \
    X("GET", "/v1/curves", curves_get, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, QUERY_CURVES) \
    X("GET", "/v1/measurements", measurements_get, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, QUERY_MEASUREMENTS) \
    X("GET", "/v1/correlations", correlations_get, SCOPE_READ, ROUTE_BODY_NONE, NULL, ROUTE_WORK, QUERY_CORRELATIONS) \
    X("GET", "/v1/compare", compare_get, SCOPE_READ, ROUTE_BODY_NONE, NULL, ROUTE_WORK, QUERY_COMPARE) \
    X("GET", "/v1/flips", flips_get, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, QUERY_FLIPS) \
    X("GET", "/v1/events", events_get, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, QUERY_EVENTS) \
    X("GET", "/v1/gates", gates_list, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, QUERY_NAMED) \
    X("POST", "/v1/gates", gates_post, SCOPE_WRITE, ROUTE_BODY_REQUIRED, NULL, 0, QUERY_NONE) \
    X("GET", "/v1/gates/{gate}", gates_get, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, QUERY_NONE) \
    X("DELETE", "/v1/gates/{gate}", gates_delete, SCOPE_WRITE, ROUTE_BODY_NONE, NULL, 0, QUERY_NONE) \
    X("GET", "/v1/gates/{gate}/verdict", gates_verdict, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, QUERY_VERDICT) \
    X("GET", "/v1/webhooks", webhooks_list, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, QUERY_VIEWED) \
    X("POST", "/v1/webhooks", webhooks_post, SCOPE_WRITE, ROUTE_BODY_REQUIRED, NULL, 0, QUERY_NONE) \
    X("GET", "/v1/webhooks/{webhook}", webhooks_get, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, QUERY_NONE) \
    X("DELETE", "/v1/webhooks/{webhook}", webhooks_delete, SCOPE_WRITE, ROUTE_BODY_NONE, NULL, 0, QUERY_NONE) \
    X("GET", "/v1/webhooks/{webhook}/deliveries", webhooks_deliveries, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, \
      QUERY_VIEWED) \
    X("GET", "/v1/tokens", tokens_list, SCOPE_ADMIN, ROUTE_BODY_NONE, NULL, 0, QUERY_NAMED) \
    X("POST", "/v1/tokens", tokens_post, SCOPE_ADMIN, ROUTE_BODY_REQUIRED, NULL, 0, QUERY_NONE) \
    X("DELETE", "/v1/tokens/{token}", tokens_delete, SCOPE_ADMIN, ROUTE_BODY_NONE, NULL, 0, QUERY_NONE) \
    X("GET", "/v1/recipes", recipes_get, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, QUERY_NONE) \
    X("GET", "/v1/metrics", metrics_get, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, QUERY_NONE) \
    X("GET", "/v1/curves/metrics", curves_metrics, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, QUERY_NONE) \
    X("GET", "/v1/workers", system_workers, SCOPE_READ, ROUTE_BODY_NONE, NULL, 0, QUERY_WHOLE)

/* Bodies: the name of the schema in openapi.yaml, the table. A run's, RunRequest, is made of its kinds'. */
#define BODIES(X) \
    X("TrajectoryPatch", trajectories_patch_body) \
    X("ScanBody", trajectories_scan_body) \
    X("DiscoverBody", discover_post_body) \
    X("CheckpointBody", checkpoints_post_body) \
    X("CheckpointPatch", checkpoints_patch_body) \
    X("DatasetBody", datasets_post_body) \
    X("TokenizeBody", tokenize_post_body) \
    X("SweepBody", sweeps_post_body) \
    X("SweepExtension", sweeps_extend_body) \
    X("GateBody", gates_post_body) \
    X("WebhookBody", webhooks_post_body) \
    X("TokenBody", tokens_post_body)
/* clang-format on */

#define ROUTE_HANDLER(method, pattern, handler, ...) http_handler handler;
ROUTES(ROUTE_HANDLER)
#undef ROUTE_HANDLER

#define BODY_TABLE(schema, table) extern const struct param table[];
BODIES(BODY_TABLE)
#undef BODY_TABLE

extern const struct param runs_post_body[];
extern const struct result_shape compare_result;

#endif
