/* handlers.h: all handlers, by file. routes.c assigns them to requests. */
#ifndef RESOURCES_HANDLERS_H
#define RESOURCES_HANDLERS_H

#include "base/param.h"
#include "base/result.h"
#include "http/router.h"

http_handler trajectories_list, trajectories_get, trajectories_patch, trajectories_delete, trajectories_scan,
    trajectories_integrity, schedules_list;
http_handler discover_get, discover_post;
http_handler checkpoints_list, checkpoints_get, checkpoints_post, checkpoints_patch, checkpoints_delete,
    checkpoints_tensors, checkpoints_health;
http_handler datasets_list, datasets_get, datasets_post, datasets_delete;
http_handler tokenize_post;
http_handler runs_list, runs_get, runs_post, runs_cancel, runs_retry, runs_delete;
http_handler run_events_get, run_artifacts_list, run_artifacts_get;
http_handler worst_tokens_get;
http_handler sweeps_list, sweeps_get, sweeps_post, sweeps_cancel, sweeps_retry_failed, sweeps_extend, sweeps_delete;
http_handler curves_get, curves_metrics, measurements_get;
http_handler recipes_get;
http_handler events_get;
http_handler gates_list, gates_get, gates_post, gates_delete, gates_verdict;
http_handler webhooks_list, webhooks_get, webhooks_post, webhooks_delete, webhooks_deliveries;
http_handler tokens_list, tokens_post, tokens_delete;
http_handler metrics_get;
http_handler correlations_get, flips_get;
http_handler compare_get;
http_handler changepoints_get;
http_handler system_health, system_ready, system_metrics, system_workers;

/* The parameter tables of bodies, for the comparison with openapi.yaml. */
extern const struct param trajectories_patch_body[], trajectories_scan_body[], discover_post_body[],
    checkpoints_post_body[], checkpoints_patch_body[], datasets_post_body[], tokenize_post_body[], runs_post_body[],
    sweeps_post_body[], sweeps_extend_body[], gates_post_body[], webhooks_post_body[], tokens_post_body[];

/* The tables of answers, for the same comparison. */
extern const struct result_shape compare_result;

#endif
