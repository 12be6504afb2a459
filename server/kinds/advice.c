/* The kind `plan`. Its files are called advice, because "plan" in the code means the resources that a run needs
 * (base/plan.h). */
#include "jobs/advice/advice.h"

#include "base/memory.h"
#include "inputs/checkpoint_set.h"
#include "kinds/advice_report.h"
#include "kinds/advice_settings.h"
#include "kinds/kind.h"
#include "kinds/made_checkpoint.h"
#include "kinds/method.h"
#include "kinds/protocol.h"

#include <stdlib.h>
#include <string.h>

struct advice_params {
    const char *trajectory;
    struct param_list checkpoints, options;
    int64_t budget, seed;
    double final;
    int shape;
    struct quantize_method method;
    struct data_use calibration, evaluation;
};
#define AT(field) offsetof(struct advice_params, field)

#define LENGTH(called, at, text)                                                                           \
    {                                                                                                      \
        .name = called, .type = PARAM_INTEGER, .offset = offsetof(struct advice_option, at), .minimum = 1, \
        .maximum = 1e15, .fallback = "null", .nullable = true, .help = text                                \
    }
static const struct param option_fields[] = {
    LENGTH("decay", decay, "Tokens over which the learning rate falls, beginning at the last checkpoint"),
    LENGTH("average", average, "Mean of so many of the last checkpoints"),
    LENGTH("continue", continue_, "Tokens more at the constant rate"),
    {0},
};
static const struct param option_item = {
    .type = PARAM_OBJECT, .children = option_fields, .size = sizeof(struct advice_option)};

static const struct param advice_params[] = {
    {.name = "trajectory",
     .type = PARAM_TRAJECTORY,
     .offset = AT(trajectory),
     .help = "Of a train run whose learning rate is constant up to its last checkpoint"},
    CHECKPOINT_SET_PARAM(
        AT(checkpoints), 1, CHECKPOINT_SET_MOST,
        "The last of the trajectory, by step; branches continue the last one; null: as many as are needed, which"
        " are then written here"),
    {.name = "options",
     .type = PARAM_LIST,
     .offset = AT(options),
     .item = &option_item,
     .minimum = 1,
     .maximum = ADVICE_OPTIONS,
     .help = "Options for the next step; each item has one of the fields"},
    {.name = "budget",
     .type = PARAM_INTEGER,
     .offset = AT(budget),
     .fallback = "null",
     .nullable = true,
     .minimum = 1,
     .maximum = 1e15,
     .help = "Tokens that all branches together may train; null: none, for averages alone"},
    {.name = "final",
     .type = PARAM_NUMBER,
     .offset = AT(final),
     .fallback = "0",
     .minimum = 0,
     .maximum = 1,
     .help = "Learning rate at the end of a decay, as a share of the constant one"},
    {.name = "shape",
     .type = PARAM_CHOICE,
     .offset = AT(shape),
     .choices = schedule_shape_names,
     .fallback = "\"linear\"",
     .help = "Of decays"},
    METHOD_PARAM(AT(method), "The quantizer, by name, and its parameters"),
    INPUTS_CALIBRATION_PARAM(AT(calibration)),
    INPUTS_EVALUATION_PARAM(AT(evaluation), "Data that losses are measured on"),
    INPUTS_SEED_PARAM(AT(seed), "Of the bootstrap in each measurement, which no forecast reads"),
    {0},
};

/* ---- when posted ------------------------------------------------------------------------------------------------- */

/* The part of the request that the options depend on; the rest is opened later. */
static struct advice_request request_of(const struct advice_params *params, const struct advice_settings *settings)
{
    return (struct advice_request){
        .train = advice_settings_train(settings),
        .steps = settings->steps,
        .steady = settings->steady,
        .options = params->options.objects,
        .option_count = params->options.count,
        .budget = params->budget,
        .shape = params->shape,
        .final = params->final,
        .seed = (uint64_t)params->seed,
    };
}

/* Writes the trajectory's last checkpoints into the document, as many as averages and trends need. */
static enum status choose_checkpoints(struct run_request *request, const struct advice_params *params, json_t **out,
                                      struct error *error)
{
    const struct advice_option *options = params->options.objects;
    json_t *all = json_array();
    int64_t wanted = ADVICE_HISTORY + 1;
    *out = json_object_get(request->params, "checkpoints");
    if (json_is_array(*out)) {
        json_decref(all);
        return STATUS_OK;
    }
    for (int64_t i = 0; i < params->options.count; i++)
        if (options[i].average > wanted) wanted = options[i].average;
    enum status status = all == NULL
                             ? error_no_memory(error, "a run")
                             : checkpoint_set_list(request, params->trajectory, "/params/trajectory", all, error);
    while (status == STATUS_OK && json_array_size(all) > (size_t)wanted) (void)json_array_remove(all, 0);
    if (status == STATUS_OK && json_object_set(request->params, "checkpoints", all) != 0)
        status = error_no_memory(error, "a run");
    *out = json_object_get(request->params, "checkpoints");
    json_decref(all);
    return status;
}

/* Checks how the checkpoints were trained, and whether the options are possible for that training. */
static enum status check_training(struct run_request *request, const struct advice_params *params, const json_t *ids,
                                  struct error *error)
{
    const int64_t count = (int64_t)json_array_size(ids);
    struct advice_settings settings = {.run = NULL};
    struct store_id dataset = {""};
    const char **texts = NULL;
    enum status status = memory_new(count, sizeof *texts, "checkpoint list", &texts, error);
    for (int64_t i = 0; i < count && status == STATUS_OK; i++)
        texts[i] = json_string_value(json_array_get(ids, (size_t)i));
    if (status == STATUS_OK) status = advice_settings_read(request->connection, texts, count, &settings, error);
    if (status == STATUS_OK) status = advice_settings_check_last(request, params->trajectory, texts[count - 1], error);
    if (status == STATUS_OK) {
        const struct advice_request asked = request_of(params, &settings);
        status = advice_check(&asked, count, error);
    }
    if (status == STATUS_OK) {
        (void)snprintf(dataset.text, sizeof dataset.text, "%s", advice_settings_train(&settings)->dataset);
        status = run_request_uses_dataset(request, &dataset, error);
    }
    if (status == STATUS_OK && json_object_set(request->identity, "training", settings.run) != 0)
        status = error_no_memory(error, "a run");
    advice_settings_reset(&settings);
    memory_free(texts);
    return status;
}

static enum status advice_kind_check(struct run_request *request, const void *filled, struct error *error)
{
    const struct advice_params *params = filled;
    json_t *ids = NULL;
    enum status status;
    if ((status = choose_checkpoints(request, params, &ids, error)) != STATUS_OK) return status;
    if ((status = checkpoint_set_check(request, ids, "/params/checkpoints", error)) != STATUS_OK) return status;
    if ((status = check_training(request, params, ids, error)) != STATUS_OK) return status;
    const char *first = json_string_value(json_array_get(ids, 0));
    if ((status = method_check(request, first, NULL, &params->method, params->calibration.dataset != NULL, error)) !=
        STATUS_OK)
        return status;
    status = inputs_check_use(request, first, params->evaluation.dataset, "evaluation", error);
    if (status != STATUS_OK || params->calibration.dataset == NULL) return status;
    return inputs_check_use(request, first, params->calibration.dataset, "calibration", error);
}

/* ---- execution --------------------------------------------------------------------------------------------------- */

/* The opened inputs that a request lends from. Must not move. */
struct opened {
    struct advice_settings settings;
    struct checkpoint_set set;
    struct checkpoint_place state; /* of the last checkpoint; {0}: the state lies beside it */
    struct data_source training;
    struct sequences calibration, evaluation;
    struct quantize_method method;
    char dataset[STORE_NAME], calibrated_on[STORE_NAME];
    struct advice_request request;
};

static enum status open_all(const struct run_context *context, const struct advice_params *params, struct opened *o,
                            struct error *error)
{
    const char *const *ids = params->checkpoints.texts;
    const int64_t count = params->checkpoints.count;
    enum status status;
    o->method = params->method;
    if ((status = advice_settings_read(context->connection, ids, count, &o->settings, error)) != STATUS_OK)
        return status;
    const struct train_params *train = advice_settings_train(&o->settings);
    if ((status = checkpoint_set_open(context, ids, count, train->precision, &o->set, error)) != STATUS_OK)
        return status;
    if ((status = data_source_open(context, train->dataset, &o->training, error)) != STATUS_OK) return status;
    struct inputs *first = &o->set.inputs[0];
    status = inputs_sequences(context, first, &params->evaluation, false, &o->evaluation, o->dataset, error);
    if (status == STATUS_OK && params->calibration.dataset != NULL)
        status = inputs_sequences(context, first, &params->calibration, true, &o->calibration, o->calibrated_on, error);
    if (status == STATUS_OK) status = quantize_method_complete(&o->method, error);
    if (status != STATUS_OK) return status;
    o->request = request_of(params, &o->settings);
    o->request.dataset = &o->training.source;
    o->request.family = &o->set.family;
    const struct inputs *last = &o->set.inputs[count - 1];
    o->request.from = last->place.path;
    o->request.backend = first->backend;
    o->request.method = &o->method;
    o->request.evaluation = &o->evaluation;
    o->request.calibration = o->calibration.count > 0 ? &o->calibration : NULL;
    o->request.work_directory = context->work_directory;
    o->request.monitor = context->monitor;
    return STATUS_OK;
}

/* What only an execution needs: the state that the branches continue from. */
static enum status state_open(const struct run_context *context, struct opened *o, struct error *error)
{
    const struct inputs *last = &o->set.inputs[o->set.count - 1];
    char beside[sizeof last->place.path + 16];
    const enum status status = made_checkpoint_state(context, &last->row, &last->place, &o->state, error);
    o->request.from_state = o->state.hold != NULL ? o->state.path : NULL;
    if (status != STATUS_OK) return status;
    (void)snprintf(beside, sizeof beside, "%s/training.state", last->place.path);
    return advice_settings_check_step(o->request.from_state != NULL ? o->request.from_state : beside, last->row.name,
                                      last->row.step, error);
}

static void close_all(struct opened *o)
{
    if (o == NULL) return;
    dataset_sequences_free(&o->calibration);
    dataset_sequences_free(&o->evaluation);
    data_source_reset(&o->training);
    checkpoint_place_close(&o->state);
    checkpoint_set_reset(&o->set);
    advice_settings_reset(&o->settings);
    free(o);
}

static enum status opened_new(struct opened **out, struct error *error)
{
    *out = calloc(1, sizeof **out);
    return *out == NULL ? error_no_memory(error, "a run") : STATUS_OK;
}

/* Training uses a share of the machine, as in the kind train; quantizations use what is free. */
static enum status plan_of(const struct run_context *context, const struct opened *o, struct plan_budget *budget,
                           struct run_plan *out, struct error *error)
{
    int64_t tokens;
    const enum status status = data_source_tokens_at_most(&o->training, &tokens, error);
    if (status != STATUS_OK) return status;
    *budget = backend_budget(o->request.backend, context->work_directory);
    return advice_plan(&o->request, tokens, budget, out, error);
}

static enum status advice_run_plan(const struct run_context *context, const void *filled, struct plan_budget *budget,
                                   struct run_plan *out, struct error *error)
{
    struct opened *o = NULL;
    enum status status = opened_new(&o, error);
    if (status == STATUS_OK) status = open_all(context, filled, o, error);
    if (status == STATUS_OK) status = plan_of(context, o, budget, out, error);
    close_all(o);
    return status;
}

static enum status report(const struct opened *o, const struct advice_params *params, const struct advice_result *found,
                          json_t **result, struct error *error)
{
    char label[METHOD_LABEL], recipe[RECIPE_TEXT], protocol[PROTOCOL_TEXT];
    struct protocol_calibration calibration;
    enum status status = recipes_id(&o->method, recipe, error);
    if (status == STATUS_OK)
        status = protocol_id(&o->evaluation, inputs_precisions[o->request.train->precision], protocol, error);
    if (status == STATUS_OK)
        status = protocol_calibrated(&o->method, &o->calibration, 1, o->calibrated_on, &calibration, error);
    if (status != STATUS_OK) return status;
    method_label(&o->method, label);
    const struct advice_subject subject = {
        .ids = params->checkpoints.texts,
        .members = params->checkpoints.count,
        .method = label,
        .recipe = recipe,
        .protocol = protocol,
        .calibration = calibration.id,
    };
    return advice_report_render(found, &subject, result, error);
}

static enum status advice_execute(const struct run_context *context, const void *filled, json_t **result,
                                  struct measurements *out, struct error *error)
{
    const struct advice_params *params = filled;
    struct advice_result found = {.points = NULL};
    struct plan_budget budget;
    struct run_plan plan;
    struct opened *o = NULL;
    enum status status = opened_new(&o, error);
    (void)out; /* branches are not kept, and forecasts are not measurements */
    if (status == STATUS_OK) status = open_all(context, params, o, error);
    if (status == STATUS_OK) status = state_open(context, o, error);
    if (status == STATUS_OK) status = plan_of(context, o, &budget, &plan, error);
    if (status == STATUS_OK) status = advice_run(&o->request, &found, error);
    if (status == STATUS_OK) run_context_note_work(context, plan_work(&plan));
    if (status == STATUS_OK) status = report(o, params, &found, result, error);
    advice_result_reset(&found);
    close_all(o);
    return status;
}

const struct kind advice_kind = {
    .name = "plan",
    .help = "Forecasts what decaying, averaging and going on would give, from short branches, and recommends one",
    .params = advice_params,
    .params_size = sizeof(struct advice_params),
    .result = &advice_report_shape,
    .check = advice_kind_check,
    .execute = advice_execute,
    .plan = advice_run_plan,
};
