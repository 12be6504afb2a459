#include "jobs/average.h"

#include "base/memory.h"
#include "kinds/average_plan.h"
#include "kinds/average_report.h"
#include "kinds/kind.h"
#include "kinds/made_checkpoint.h"
#include "kinds/probe.h"
#include "schema/result_render.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct average_params {
    struct param_list checkpoints, trajectories, weights, windows;
    const char *trajectory, *name, *into;
    int64_t window, seed;
    int dtype, shape; /* enum average_shape */
    struct data_use evaluation, calibration;
    struct quantize_method method;
};
#define AT(field) offsetof(struct average_params, field)

enum { LAWA_WINDOW = 5 };

static const struct param trajectory_item = {.type = PARAM_TRAJECTORY};
static const struct param weight_item = {.type = PARAM_NUMBER, .minimum = -1e6, .maximum = 1e6};
static const struct param window_item = {.type = PARAM_INTEGER, .minimum = 1, .maximum = CHECKPOINT_SET_MOST};
/* Index - 1: as the job wants it. */
static const char *const dtypes[] = {"same", "f32", "bf16", "f16", NULL};
static const int dtype_values[] = {-1, DTYPE_F32, DTYPE_BF16, DTYPE_F16};

static const struct param average_params[] = {
    CHECKPOINT_SET_PARAMS(
        AT(checkpoints), 1,
        "Ids, names or TRAJECTORY/NAME, in order; null: those of the trajectory or trajectories, which are"
        " then written here",
        AT(trajectory), "All checkpoints of this trajectory, by step"),
    {.name = "trajectories",
     .type = PARAM_LIST,
     .offset = AT(trajectories),
     .item = &trajectory_item,
     .fallback = "null",
     .nullable = true,
     .minimum = 2,
     .maximum = AVERAGE_LANES,
     .help = "Several of them: each average is over their windows together, matched by step"},
    {.name = "window",
     .type = PARAM_INTEGER,
     .offset = AT(window),
     .fallback = "null",
     .nullable = true,
     .minimum = 1,
     .maximum = CHECKPOINT_SET_MOST,
     .help = "An average for each checkpoint with a full window of so many up to it (LAWA); null: 5"
             " for a trajectory, one average of all "
             "listed checkpoints otherwise"},
    {.name = "weights",
     .type = PARAM_LIST,
     .offset = AT(weights),
     .item = &weight_item,
     .fallback = "null",
     .nullable = true,
     .minimum = 1,
     .maximum = CHECKPOINT_SET_MOST,
     .help = "Of the checkpoints, or of the places in the window, oldest first; divided by their sum; null: all equal"},
    {.name = "shape",
     .type = PARAM_CHOICE,
     .offset = AT(shape),
     .fallback = "null",
     .choices = average_shapes,
     .help =
         "In place of weights: those of a decay that falls in this shape, over the checkpoints or the window by step"
         " (WSM, arXiv 2507.17634); left out: uniform, all equal"},
    INPUTS_NAME_PARAM(
        "name", AT(name),
        "Name of the one average; null: made from its content. Averages of windows are called like the newest"
        " checkpoint in each"),
    INPUTS_NAME_PARAM("into", AT(into),
                      "Trajectory of the averages, made if there is none; null: NAME-lawaN, NAME-soup-lawaN"
                      " or NAME-averages by the first "
                      "checkpoint's trajectory"),
    {.name = "dtype",
     .type = PARAM_CHOICE,
     .offset = AT(dtype),
     .fallback = "\"same\"",
     .choices = dtypes,
     .help = "What the averages are stored in; same: each tensor as in the first checkpoint, f64 as f32"},
    {.name = "windows",
     .type = PARAM_LIST,
     .offset = AT(windows),
     .item = &window_item,
     .fallback = "null",
     .nullable = true,
     .minimum = 1,
     .maximum = 100,
     .help = "A search: the averages of the last so many checkpoints are measured, and the best one is kept"},
    INPUTS_EVALUATION_OR_NULL_PARAM(AT(evaluation), "What a search measures losses on"),
    PROBE_METHOD_PARAMS(AT(method), AT(calibration)),
    PROBE_SEED_PARAM(AT(seed)),
    {0},
};

/* What only a search reads: it would change the made name of an average and nothing else. */
static enum status check_alone(const struct average_params *params, struct error *error)
{
    const char *pointer = point_method_given(&params->method)   ? "/params/method"
                          : params->calibration.dataset != NULL ? "/params/calibration"
                          : params->seed != 0                   ? "/params/seed"
                                                                : NULL;
    if (pointer == NULL) return STATUS_OK;
    return error_set_at(error, STATUS_INVALID, pointer, "is of no use without windows to search");
}

/* What goes with a search over windows, and what does not go without one. */
static enum status check_search(const struct average_params *params, bool search, struct error *error)
{
    if (search && (params->window > 0 || params->weights.count > 0))
        return error_set_at(error, STATUS_INVALID, params->window > 0 ? "/params/window" : "/params/weights",
                            "must be null in a search over windows, whose averages are uniform");
    if (search && params->shape != AVERAGE_UNIFORM)
        return error_set_at(error, STATUS_INVALID, "/params/shape",
                            "must be uniform in a search over windows: give the window, or checkpoints");
    if (search != (params->evaluation.dataset != NULL))
        return error_set_at(error, STATUS_INVALID, "/params/evaluation",
                            search ? "is missing: what the search measures losses on"
                                   : "is of no use without windows to search");
    return search ? STATUS_OK : check_alone(params, error);
}

/* The shape that stands for no shape is left out: requests with it and without are equal, and so are made names. */
static enum status complete_shape(const struct run_request *request, const struct average_params *params,
                                  struct error *error)
{
    if (json_object_get(request->params, "shape") == NULL) return STATUS_OK;
    if (params->weights.count > 0)
        return error_set_at(error, STATUS_INVALID, "/params/shape", "excludes weights: give one of the two");
    if (params->shape == AVERAGE_UNIFORM) (void)json_object_del(request->params, "shape");
    return STATUS_OK;
}

/* Which of the ways to ask this is; what is left out is written into the document. */
static enum status complete_way(const struct run_request *request, struct average_params *params, struct error *error)
{
    const bool listed = params->checkpoints.count > 0, search = params->windows.count > 0;
    const bool whole = params->trajectory != NULL || params->trajectories.count > 0;
    if (params->trajectory != NULL && params->trajectories.count > 0)
        return error_set_at(error, STATUS_INVALID, "/params/trajectories", "exclude trajectory: give one of the two");
    if (!listed && !whole)
        return error_set_at(error, STATUS_INVALID, "/params/checkpoints", "is missing: give a list, or a trajectory");
    enum status status = check_search(params, search, error);
    if (status == STATUS_OK) status = complete_shape(request, params, error);
    if (status != STATUS_OK) return status;
    if (whole && !search && params->window == 0) {
        params->window = LAWA_WINDOW;
        if (json_object_set_new(request->params, "window", json_integer(LAWA_WINDOW)) != 0)
            return error_no_memory(error, "a run");
    }
    if (params->window > 0 && params->name != NULL)
        return error_set_at(
            error, STATUS_INVALID, "/params/name",
            "must be null with a window: each average is called like its newest checkpoint; into names the trajectory");
    return STATUS_OK;
}

static enum status complete_checkpoints(struct run_request *request, const struct average_params *params, json_t **out,
                                        struct error *error)
{
    enum status status = STATUS_OK;
    *out = json_object_get(request->params, "checkpoints");
    if (json_is_array(*out)) return STATUS_OK;
    json_t *ids = json_array();
    if (ids == NULL || json_object_set_new(request->params, "checkpoints", ids) != 0)
        return error_no_memory(error, "a run");
    *out = ids;
    if (params->trajectory != NULL)
        return checkpoint_set_list(request, params->trajectory, "/params/trajectory", ids, error);
    for (int64_t i = 0; i < params->trajectories.count && status == STATUS_OK; i++)
        status = checkpoint_set_list(request, params->trajectories.texts[i], "/params/trajectories", ids, error);
    if (status == STATUS_OK && json_array_size(ids) > CHECKPOINT_SET_MOST)
        return error_set_at(error, STATUS_INVALID, "/params/trajectories",
                            "have %zu checkpoints, at most %d can be used", json_array_size(ids), CHECKPOINT_SET_MOST);
    return status;
}

/* Names that were left out. */
static enum status complete_names(const struct run_request *request, struct average_params *params,
                                  const struct average_plan *plan, struct error *error)
{
    char name[STORE_NAME], ending[64] = "-averages", digest[HASH_TEXT];
    const char *first = plan->rows[0].trajectory_name;
    bool soup = false;
    for (int64_t i = 1; i < plan->row_count; i++)
        soup = soup || strcmp(plan->rows[i].trajectory.text, plan->rows[0].trajectory.text) != 0;
    if (params->into == NULL) {
        if (params->window > 0)
            (void)snprintf(ending, sizeof ending, "%s-lawa%lld", soup ? "-soup" : "", (long long)params->window);
        store_name_extend(first, ending, name);
        if (json_object_set_new(request->params, "into", json_string(name)) != 0)
            return error_no_memory(error, "a run");
        params->into = json_string_value(json_object_get(request->params, "into"));
    }
    if (params->window > 0 || params->name != NULL) return STATUS_OK;
    const enum status status = hash_json(request->params, digest, error);
    if (status != STATUS_OK) return status;
    (void)snprintf(name, sizeof name, "%s-%.12s", params->windows.count > 0 ? "best" : "average", digest);
    if (json_object_set_new(request->params, "name", json_string(name)) != 0) return error_no_memory(error, "a run");
    params->name = json_string_value(json_object_get(request->params, "name"));
    return STATUS_OK;
}

/* `posted`: the parameters as they were posted; NULL: what was left out is of no interest. */
static const char *window_from(const struct average_params *params, const json_t *posted)
{
    if (posted == NULL || json_is_integer(json_object_get(posted, "window"))) return NULL;
    return json_is_array(json_object_get(posted, "checkpoints")) ? "/params/checkpoints"
           : params->trajectory != NULL                          ? "/params/trajectory"
                                                                 : "/params/trajectories";
}

static enum status plan_of(struct connection *connection, const struct average_params *params, const json_t *posted,
                           const char *const *ids, int64_t count, struct average_plan *out, struct error *error)
{
    const bool one = params->trajectory != NULL;
    const struct average_plan_request request = {
        .ids = ids,
        .count = count,
        .weights = params->weights.count > 0 ? params->weights.numbers : NULL,
        .weight_count = params->weights.count,
        .shape = (enum average_shape)params->shape,
        .window = params->window,
        .ordered = params->window > 0 || params->windows.count > 0,
        .name = params->name,
        .lanes = one ? &params->trajectory : params->trajectories.texts,
        .lane_count = one ? 1 : params->trajectories.count,
        .lanes_at = one ? "/params/trajectory" : "/params/trajectories",
        .window_from = window_from(params, posted),
    };
    return average_plan_make(connection, &request, out, error);
}

/* The names that the run takes, for runs of one sweep. */
static enum status note_names(struct run_request *request, const struct average_params *params,
                              const struct average_plan *plan, struct error *error)
{
    json_t *names = json_object();
    for (int64_t i = 0; i < plan->count; i++)
        (void)json_object_set_new(names, params->window > 0 ? plan->groups[i].name : params->name, json_true());
    request->makes = json_pack("{ss ss so}", "pointer", params->window > 0 ? "/params/into" : "/params/name", "into",
                               params->into, "names", names);
    return request->makes == NULL ? error_no_memory(error, "a run") : STATUS_OK;
}

static bool average_meet(const json_t *makes, const json_t *others, char words[KIND_MEET_TEXT])
{
    const json_t *into = json_object_get(makes, "into");
    const char *name;
    json_t *unused;
    if (!json_equal(into, json_object_get(others, "into"))) return false;
    json_object_foreach(json_object_get(makes, "names"), name, unused)
    {
        if (json_object_get(json_object_get(others, "names"), name) == NULL) continue;
        (void)snprintf(words, KIND_MEET_TEXT, "make a checkpoint \"%.150s/%.150s\"", json_string_value(into), name);
        return true;
    }
    return false;
}

/* As checkpoints name it; NULL: the first checkpoint's. */
static const char *dtype_name(const struct average_params *params)
{
    const int dtype = dtype_values[params->dtype];
    return dtype < 0 ? NULL : dtype_info((enum dtype)dtype)->name;
}

static enum status check_plan(struct run_request *request, struct average_params *params, const json_t *ids,
                              struct error *error)
{
    const int64_t count = (int64_t)json_array_size(ids);
    struct average_plan plan = {0};
    struct store_id existing;
    const char **texts = NULL;
    enum status status = memory_new(count, sizeof *texts, "checkpoint list", &texts, error);
    if (status != STATUS_OK) return status;
    for (int64_t i = 0; i < count; i++) texts[i] = json_string_value(json_array_get(ids, (size_t)i));
    if ((status = plan_of(request->connection, params, request->posted, texts, count, &plan, error)) != STATUS_OK)
        goto done;
    if ((status = complete_names(request, params, &plan, error)) != STATUS_OK) goto done;
    for (int64_t i = 0; i < params->windows.count && status == STATUS_OK; i++)
        status = average_plan_last(&plan, params->windows.integers[i], params->name, error);
    for (int64_t i = 0; i < plan.count && status == STATUS_OK && params->windows.count == 0; i++) {
        if (params->window == 0) plan.groups[i].name = params->name;
        status = average_plan_find(request->connection, params->into, &plan.groups[i], dtype_name(params),
                                   params->window > 0 ? "/params/into" : "/params/name", &existing, error);
    }
    if (status == STATUS_OK) status = note_names(request, params, &plan, error);
done:
    average_plan_reset(&plan);
    memory_free(texts);
    return status;
}

static enum status average_check(struct run_request *request, const void *filled, struct error *error)
{
    struct average_params params = *(const struct average_params *)filled;
    json_t *ids = NULL;
    enum status status;
    if ((status = complete_way(request, &params, error)) != STATUS_OK) return status;
    if ((status = complete_checkpoints(request, &params, &ids, error)) != STATUS_OK) return status;
    if ((status = checkpoint_set_check(request, ids, "/params/checkpoints", error)) != STATUS_OK) return status;
    if ((status = check_plan(request, &params, ids, error)) != STATUS_OK || params.windows.count == 0) return status;
    return probe_check(request, json_string_value(json_array_get(ids, 0)), &params.method, &params.evaluation,
                       "evaluation", &params.calibration, error);
}

/* ---- execution ---- */

struct averaging {
    const struct run_context *context;
    const struct average_params *params;
    struct average_plan plan;
    char directory[PATH_MAX]; /* $DATA/checkpoints/RUN: below a root of every server */
    json_t *ids;              /* of the results */
    struct run_plan needed;   /* for what was opened so far */
};

static enum status set_of_group(const struct run_context *context, const struct average_group *group,
                                struct checkpoint_set *set, struct error *error)
{
    const char **ids = NULL;
    enum status status = memory_new(group->count, sizeof *ids, "checkpoint list", &ids, error);
    for (int64_t k = 0; k < group->count && status == STATUS_OK; k++) ids[k] = group->members[k]->id.text;
    if (status == STATUS_OK) status = checkpoint_set_open(context, ids, group->count, PRECISION_F32, set, error);
    memory_free(ids);
    return status;
}

static enum status group_register(const struct averaging *averaging, const struct average_group *group,
                                  const char *path, struct store_id *id, struct error *error)
{
    const struct checkpoint *newest = group->newest;
    json_t *origin = average_plan_origin(group);
    if (origin == NULL || json_object_set_new(origin, "run", json_string(averaging->context->run)) != 0) {
        json_decref(origin);
        return error_no_memory(error, "a run");
    }
    const struct checkpoint_new row = {
        .trajectory = averaging->params->into,
        .name = group->name,
        .step = newest->step >= 0 ? &newest->step : NULL,
        .tokens = newest->tokens >= 0 ? &newest->tokens : NULL,
        .learning_rate = isfinite(newest->learning_rate) ? &newest->learning_rate : NULL,
        .path = path,
        .derived_from = origin,
    };
    const enum status status = made_checkpoint_register(averaging->context, &row, id, error);
    json_decref(origin);
    return status;
}

/* The checkpoints of an average, opened, and the request that makes it. */
struct averaged {
    struct checkpoint_set set;
    char path[PATH_MAX];
    struct average_request request;
};

/* Opens a group, and adds the plan of its average to what is needed. The caller closes out->set. */
static enum status averaged_open(struct averaging *averaging, int64_t part, struct averaged *out, struct error *error)
{
    const struct average_group *group = &averaging->plan.groups[part];
    struct run_plan plan;
    out->set = (struct checkpoint_set){0};
    if (snprintf(out->path, sizeof out->path, "%s/%04lld", averaging->directory, (long long)part) >=
        (int)sizeof out->path)
        return error_set(error, STATUS_INVALID, "a checkpoint's path is too long");
    enum status status = set_of_group(averaging->context, group, &out->set, error);
    out->request = (struct average_request){
        .family = &out->set.family,
        .weights = group->weights,
        .directory = out->path,
        .dtype = dtype_values[averaging->params->dtype],
        .monitor = averaging->context->monitor,
        .part = part,
        .parts = averaging->plan.count,
    };
    if (status == STATUS_OK) status = average_plan(&out->request, &plan, error);
    if (status != STATUS_OK) return status;
    plan_add(&averaging->needed, &plan, 1);
    plan_take(&averaging->needed, PLAN_DISK, plan.live[PLAN_DISK]); /* which stays */
    return STATUS_OK;
}

static enum status group_plan(struct averaging *averaging, int64_t part, struct store_id *unused, struct error *error)
{
    struct averaged averaged;
    const enum status status = averaged_open(averaging, part, &averaged, error);
    (void)unused;
    checkpoint_set_reset(&averaged.set);
    return status;
}

static enum status group_write(struct averaging *averaging, int64_t part, struct store_id *id, struct error *error)
{
    struct averaged averaged;
    enum status status = averaged_open(averaging, part, &averaged, error);
    if (status == STATUS_OK) status = average_write(&averaged.request, error);
    if (status == STATUS_OK)
        status = group_register(averaging, &averaging->plan.groups[part], averaged.path, id, error);
    checkpoint_set_reset(&averaged.set);
    return status;
}

/* Calls `make` for each average that is not there yet: an attempt that follows a killed one finds the averages of that
 * one. */
static enum status groups_make(struct averaging *averaging,
                               enum status (*make)(struct averaging *, int64_t, struct store_id *, struct error *),
                               struct error *error)
{
    enum status status = STATUS_OK;
    for (int64_t i = 0; i < averaging->plan.count && status == STATUS_OK; i++) {
        struct store_id id;
        status = average_plan_find(averaging->context->connection, averaging->params->into, &averaging->plan.groups[i],
                                   dtype_name(averaging->params), "", &id, error);
        if (status == STATUS_OK && id.text[0] == '\0') status = make(averaging, i, &id, error);
        if (status == STATUS_OK && json_array_append_new(averaging->ids, json_string(id.text)) != 0)
            status = error_no_memory(error, "a run");
    }
    return status;
}

/* Opens the average of the last `window` of each trajectory as a point to measure, and adds its plan to what is
 * needed. The caller resets *out. */
static enum status candidate_open(struct averaging *averaging, int64_t window, struct probe_set *out,
                                  struct error *error)
{
    const struct run_context *context = averaging->context;
    const struct average_params *params = averaging->params;
    struct run_plan plan;
    *out = (struct probe_set){0};
    enum status status = average_plan_last(&averaging->plan, window, params->name, error);
    if (status == STATUS_OK) status = set_of_group(context, &averaging->plan.groups[0], &out->set, error);
    if (status == STATUS_OK)
        status = probe_open(context, &out->set, &params->method, &params->evaluation, &params->calibration,
                            params->seed, &out->probe, error);
    if (status != STATUS_OK) return status;
    const struct plan_budget budget = backend_budget(out->probe.request.backend, context->work_directory);
    status = point_plan(&out->probe.request, averaging->plan.groups[0].weights, (double)out->set.count, &budget, &plan,
                        error);
    if (status == STATUS_OK) plan_add(&averaging->needed, &plan, 1);
    return status;
}

static enum status candidate_measure(struct averaging *averaging, int64_t window, struct point *out,
                                     struct error *error)
{
    struct probe_set probe;
    enum status status = candidate_open(averaging, window, &probe, error);
    if (status == STATUS_OK)
        status =
            point_measure(&probe.probe.request, averaging->plan.groups[0].weights, (double)probe.set.count, out, error);
    probe_set_reset(&probe);
    return status;
}

/* The window with the lowest loss: of the quantized average if there is a method. The plan is left with its average. */
static enum status search(struct averaging *averaging, struct average_report *report, struct error *error)
{
    const struct average_params *params = averaging->params;
    const bool quantized = point_method_given(&params->method);
    const int64_t count = params->windows.count;
    double lowest = INFINITY;
    enum status status = memory_new(count, sizeof *report->candidates, "a search", &report->candidates, error);
    if (status != STATUS_OK) return status;
    report->searched = true;
    report->best = params->windows.integers[0];
    for (int64_t i = 0; i < count; i++) {
        struct average_candidate *candidate = &report->candidates[report->candidate_count++];
        candidate->window = params->windows.integers[i];
        if ((status = candidate_measure(averaging, candidate->window, &candidate->point, error)) != STATUS_OK)
            return status;
        const double loss = quantized ? candidate->point.loss_q : candidate->point.loss;
        if (loss < lowest) {
            lowest = loss;
            report->best = candidate->window;
        }
        monitor_progress(averaging->context->monitor, i + 1, count, "window");
    }
    if (!isfinite(lowest)) return error_set(error, STATUS_NOT_FINITE, "no window's average has a finite loss");
    return average_plan_last(&averaging->plan, report->best, params->name, error);
}

/* Which window is best shows when it is measured: the widest reads most. */
static enum status search_plan(struct averaging *averaging, struct error *error)
{
    const struct average_params *params = averaging->params;
    int64_t widest = 0;
    enum status status = STATUS_OK;
    for (int64_t i = 0; i < params->windows.count && status == STATUS_OK; i++) {
        const int64_t window = params->windows.integers[i];
        struct probe_set probe;
        if (window > widest) widest = window;
        status = candidate_open(averaging, window, &probe, error);
        probe_set_reset(&probe);
    }
    return status == STATUS_OK ? average_plan_last(&averaging->plan, widest, params->name, error) : status;
}

static enum status average_run_plan(const struct run_context *context, const void *filled, struct plan_budget *budget,
                                    struct run_plan *out, struct error *error)
{
    const struct average_params *params = filled;
    struct averaging averaging = {.context = context, .params = params, .ids = json_array()};
    struct backend *backend = NULL;
    enum status status = averaging.ids == NULL ? error_no_memory(error, "a run")
                                               : inputs_backend(context, PRECISION_F32, &backend, error);
    if (status == STATUS_OK) *budget = backend_budget(backend, context->data_directory);
    if (status == STATUS_OK)
        status = plan_of(context->connection, params, NULL, params->checkpoints.texts, params->checkpoints.count,
                         &averaging.plan, error);
    if (status == STATUS_OK && params->windows.count > 0) status = search_plan(&averaging, error);
    if (status == STATUS_OK) status = groups_make(&averaging, group_plan, error);
    *out = averaging.needed;
    backend_free(backend);
    average_plan_reset(&averaging.plan);
    json_decref(averaging.ids);
    return status;
}

static enum status average_execute(const struct run_context *context, const void *filled, json_t **result,
                                   struct measurements *out, struct error *error)
{
    const struct average_params *params = filled;
    struct averaging averaging = {.context = context, .params = params, .ids = json_array()};
    struct average_report report = {.trajectory = params->into, .ids = averaging.ids};
    enum status status = averaging.ids == NULL ? error_no_memory(error, "a run") : STATUS_OK;
    (void)out; /* an average is a checkpoint: its losses are measured like any other's */
    if (status == STATUS_OK)
        status = plan_of(context->connection, params, NULL, params->checkpoints.texts, params->checkpoints.count,
                         &averaging.plan, error);
    if (status == STATUS_OK && params->windows.count > 0) status = search(&averaging, &report, error);
    if (status == STATUS_OK)
        status = made_checkpoint_directory(context, averaging.directory, sizeof averaging.directory, error);
    if (status == STATUS_OK) status = groups_make(&averaging, group_write, error);
    if (params->window == 0) report.checkpoint = json_string_value(json_array_get(averaging.ids, 0));
    if (status == STATUS_OK) status = result_render(&average_report_shape, &report, result, error);
    if (status == STATUS_OK) run_context_note_work(context, plan_work(&averaging.needed));
    average_plan_reset(&averaging.plan);
    memory_free(report.candidates);
    json_decref(averaging.ids);
    return status;
}

const struct kind average_kind = {
    .name = "average",
    .help = "Averages of checkpoints: uniform, weighted, over windows, across trajectories",
    .params = average_params,
    .params_size = sizeof(struct average_params),
    .result = &average_report_shape,
    .check = average_check,
    .meet = average_meet,
    .execute = average_execute,
    .plan = average_run_plan,
};
