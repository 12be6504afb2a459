#include "jobs/tasks/tasks.h"

#include "base/checksum.h"
#include "inputs/inputs.h"
#include "inputs/task_files.h"
#include "jobs/point.h"
#include "jobs/quantize/quantized_copy.h"
#include "kinds/kind.h"
#include "kinds/method.h"
#include "kinds/probe.h"
#include "kinds/tasks_report.h"
#include "kinds/tasks_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOTS_MAX = 32 };

struct tasks_params {
    const char *checkpoint;
    struct param_list tasks; /* struct task_param */
    int64_t shots, limit, seed;
    struct quantize_method method; /* not given: null */
    struct data_use calibration;
    bool special_tokens;
    int precision;
};
#define AT(field) offsetof(struct tasks_params, field)

static const struct param task_item = {
    .type = PARAM_OBJECT, .schema = "TaskFile", .children = task_file_params, .size = sizeof(struct task_param)};

static const struct param tasks_params[] = {
    {.name = "checkpoint",
     .type = PARAM_CHECKPOINT,
     .offset = AT(checkpoint),
     .help = "Id, name or TRAJECTORY/NAME of the checkpoint"},
    {.name = "tasks",
     .type = PARAM_LIST,
     .offset = AT(tasks),
     .item = &task_item,
     .minimum = 1,
     .maximum = 12,
     .help = "Which tasks, and where their records are"},
    {.name = "shots",
     .type = PARAM_INTEGER,
     .offset = AT(shots),
     .fallback = "5",
     .minimum = 0,
     .maximum = SHOTS_MAX,
     .help = "Solved examples before each question"},
    {.name = "limit",
     .type = PARAM_INTEGER,
     .offset = AT(limit),
     .fallback = "null",
     .minimum = 1,
     .maximum = 1 << 30,
     .nullable = true,
     .help = "Only the first so many records of a task (of each subject); null: all"},
    {.name = "special_tokens",
     .type = PARAM_BOOLEAN,
     .offset = AT(special_tokens),
     .fallback = "true",
     .help = "As the tokenizer adds them by itself (a BOS, where its template has one); false: none,"
             " as harnesses up to 0.4.9"},
    PROBE_METHOD_PARAMS(AT(method), AT(calibration)),
    INPUTS_PRECISION_PARAM(AT(precision)),
    INPUTS_SEED_PARAM(
        AT(seed),
        "Has no effect since intervals of accuracies are computed without drawing; older requests may give it"),
    {0},
};

static enum status tasks_check(struct run_request *request, const void *filled, struct error *error)
{
    const struct tasks_params *params = filled;
    enum status status;
    if (point_method_given(&params->method)) {
        struct error cause;
        if ((status = quantized_copy_check(&params->method, &cause)) != STATUS_OK) {
            char pointer[sizeof cause.pointer];
            (void)snprintf(pointer, sizeof pointer, "/params/method%.100s", cause.pointer);
            return error_set_at(error, status, pointer, "%s", cause.detail);
        }
        status = method_check(request, params->checkpoint, NULL, &params->method, params->calibration.dataset != NULL,
                              error);
        if (status == STATUS_OK && params->calibration.dataset != NULL)
            status = inputs_check_use(request, params->checkpoint, params->calibration.dataset, "calibration", error);
        if (status != STATUS_OK) return status;
    } else if (params->calibration.dataset != NULL) {
        return error_set_at(error, STATUS_INVALID, "/params/calibration", "is for a method; there is none");
    }
    status = inputs_check_tokenizer(request, params->checkpoint, "/params/checkpoint", error);
    if (status != STATUS_OK) return status;
    return task_files_check(request, params->tasks.objects, params->tasks.count, (int)params->shots, params->limit,
                            error);
}

static void add_text(struct checksum *sum, const char *text)
{
    checksum_add(sum, text == NULL ? "" : text, text == NULL ? 1 : strlen(text) + 1);
}

/* Saved work of an earlier attempt is recognised by a hash of the run's id, of the checkpoint's content and of the
 * files, which may have been replaced meanwhile. */
static uint64_t fingerprint(const struct run_context *context, const struct tasks_params *params,
                            const struct inputs *inputs)
{
    const struct task_param *tasks = params->tasks.objects;
    struct checksum sum;
    checksum_init(&sum);
    add_text(&sum, context->run);
    add_text(&sum, inputs->row.sha256);
    for (int64_t i = 0; i < params->tasks.count; i++) {
        add_text(&sum, tasks[i].sha256);
        add_text(&sum, tasks[i].fewshot_sha256);
    }
    return checksum_value(&sum);
}

static enum status report_all(const struct run_context *context, struct tasks_report *report, json_t **result,
                              struct measurements *out, struct error *error)
{
    enum status status = tasks_report_protocol(report, error);
    if (status == STATUS_OK) status = tasks_report_items(report, context->artifacts, error);
    if (status == STATUS_OK) status = tasks_report_list(report, context->items, error);
    if (status == STATUS_OK) status = tasks_report_measure(report, out, error);
    return status == STATUS_OK ? tasks_report_result(report, result, error) : status;
}

/* The inputs of a run, and the request that lends from them. Must not move. */
struct opened {
    struct inputs inputs;
    struct sequences calibration;
    char calibrated_on[STORE_NAME];
    struct quantize_method method;
    struct task_set **sets;
    int64_t set_count;
    struct tasks_request request;
};

static enum status open_all(const struct run_context *context, const struct tasks_params *params, struct opened *o,
                            struct error *error)
{
    const bool quantized = point_method_given(&params->method);
    const int64_t count = params->tasks.count;
    enum status status;
    *o = (struct opened){.method = params->method, .sets = calloc((size_t)count, sizeof *o->sets), .set_count = count};
    if (o->sets == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a run");
    if ((status = inputs_open(context, params->checkpoint, params->precision, &o->inputs, error)) != STATUS_OK)
        return status;
    if ((status = inputs_open_tokenizer(&o->inputs, error)) != STATUS_OK) return status;
    status = task_files_open(context, params->tasks.objects, count, (int)params->shots, params->limit, o->sets, error);
    if (status != STATUS_OK) return status;
    if (quantized && (status = quantize_method_complete(&o->method, error)) != STATUS_OK) return status;
    if (params->calibration.dataset != NULL)
        status =
            inputs_sequences(context, &o->inputs, &params->calibration, true, &o->calibration, o->calibrated_on, error);
    o->request = (struct tasks_request){
        .model = o->inputs.model,
        .backend = o->inputs.backend,
        .tokenizer = o->inputs.tokenizer,
        .sets = (const struct task_set *const *)o->sets,
        .set_count = count,
        .special_tokens = params->special_tokens,
        .method = quantized ? &o->method : NULL,
        .calibration = o->calibration.count > 0 ? &o->calibration : NULL,
        .work_directory = context->work_directory,
        .monitor = context->monitor,
    };
    return status;
}

static void close_all(struct opened *o)
{
    if (o->sets != NULL) task_files_close(o->sets, o->set_count);
    free(o->sets);
    dataset_sequences_free(&o->calibration);
    inputs_reset(&o->inputs);
}

static enum status tasks_run_plan(const struct run_context *context, const void *filled, struct plan_budget *budget,
                                  struct run_plan *out, struct error *error)
{
    struct opened o;
    enum status status = open_all(context, filled, &o, error);
    if (status == STATUS_OK) {
        *budget = backend_budget(o.inputs.backend, context->work_directory);
        status = tasks_plan(&o.request, budget, out, error);
    }
    close_all(&o);
    return status;
}

static enum status tasks_execute(const struct run_context *context, const void *filled, json_t **result,
                                 struct measurements *out, struct error *error)
{
    const struct tasks_params *params = filled;
    struct opened o;
    struct tasks_result found = {0};
    enum status status;
    if ((status = open_all(context, params, &o, error)) != STATUS_OK) goto done;
    o.request.fingerprint = fingerprint(context, params, &o.inputs);
    if ((status = tasks_run(&o.request, &found, error)) != STATUS_OK) goto done;
    run_context_note_work(context, found.flops);
    struct tasks_report report = {.result = &found,
                                  .request = &o.request,
                                  .tasks = params->tasks.objects,
                                  .shots = (int)params->shots,
                                  .precision = params->precision,
                                  .checkpoint = o.inputs.row.id};
    if (o.request.method != NULL) {
        (void)snprintf(report.method, sizeof report.method, "%s", quantizer_by_id(o.method.quantizer)->name);
        method_label(&o.method, report.label);
        report.bits = method_bits(&o.method);
        status = protocol_calibrated(&o.method, &o.calibration, 1, o.calibrated_on, &report.calibration, error);
        if (status != STATUS_OK) goto done;
    }
    status = report_all(context, &report, result, out, error);
done:
    tasks_result_reset(&found);
    close_all(&o);
    return status;
}

static const char *const tasks_resumes[] = {"items.table", NULL};

const struct kind tasks_kind = {
    .name = "tasks",
    .help =
        "Answers multiple-choice tasks as lm-evaluation-harness poses them, with a checkpoint and a quantization of it",
    .params = tasks_params,
    .params_size = sizeof(struct tasks_params),
    .result = &tasks_table_shape,
    .measured = tasks_table_measured,
    .check = tasks_check,
    .execute = tasks_execute,
    .plan = tasks_run_plan,
    .resumes = tasks_resumes,
};
