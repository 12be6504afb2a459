#include "jobs/attribution/attribution_progress.h"

static void report(const struct attribution_progress *progress, double cost)
{
    monitor_progress(progress->list->request->monitor, (int64_t)(progress->done_cost + cost),
                     (int64_t)progress->total_cost, "block");
}

/* ---- what a row takes, for the estimate of the time that is left ---- */

static double cost_of(const struct attribution_progress *progress, int64_t row)
{
    const struct attribution_list *list = progress->list;
    const int64_t layers = list->request->model->config.layers;
    if (row >= list->whole) return (double)layers * (1 + progress->calibration) + progress->head;
    const bool alone = row < list->left_out;
    const int64_t unit = alone ? row / list->units->width_count : row - list->left_out;
    const double blocks = (double)(layers - list->units->units[unit].layer);
    return blocks + progress->calibration * (alone ? 1 : blocks) + progress->head;
}

/* The head multiplies by the output matrix twice: for the full-precision stream and for the quantized one. */
static double head_cost(const struct model *model)
{
    const struct program *program = &model->programs[0];
    double block = 0;
    for (int i = 0; i < program->parameter_count; i++)
        block += (double)(program->parameters[i].rows * program->parameters[i].columns);
    return 2.0 * (double)model->config.vocabulary_size * (double)model->config.hidden_size / block;
}

/* Calibration tokens pass a block up to its linears and then through it; Hessians and codes take as much again. */
static double calibration_cost(const struct attribution_request *request)
{
    const struct sequences *calibration = request->calibration, *evaluation = request->evaluation;
    if (calibration == NULL || calibration->count == 0) return 0;
    return 3.0 * (double)calibration->starts[calibration->count] / (double)evaluation->starts[evaluation->count];
}

/* ---- what the quantizations report to ---- */

static void row_progress(void *owner, int64_t done, int64_t total, const char *unit)
{
    const struct attribution_progress *progress = owner;
    (void)unit;
    report(progress, progress->row_cost * (double)done / (double)(total > 0 ? total : 1));
}

static void pass_log(void *owner, const char *line)
{
    monitor_log(((const struct attribution_progress *)owner)->list->request->monitor, "%s", line);
}

static enum status pass_check(void *owner, struct error *error)
{
    return monitor_check(((const struct attribution_progress *)owner)->list->request->monitor, error);
}

void attribution_progress_init(const struct attribution_list *list, int64_t done, struct attribution_progress *out)
{
    *out = (struct attribution_progress){
        .list = list,
        .calibration = calibration_cost(list->request),
        .head = head_cost(list->request->model),
        .row = {.owner = out, .progress = row_progress, .log = pass_log, .check = pass_check},
        .quiet = {.owner = out, .log = pass_log, .check = pass_check},
    };
    for (int64_t row = 0; row < list->rows; row++) out->total_cost += cost_of(out, row);
    for (int64_t row = 0; row < done; row++) out->done_cost += cost_of(out, row);
    report(out, 0);
}

void attribution_progress_begin(struct attribution_progress *progress, int64_t row)
{
    progress->row_cost = cost_of(progress, row);
}

void attribution_progress_end(struct attribution_progress *progress, int64_t row)
{
    progress->done_cost += cost_of(progress, row);
    report(progress, 0);
}
