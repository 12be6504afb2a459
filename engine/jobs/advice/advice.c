#include "jobs/advice/advice.h"

#include "base/checksum.h"
#include "base/memory.h"
#include "jobs/advice/advice_forecast.h"
#include "jobs/advice/advice_measure.h"
#include "jobs/saved_table.h"

#include <math.h>
#include <string.h>

#define TABLE "advice"

/* Progress in tokens that go through the model: of a row first those of its training, each three times (forward,
 * backward and what is computed again cost about as much), then those of its quantization. */
struct progress {
    const struct advice_request *request;
    int64_t rows[ADVICE_ROWS]; /* tokens of each */
    int64_t making;            /* of the row at hand */
    int64_t done, row, total;  /* before it; its tokens; of all */
    int64_t skipped;           /* steps that the branch at hand had done before it began */
    struct monitor monitor;
};

static void told(void *owner, int64_t done, int64_t total, const char *unit)
{
    struct progress *progress = owner;
    const bool quantizing = strcmp(unit, "block") == 0, training = strcmp(unit, "step") == 0;
    const int64_t skipped = training ? progress->skipped : 0;
    const int64_t part = quantizing ? progress->row - progress->making : progress->making;
    const int64_t before = progress->done + (quantizing ? progress->making : 0);
    if (total <= skipped || done < skipped) return;
    monitor_progress(progress->request->monitor,
                     before + (int64_t)((double)part * ((double)(done - skipped) / (double)(total - skipped))),
                     progress->total, "token");
}

static void logged(void *owner, const char *line)
{
    monitor_log(((struct progress *)owner)->request->monitor, "%s", line);
}

static enum status checked(void *owner, struct error *error)
{
    return monitor_check(((struct progress *)owner)->request->monitor, error);
}

static bool trains(const struct advice_row *row)
{
    return row->act == ADVICE_DECAY || row->act == ADVICE_CONTINUE;
}

static int64_t row_tokens(const struct advice_request *request, const struct advice_list *list, int64_t i,
                          int64_t *making)
{
    const struct advice_row *row = &list->rows[i];
    const int64_t passes = 3 * optimizer_kinds[request->train->optimizer.name]->gradients;
    int64_t tokens = 2 * request->evaluation->starts[request->evaluation->count];
    if (request->calibration != NULL) tokens += request->calibration->starts[request->calibration->count];
    *making = trains(row) ? passes * (row->amount - row->before) * list->step_tokens : 0;
    return *making + tokens;
}

static void progress_init(const struct advice_request *request, const struct advice_list *list, struct progress *out)
{
    int64_t unused;
    *out = (struct progress){.request = request};
    out->monitor = (struct monitor){.owner = out, .progress = told, .log = logged, .check = checked};
    for (int64_t i = 0; i < list->count; i++) out->total += row_tokens(request, list, i, &unused);
}

static void progress_begin(const struct advice_list *list, int64_t row, struct progress *progress)
{
    progress->done = 0;
    for (int64_t i = 0; i <= row; i++) {
        progress->row = row_tokens(progress->request, list, i, &progress->making);
        progress->done += progress->row;
    }
    progress->done -= progress->row;
    progress->skipped = list->start + list->rows[row].before;
    monitor_progress(progress->request->monitor, progress->done, progress->total, "token");
}

/* Fingerprint that tells lists apart: the work directory belongs to the run, and other code checks the files it
 * reads. */
static uint64_t fingerprint_of(const struct advice_list *list)
{
    struct checksum sum;
    checksum_init(&sum);
    for (int64_t i = 0; i < list->count; i++) {
        const int64_t row[] = {list->rows[i].act, list->rows[i].amount, list->rows[i].before};
        checksum_add(&sum, row, sizeof row);
    }
    checksum_add(&sum, &list->start, sizeof list->start);
    return checksum_value(&sum);
}

static enum status numbers_find(const struct advice_work *work, int64_t row, double *values, struct error *error)
{
    struct quantize_result found;
    const enum status status = advice_measure_row(work, row, &found, error);
    if (status == STATUS_OK) {
        values[ADVICE_FP] = found.fp.loss;
        values[ADVICE_Q] = found.q.loss;
        values[ADVICE_DELTA] = found.delta;
        memcpy(values + ADVICE_NUMBERS, found.q.sequence_losses, (size_t)found.q.sequences * sizeof *values);
    }
    quantize_result_reset(&found);
    return status;
}

/* Fills a row of the table. A branch that diverges, or that continues one without a loss, has no numbers: the other
 * rows' are worth what they were. */
static enum status row_measure(const struct advice_work *work, struct saved_table *table, double *values,
                               struct error *error)
{
    const int64_t row = table->done;
    const struct advice_row *at = &work->list->rows[row];
    const bool lost = at->before > 0 && !isfinite(table->values[(row - 1) * table->width + ADVICE_FP]);
    enum status status = STATUS_OK;
    for (int64_t i = 0; i < table->width; i++) values[i] = NAN;
    if (!lost) status = numbers_find(work, row, values, error);
    if (status == STATUS_NOT_FINITE && trains(at)) {
        monitor_log(work->monitor, "a branch of %lld tokens has no loss: %s",
                    (long long)(at->amount * work->list->step_tokens), error->detail);
        status = STATUS_OK;
    }
    if (status == STATUS_OK) status = saved_table_add(table, values, error);
    if (status == STATUS_OK) status = saved_table_save(table, error);
    if (status == STATUS_OK) advice_measure_done(work, row);
    return status;
}

static enum status rows_measure(const struct advice_request *request, const struct advice_list *list,
                                struct saved_table *table, struct error *error)
{
    struct progress progress;
    double *values = NULL;
    enum status status = memory_new(table->width, sizeof *values, "a run's numbers", &values, error);
    progress_init(request, list, &progress);
    const struct advice_work work = {.request = request, .list = list, .monitor = &progress.monitor};
    if (table->done > 0) advice_measure_done(&work, table->done - 1);
    while (status == STATUS_OK && table->done < list->count) {
        progress_begin(list, table->done, &progress);
        status = row_measure(&work, table, values, error);
    }
    memory_free(values);
    if (status == STATUS_OK) monitor_progress(request->monitor, progress.total, progress.total, "token");
    return status;
}

static struct advice_point point_of(const struct advice_request *request, const struct advice_list *list,
                                    const struct advice_row *row, const double *values)
{
    const int64_t last = request->family->count - 1;
    struct advice_point point = {
        .member = -1,
        .tokens = list->start * list->step_tokens,
        .losses = {values[ADVICE_FP], values[ADVICE_Q], values[ADVICE_DELTA]},
    };
    switch (row->act) {
    case ADVICE_MEMBER:
        point.member = row->amount;
        point.tokens = request->steps[row->amount] * list->step_tokens;
        break;
    case ADVICE_AVERAGE:
        point.member = last;
        point.option.average = row->amount;
        break;
    case ADVICE_DECAY:
        point.option.decay = row->amount * list->step_tokens;
        point.tokens += point.option.decay;
        break;
    case ADVICE_CONTINUE:
        point.option.continue_ = row->amount * list->step_tokens;
        point.tokens += point.option.continue_;
        break;
    case ADVICE_ACTS:
        break;
    }
    return point;
}

enum status advice_run(const struct advice_request *request, struct advice_result *out, struct error *error)
{
    const int64_t width = ADVICE_NUMBERS + request->evaluation->count;
    struct advice_list list;
    struct saved_table table = {.rows = 0};
    *out = (struct advice_result){.points = NULL};
    enum status status = advice_list_make(request, request->family->count, &list, error);
    if (status == STATUS_OK)
        status =
            saved_table_open(request->work_directory, TABLE, fingerprint_of(&list), list.count, width, &table, error);
    if (status == STATUS_OK) status = rows_measure(request, &list, &table, error);
    if (status == STATUS_OK) status = memory_new(list.count, sizeof *out->points, "a forecast", &out->points, error);
    if (status == STATUS_OK) {
        const struct advice_measured measured = {.request = request, .list = &list, .values = table.values};
        out->point_count = list.count;
        for (int64_t i = 0; i < list.count; i++)
            out->points[i] = point_of(request, &list, &list.rows[i], table.values + i * width);
        advice_forecast_make(&measured, out);
    }
    saved_table_reset(&table);
    return status;
}

void advice_result_reset(struct advice_result *result)
{
    memory_free(result->points);
    *result = (struct advice_result){.points = NULL};
}

/* Adds up the rows' plans in order. A branch is on the disk while it is measured, and until then so is the one that it
 * continues. */
static enum status rows_plan(const struct advice_work *work, int64_t token_count, const struct run_plan *measuring,
                             struct run_plan *out, struct error *error)
{
    int64_t before = 0; /* bytes of the branch of the row before */
    for (int64_t i = 0; i < work->list->count; i++) {
        const int64_t continued = work->list->rows[i].before > 0 ? before : 0;
        struct run_plan making;
        const enum status status = advice_measure_plan_making(work, i, token_count, &making, error);
        if (status != STATUS_OK) return status;
        before = making.live[PLAN_DISK];
        plan_take(out, PLAN_DISK, continued);
        plan_add(out, &making, 1);
        plan_take(out, PLAN_DISK, before);
        plan_add(out, measuring, 1);
        plan_give(out, PLAN_DISK, continued + before);
    }
    return STATUS_OK;
}

enum status advice_plan(const struct advice_request *request, int64_t token_count, const struct plan_budget *budget,
                        struct run_plan *out, struct error *error)
{
    struct advice_list list;
    struct run_plan measuring;
    const struct advice_work work = {.request = request, .list = &list};
    *out = (struct run_plan){.flops = 0};
    enum status status = advice_list_make(request, request->family->count, &list, error);
    if (status == STATUS_OK) status = advice_measure_plan_measuring(&work, budget, &measuring, error);
    if (status != STATUS_OK) return status;
    saved_table_plan(list.count, ADVICE_NUMBERS + request->evaluation->count, list.count, out);
    return rows_plan(&work, token_count, &measuring, out, error);
}
