#include "jobs/attribution/attribution_conclusions.h"
#include "jobs/attribution/attribution_numbers.h"
#include "jobs/attribution/attribution_plan.h"
#include "jobs/attribution/attribution_progress.h"

#include <inttypes.h>

struct execution {
    const struct attribution_request *request;
    struct attribution_result *out;
    struct attribution_list list;
    struct saved_table table;
    struct attribution_progress progress;
    struct matrix fp_hidden; /* of the evaluation, after the last block */
    int64_t hold_bytes;      /* of each quantization, as its plan says */
};

/* An entry whose quantization is under way and shows its streams. */
struct shown {
    struct execution *execution;
    const struct attribution_entry *entry;
};

/* ---- one quantization ---- */

static enum status visit(void *owner, const struct quantize_streams *streams, struct error *error);

static void log_number(const struct execution *execution, const struct attribution_entry *entry, int64_t width,
                       int64_t row)
{
    const struct monitor *monitor = execution->request->monitor;
    const char *name = entry->unit < 0 ? NULL : execution->out->units[entry->unit].name;
    const double delta = attribution_numbers_at(&execution->table, row).delta;
    if (entry->target == ATTRIBUTION_ALONE)
        monitor_log(monitor, "%s alone, %" PRId64 " bits: delta %.5g", name, execution->out->widths[width], delta);
    else if (entry->target == ATTRIBUTION_LEFT_OUT)
        monitor_log(monitor, "all but %s: delta %.5g", name, delta);
}

/* The progress of an entry with children is that of the children. */
static const struct monitor *monitor_of(const struct execution *execution, const struct attribution_entry *entry)
{
    const bool quiet = entry->row < 0 || entry->children > 0;
    return quiet ? &execution->progress.quiet : &execution->progress.row;
}

/* Measures row `row`; -1: only the streams are wanted. `streams` NULL: it starts at the embeddings. */
static enum status quantize(struct execution *execution, const struct attribution_entry *entry, int64_t width,
                            int64_t row, const struct quantize_streams *streams, struct error *error)
{
    struct shown shown = {execution, entry};
    struct attribution_quantization asked;
    struct quantize_result found = {0};
    attribution_list_quantization(&execution->list, entry, width, &asked);
    asked.request.hold_bytes = execution->hold_bytes;
    asked.request.fp_hidden = execution->fp_hidden;
    asked.request.start = streams;
    asked.request.monitor = monitor_of(execution, entry);
    if (attribution_list_handover(&execution->list, entry).shown)
        asked.request.visitor = (struct quantize_visitor){&shown, visit};
    if (row >= 0) attribution_progress_begin(&execution->progress, row);
    enum status status = quantize_run(&asked.request, &found, error);
    if (status == STATUS_OK && row >= 0) {
        status = attribution_numbers_add(&execution->table, &found, error);
        attribution_progress_end(&execution->progress, row);
        if (status == STATUS_OK) log_number(execution, entry, width, row);
    }
    quantize_result_reset(&found);
    return status;
}

/* Runs an entry at those of its widths that are not measured yet. */
static enum status run_entry(struct execution *execution, const struct attribution_entry *entry,
                             const struct quantize_streams *streams, struct error *error)
{
    enum status status = STATUS_OK;
    if (attribution_numbers_has(&execution->table, entry->last)) return STATUS_OK;
    for (int64_t i = 0; i < entry->width_count && status == STATUS_OK; i++) {
        const int64_t row = entry->row < 0 ? -1 : entry->row + i;
        if (row >= 0 && attribution_numbers_has(&execution->table, row)) continue;
        status = quantize(execution, entry, entry->width + i, row, streams, error);
    }
    return status;
}

/* ---- the streams of a quantization ---- */

static enum status keep_hidden(struct execution *execution, struct matrix from, struct error *error)
{
    struct backend *backend = execution->request->backend;
    const enum status status =
        matrix_new(backend, from.rows, from.columns, "hidden states", &execution->fp_hidden, error);
    if (status != STATUS_OK) return status;
    backend->ops->add(backend, execution->fp_hidden, from, 1, 0);
    return STATUS_OK;
}

static enum status visit(void *owner, const struct quantize_streams *streams, struct error *error)
{
    const struct shown *shown = owner;
    struct execution *execution = shown->execution;
    const struct attribution_entry *entry = shown->entry;
    enum status status = STATUS_OK;
    if (entry->target == ATTRIBUTION_FULL_PRECISION) {
        const bool behind = streams->layer == execution->request->model->config.layers;
        return behind ? keep_hidden(execution, streams->evaluation, error) : STATUS_OK;
    }
    for (int64_t i = 1; i <= entry->children && status == STATUS_OK; i++)
        if (execution->out->units[entry[i].unit].layer == streams->layer)
            status = run_entry(execution, entry + i, streams, error);
    return status;
}

/* ---- the whole list ---- */

static enum status begin(struct execution *execution, struct error *error)
{
    const struct attribution_request *request = execution->request;
    struct plan_budget budget = {.device = ""};
    struct run_plan plan;
    enum status status = attribution_list_new(request, execution->out, &execution->list, error);
    for (bool again = true; again && status == STATUS_OK;) {
        budget = backend_budget(request->backend, request->work_directory);
        status = attribution_plan_choose(&execution->list, &budget, &execution->hold_bytes, &plan, error);
        if (status == STATUS_OK)
            status = backend_claim(request->backend, plan.peak[PLAN_DEVICE], request->monitor, &again, error);
    }
    if (status == STATUS_OK && !plan_fits(&plan, &budget))
        status = plan_refuse(&plan, &budget,
                             "give it fewer or shorter sequences, or more memory (--memory, --device-memory)", error);
    if (status == STATUS_OK) status = attribution_numbers_open(&execution->list, &execution->table, error);
    if (status != STATUS_OK) return status;
    execution->out->flops = plan.flops;
    attribution_progress_init(&execution->list, execution->table.done, &execution->progress);
    return STATUS_OK;
}

/* Runs all entries but the allocation, which follows from their measurements. */
static enum status measure(struct execution *execution, struct error *error)
{
    const struct attribution_list *list = &execution->list;
    enum status status = STATUS_OK;
    for (int64_t i = 0; i < list->count && status == STATUS_OK; i += 1 + list->entries[i].children)
        if (list->entries[i].target != ATTRIBUTION_ALLOCATION)
            status = run_entry(execution, &list->entries[i], NULL, error);
    return status;
}

static enum status allocate(struct execution *execution, struct error *error)
{
    const struct attribution_request *request = execution->request;
    const struct attribution_list *list = &execution->list;
    struct attribution_result *out = execution->out;
    enum status status = attribution_conclusions_allocate(out, request->objective, request->budget, error);
    if (status != STATUS_OK) return status;
    if (!out->allocated) {
        monitor_log(request->monitor, "no allocation: the least widths take %.6g bits per weight", out->least);
        return STATUS_OK;
    }
    status = run_entry(execution, &list->entries[list->count - 1], NULL, error);
    if (status == STATUS_OK) out->measured = attribution_numbers_at(&execution->table, list->allocation);
    return status;
}

static enum status conclude(struct execution *execution, struct error *error)
{
    struct attribution_result *out = execution->out;
    attribution_numbers_gather(&execution->table, &execution->list, out);
    attribution_conclusions_add_up(out);
    if (out->width_count == 1) return STATUS_OK;
    const enum status status = attribution_conclusions_frontier(out, execution->request->objective, error);
    return status == STATUS_OK && execution->request->budget > 0 ? allocate(execution, error) : status;
}

enum status attribution_run(const struct attribution_request *request, struct attribution_result *out,
                            struct error *error)
{
    struct execution execution = {.request = request, .out = out};
    *out = (struct attribution_result){0};
    enum status status = begin(&execution, error);
    if (status == STATUS_OK) status = measure(&execution, error);
    if (status == STATUS_OK) status = conclude(&execution, error);
    matrix_release(request->backend, &execution.fp_hidden);
    saved_table_reset(&execution.table);
    attribution_list_reset(&execution.list);
    if (status != STATUS_OK) attribution_result_reset(out);
    return status;
}
