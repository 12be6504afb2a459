#include "jobs/advice/advice_measure.h"

#include "base/checksum.h"
#include "base/memory.h"
#include "jobs/advice/advice_files.h"
#include "jobs/average.h"
#include "jobs/train/train_plan.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { NAME_SIZE = 48 };

/* Name of the directory in which a row's model is made. */
static void name_row(const struct advice_row *row, char out[NAME_SIZE])
{
    static const char *const names[ADVICE_ACTS] = {"member", "average", "decay", "continue"};
    (void)snprintf(out, NAME_SIZE, "%s-%lld", names[row->act], (long long)row->amount);
}

static void name_state(const char *name, char out[NAME_SIZE + 8])
{
    (void)snprintf(out, NAME_SIZE + 8, "%s-state", name);
}

/* The run's settings under the branch's schedule. A continuation keeps its state for the one after it. */
static struct train_params params_of(const struct advice_work *work, const struct advice_row *row)
{
    const struct advice_list *list = work->list;
    struct train_params params = *work->request->train;
    params.model = NULL;
    params.from = "";
    params.validation = NULL;
    params.tokenizer.name = TRAIN_TOKENIZER_NONE;
    params.ema.decay = 0;
    params.checkpoint_every = 0;
    params.tokens = (list->start + row->amount) * list->step_tokens;
    params.keep_state = row->act == ADVICE_CONTINUE;
    params.schedule.name = row->act == ADVICE_DECAY ? SCHEDULE_WSD : SCHEDULE_CONSTANT;
    params.schedule.final = work->request->final;
    params.schedule.shape = work->request->shape;
    params.schedule.decay = row->act == ADVICE_DECAY ? row->amount * list->step_tokens : 0;
    params.schedule.start = params.schedule.period = 0;
    return params;
}

/* Path of a branch's last checkpoint. */
static enum status branch_path(const struct advice_work *work, const struct advice_row *row, char out[PATH_MAX],
                               struct error *error)
{
    char name[NAME_SIZE], checkpoint[40], directory[PATH_MAX];
    name_row(row, name);
    train_checkpoint_name(work->list->start + row->amount, false, checkpoint, sizeof checkpoint);
    const enum status status = advice_files_path(work->request->work_directory, name, directory, error);
    return status == STATUS_OK ? advice_files_path(directory, checkpoint, out, error) : status;
}

static enum status branch_train(const struct advice_work *work, int64_t i, struct error *error)
{
    const struct advice_row *row = &work->list->rows[i];
    const struct train_params params = params_of(work, row);
    char name[NAME_SIZE], state[NAME_SIZE + 8], directory[PATH_MAX], work_directory[PATH_MAX], from[PATH_MAX];
    struct train_result trained = {0};
    name_row(row, name);
    name_state(name, state);
    enum status status = advice_files_make(work->request->work_directory, name, directory, error);
    if (status == STATUS_OK) status = advice_files_make(work->request->work_directory, state, work_directory, error);
    if (status == STATUS_OK && row->before > 0) status = branch_path(work, row - 1, from, error);
    if (status != STATUS_OK) return status;
    const struct train_request request = {
        .params = &params,
        .from = row->before > 0 ? from : work->request->from,
        .from_state = row->before > 0 ? NULL : work->request->from_state,
        .dataset = work->request->dataset,
        .directory = directory,
        .work_directory = work_directory,
        .backend = work->request->backend,
        .monitor = work->monitor,
    };
    status = train_run(&request, &trained, error);
    train_result_reset(&trained);
    return status;
}

/* The average of the last members: 1 for each of them and 0 for the others in *weights, which the caller frees. */
static enum status average_of(const struct advice_work *work, const struct advice_row *row, char path[PATH_MAX],
                              double **weights, struct average_request *out, struct error *error)
{
    const int64_t count = work->request->family->count;
    char name[NAME_SIZE];
    name_row(row, name);
    enum status status = advice_files_path(work->request->work_directory, name, path, error);
    if (status == STATUS_OK) status = memory_new(count, sizeof **weights, "average", weights, error);
    for (int64_t k = count - row->amount; k < count && status == STATUS_OK; k++) (*weights)[k] = 1;
    if (status == STATUS_OK)
        *out = (struct average_request){.family = work->request->family,
                                        .weights = *weights,
                                        .directory = path,
                                        .dtype = -1,
                                        .monitor = work->monitor};
    return status;
}

/* Makes the row's model and opens it; a member is lent. */
static enum status model_make(const struct advice_work *work, int64_t i, struct model **made, struct error *error)
{
    const struct advice_row *row = &work->list->rows[i];
    struct average_request average;
    double *weights = NULL;
    char path[PATH_MAX];
    enum status status;
    *made = NULL;
    if (row->act == ADVICE_MEMBER) return STATUS_OK;
    if (row->act == ADVICE_AVERAGE) {
        status = average_of(work, row, path, &weights, &average, error);
        if (status == STATUS_OK) status = average_write(&average, error);
        memory_free(weights);
    } else {
        status = branch_train(work, i, error);
        if (status == STATUS_OK) status = branch_path(work, row, path, error);
    }
    return status == STATUS_OK ? model_open(path, made, error) : status;
}

static struct quantize_request quantization(const struct advice_work *work, const struct model *model, const char *keep)
{
    const struct advice_request *request = work->request;
    return (struct quantize_request){
        .model = model,
        .backend = request->backend,
        .method = *request->method,
        .calibration = request->calibration,
        .evaluation = request->evaluation,
        .seed = request->seed,
        .directory = request->work_directory,
        .monitor = work->monitor,
        .save_path = keep,
    };
}

enum status advice_measure_row(const struct advice_work *work, int64_t i, struct quantize_result *out,
                               struct error *error)
{
    const struct advice_row *row = &work->list->rows[i];
    struct model *made = NULL;
    struct checksum sum;
    char name[NAME_SIZE], keep[PATH_MAX];
    *out = (struct quantize_result){.delta = 0};
    name_row(row, name);
    checksum_init(&sum);
    checksum_add(&sum, name, strlen(name));
    enum status status = advice_files_path(work->request->work_directory, "streams", keep, error);
    if (status == STATUS_OK) status = model_make(work, i, &made, error);
    if (status == STATUS_OK) {
        const struct model *model = made != NULL ? made : work->request->family->models[row->amount];
        struct quantize_request request = quantization(work, model, keep);
        request.content = checksum_value(&sum); /* streams of one row are not those of another */
        status = quantize_run(&request, out, error);
    }
    model_close(made);
    return status;
}

static void branch_remove(const struct advice_work *work, const struct advice_row *row)
{
    char name[NAME_SIZE], state[NAME_SIZE + 8];
    name_row(row, name);
    name_state(name, state);
    advice_files_remove(work->request->work_directory, name);
    advice_files_remove(work->request->work_directory, state);
}

/* A continuation is kept until the next one has continued it. */
void advice_measure_done(const struct advice_work *work, int64_t i)
{
    const struct advice_row *row = &work->list->rows[i];
    if (row->act == ADVICE_AVERAGE || row->act == ADVICE_DECAY) branch_remove(work, row);
    if (row->act == ADVICE_CONTINUE && row->before > 0) branch_remove(work, row - 1);
}

/* Training's plan counts the steps from the start: it is made for a run of as many steps as the branch has. */
static enum status branch_plan(const struct advice_work *work, const struct advice_row *row, int64_t token_count,
                               struct run_plan *out, struct error *error)
{
    struct train_params params = params_of(work, row);
    params.tokens = (row->amount - row->before) * work->list->step_tokens;
    const struct train_request request = {
        .params = &params, .from = work->request->from, .backend = work->request->backend};
    return train_plan_run(&request, token_count, out, error);
}

enum status advice_measure_plan_making(const struct advice_work *work, int64_t i, int64_t token_count,
                                       struct run_plan *making, struct error *error)
{
    const struct advice_row *row = &work->list->rows[i];
    struct average_request average;
    double *weights = NULL;
    char path[PATH_MAX];
    *making = (struct run_plan){.flops = 0};
    if (row->act == ADVICE_MEMBER) return STATUS_OK;
    if (row->act != ADVICE_AVERAGE) return branch_plan(work, row, token_count, making, error);
    enum status status = average_of(work, row, path, &weights, &average, error);
    if (status == STATUS_OK) status = average_plan(&average, making, error);
    memory_free(weights);
    return status;
}

enum status advice_measure_plan_measuring(const struct advice_work *work, const struct plan_budget *budget,
                                          struct run_plan *measuring, struct error *error)
{
    const struct family *family = work->request->family;
    const struct quantize_request request = quantization(work, family->models[family->count - 1], NULL);
    return quantize_plan(&request, 1, budget, measuring, error);
}
