#include "jobs/train/train_curve.h"
#include "jobs/train/train_plan.h"

#include "inputs/inputs.h"
#include "inputs/roots.h"
#include "kinds/kind.h"
#include "kinds/losses.h"
#include "kinds/made_checkpoint.h"
#include "kinds/measure.h"
#include "kinds/train_branch.h"
#include "kinds/train_names.h"
#include "schema/result_render.h"
#include "store/trajectories.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The arguments for registering the checkpoints of a run, and the ids of those that were registered. */
struct registrar {
    const struct run_context *context;
    char trajectory[STORE_NAME], dataset[STORE_NAME], validation[STORE_NAME];
    char protocol[PROTOCOL_TEXT]; /* of the validation losses; "": there are none */
    const char *precision;
    const char *from;       /* id of the checkpoint that the run continues; NULL: none */
    json_t *ids, *averages; /* owned: of the run's own and of its averages */
    struct measurements *measurements;
};

/* Text needs a tokenizer, unless the continued checkpoint brings its own, and one is learned from text alone. */
static enum status check_data(struct run_request *request, const struct train_params *params, const char *dataset,
                              const char *pointer, struct error *error)
{
    struct dataset found = {0};
    if (dataset == NULL) return STATUS_OK;
    enum status status = dataset_find(request->connection, dataset, &found, error);
    if (status != STATUS_OK) return status;
    const bool text = strcmp(found.format, "text") == 0 || strcmp(found.format, "jsonl") == 0;
    if (text && params->tokenizer.name == TRAIN_TOKENIZER_NONE && params->from == NULL)
        status = error_set_at(error, STATUS_INVALID, pointer,
                              "text needs a tokenizer: give \"tokenizer\": {\"name\": \"bytes\"}, {\"name\": \"train\","
                              " \"vocabulary_size\": N} "
                              "or {\"name\": \"file\", \"path\": FILE}");
    if (!text && params->tokenizer.name == TRAIN_TOKENIZER_LEARNED && dataset == params->dataset)
        status = error_set_at(error, STATUS_INVALID, "/params/tokenizer",
                              "a tokenizer can be learned from text, not from \"%s\" data", found.format);
    dataset_reset(&found);
    return status;
}

/* The result depends on the file's content and not on its path. */
static enum status check_tokenizer(struct run_request *request, const struct train_params *params, struct error *error)
{
    char path[PATH_MAX], sha256[HASH_TEXT];
    struct hash *hash = NULL;
    if (params->tokenizer.name != TRAIN_TOKENIZER_FILE) return STATUS_OK;
    enum status status =
        roots_resolve(request->roots, params->tokenizer.path, "/params/tokenizer/path", path, sizeof path, error);
    if (status == STATUS_OK) status = hash_new(&hash, error);
    if (status != STATUS_OK) return status;
    if ((status = hash_add_small_file(hash, path, TOKENIZER_FILE_LIMIT, error)) != STATUS_OK) {
        hash_free(hash);
        return status;
    }
    status = hash_finish(hash, sha256, error);
    if (status == STATUS_OK && json_object_set_new(request->identity, "tokenizer", json_string(sha256)) != 0)
        status = error_set(error, STATUS_NO_MEMORY, "no memory for a run");
    return status;
}

static enum status check_params(struct run_request *request, const struct train_params *params, struct error *error)
{
    enum status status;
    if ((status = train_check(params, error)) != STATUS_OK) return status;
    if ((status = check_data(request, params, params->dataset, "/params/dataset", error)) != STATUS_OK) return status;
    if ((status = check_data(request, params, params->validation, "/params/validation", error)) != STATUS_OK)
        return status;
    return check_tokenizer(request, params, error);
}

static enum status check_branch(struct run_request *request, const struct train_params *params, struct error *error)
{
    struct train_branch branch = {.step = -1};
    enum status status = train_branch_open(request, params->from, &branch, error);
    if (status == STATUS_OK) status = check_params(request, branch.own.params, error);
    if (status == STATUS_OK) status = train_branch_check(&branch, error);
    if (status == STATUS_OK) status = train_names_note(request, branch.own.params, branch.step, error);
    train_branch_close(&branch);
    return status;
}

static enum status train_check_params(struct run_request *request, const void *filled, struct error *error)
{
    const struct train_params *params = filled;
    if (params->from != NULL) return check_branch(request, params, error);
    const enum status status = check_params(request, params, error);
    return status == STATUS_OK ? train_names_note(request, params, 0, error) : status;
}

/* --- What is told of each checkpoint, and of the run ---- */

static const struct result_metric train_loss_metric = {
    .name = "train_loss",
    .label = "Training loss",
    .axis = "training loss",
    .unit = "nats",
    .help =
        "Of the batch of the update that made the checkpoint, before it; of schedule_free where its gradient is taken",
    .better = RESULT_LOWER,
    .format = RESULT_FIXED,
};
static const struct result_metric validation_loss_metric = {
    .name = "validation_loss",
    .label = "Validation loss",
    .axis = "validation loss",
    .unit = "nats",
    .help = "Mean next-token cross-entropy on the validation data, of the weights before they are stored in dtype",
    .better = RESULT_LOWER,
    .format = RESULT_FIXED,
};

#define REACHED(field) offsetof(struct state_checkpoint, field)

static const struct result_field train_loss_fields[] = {
    {.name = "train_loss", .type = RESULT_NUMBER, .offset = REACHED(train_loss), .metric = &train_loss_metric},
    {0},
};
static const struct result_field validation_loss_fields[] = {
    {.name = "validation_loss",
     .type = RESULT_NUMBER,
     .offset = REACHED(validation_loss),
     .metric = &validation_loss_metric},
    {0},
};
static const struct result_shape train_loss_shape = {.fields = train_loss_fields};
static const struct result_shape validation_loss_shape = {.fields = validation_loss_fields};
static const struct result_shape *const train_measured[] = {&train_loss_shape, &validation_loss_shape, NULL};

struct train_report {
    struct train_result found;
    const json_t *ids, *averages;
};

static const struct result_field id_item = {.type = RESULT_TEXT};

#define REPORT(field) offsetof(struct train_report, field)

static const struct result_field train_fields[] = {
    {.name = "checkpoints",
     .type = RESULT_DOCUMENT,
     .offset = REPORT(ids),
     .item = &id_item,
     .help = "Their ids by step"},
    {.name = "ema_checkpoints",
     .type = RESULT_DOCUMENT,
     .offset = REPORT(averages),
     .item = &id_item,
     .later = true,
     .help = "Of the moving average, in the trajectory NAME-ema"},
    {.name = "final_loss",
     .type = RESULT_NUMBER,
     .label = "Final loss",
     .format = RESULT_FIXED,
     .offset = REPORT(found.final_loss),
     .unit = "nats",
     .help = "Of the last update's batch, as train_loss"},
    {.name = "validation_loss",
     .type = RESULT_NUMBER,
     .absence = RESULT_NULL,
     .offset = REPORT(found.validation_loss),
     .later = true,
     .metric = &validation_loss_metric,
     .unkept = true,
     .help = "At the last step; null without validation data"},
    {.name = "ema_loss",
     .type = RESULT_NUMBER,
     .label = "Loss of the moving average",
     .format = RESULT_FIXED,
     .absence = RESULT_NULL,
     .offset = REPORT(found.ema_loss),
     .later = true,
     .unit = "nats",
     .help = "Of the moving average on the validation data"},
    {.name = "steps",
     .type = RESULT_INTEGER,
     .offset = REPORT(found.steps),
     .later = true,
     .help = "Updates in all: of a branch, those of its trunk before it included"},
    {.name = "tokens",
     .type = RESULT_INTEGER,
     .offset = REPORT(found.tokens),
     .later = true,
     .help = "Trained on in all: of a branch, those of its trunk before it included"},
    {.name = "tokens_per_second",
     .type = RESULT_NUMBER,
     .offset = REPORT(found.tokens_per_second),
     .later = true,
     .help = "Of this attempt"},
    {0},
};
static const struct result_shape train_shape = {.name = "TrainResult", .fields = train_fields};

/* Losses on other sequences, or of other arithmetic, lie on other curves: a branch may have both other than its trunk.
 * Those of `evaluate` runs on the same data do too, which are of the weights as they are stored. */
static enum status note_validation(void *owner, const struct sequences *sequences, struct error *error)
{
    struct registrar *registrar = owner;
    char evaluation[PROTOCOL_TEXT];
    const enum status status = protocol_id(sequences, registrar->precision, evaluation, error);
    if (status != STATUS_OK) return status;
    return protocol_detailed(evaluation, "in training", registrar->protocol, error);
}

/* Registers a checkpoint as soon as it is written. After a resumption the same checkpoints come again and are found. */
static enum status note_written(void *owner, const struct train_written *written, struct error *error)
{
    struct registrar *registrar = owner;
    struct store_id id = {0};
    char trajectory[STORE_NAME];
    /* an average is told after the checkpoint that it is beside */
    const char *beside = json_string_value(json_array_get(registrar->ids, json_array_size(registrar->ids) - 1));
    json_t *origin =
        json_pack("{ss ss*}", "run", registrar->context->run, "from", written->ema != NULL ? beside : registrar->from);
    if (origin != NULL && written->ema != NULL)
        (void)json_object_set_new(origin, "ema", json_pack("{sf}", "decay", written->ema->decay));
    /* averages form their own trajectory; among the run's checkpoints each step would have two points */
    store_name_extend(registrar->trajectory, written->ema != NULL ? "-ema" : "", trajectory);
    const struct checkpoint_new row = {
        .trajectory = trajectory,
        .name = written->name,
        .step = &written->reached.step,
        .tokens = &written->reached.tokens,
        .learning_rate = &written->reached.learning_rate,
        .path = written->directory,
        .derived_from = origin,
    };
    enum status status = made_checkpoint_register(registrar->context, &row, &id, error);
    if (status == STATUS_OK &&
        json_array_append_new(written->ema != NULL ? registrar->averages : registrar->ids, json_string(id.text)) != 0)
        status = error_set(error, STATUS_NO_MEMORY, "no memory for a result");
    if (status == STATUS_OK) {
        const struct measurement series = measure_series(&id, registrar->dataset, "", NULL);
        status = measure_result(&train_loss_shape, &written->reached, &series, registrar->measurements, error);
    }
    if (status == STATUS_OK) {
        const struct measurement series = measure_series(&id, registrar->validation, registrar->protocol, NULL);
        status = measure_result(&validation_loss_shape, &written->reached, &series, registrar->measurements, error);
    }
    json_decref(origin);
    return status;
}

/* Publishes the file of jobs/train/train_curve.h in parts: as a whole it can be larger than a small model. */
static enum status curve_publish(struct artifacts *artifacts, const struct train_params *params,
                                 const struct train_result *found, struct error *error)
{
    enum { ROWS = 1000 };
    struct buffer text = {0};
    struct artifact_writer *writer = NULL;
    enum status status = artifact_open(artifacts, "training.csv", LOSSES_MEDIA_TYPE, &writer, error);
    train_curve_head(&text);
    for (int64_t at = 0; status == STATUS_OK && at < found->curve_count; at += ROWS) {
        const int64_t left = found->curve_count - at;
        status = train_curve_rows(&text, params, &found->curve[at], left < ROWS ? left : ROWS, error);
        if (status == STATUS_OK) status = artifact_write(writer, text.bytes, text.length, error);
        buffer_reset(&text);
    }
    buffer_reset(&text);
    if (status == STATUS_OK) return artifact_publish(writer, error);
    artifact_abandon(writer);
    return status;
}

/* What a run that is cut short has of its curve: why it diverged is read there. Its end is told by `status`, whatever
 * becomes of this; one that goes on elsewhere has its curve at its end. */
static void curve_keep(const struct run_context *context, const struct train_params *params,
                       const struct train_result *found, enum status status)
{
    struct error error;
    if (status == STATUS_LEASE_LOST || found->curve_count == 0) return;
    if (curve_publish(context->artifacts, params, found, &error) != STATUS_OK)
        monitor_log(context->monitor, "the training curve is not kept: %s", error.detail);
}

static enum status name_trajectory(struct registrar *registrar, const char *id, struct error *error)
{
    json_t *document = NULL;
    const enum status status = trajectory_get(registrar->context->connection, id, &document, error);
    if (status == STATUS_OK)
        (void)snprintf(registrar->trajectory, sizeof registrar->trajectory, "%s",
                       json_string_value(json_object_get(document, "name")));
    json_decref(document);
    return status;
}

/* The opened inputs that a request lends from; closed by places_reset. */
struct places {
    struct data_source dataset, validation;
    struct checkpoint from_row; /* the checkpoint that the run continues, if it continues one */
    struct checkpoint_place from;
    char directory[PATH_MAX], tokenizer[PATH_MAX];
    struct checkpoint_place state; /* of `from`; {0}: the state lies beside it */
    struct backend *backend;
};

static enum status from_open(const struct run_context *context, const char *id, struct places *out, struct error *error)
{
    const enum status status = checkpoint_find(context->connection, id, &out->from_row, error);
    return status == STATUS_OK ? checkpoint_place_for_run(context, &out->from_row, "/params/from", &out->from, error)
                               : status;
}

/* Both what is planned and what is executed read from these. */
static enum status places_open(const struct run_context *context, const struct train_params *params, struct places *out,
                               struct error *error)
{
    enum status status = data_source_open(context, params->dataset, &out->dataset, error);
    if (status == STATUS_OK && params->validation != NULL)
        status = data_source_open(context, params->validation, &out->validation, error);
    if (status == STATUS_OK && params->from != NULL) status = from_open(context, params->from, out, error);
    if (status == STATUS_OK && params->tokenizer.name == TRAIN_TOKENIZER_FILE)
        status = roots_resolve(context->roots, params->tokenizer.path, "/params/tokenizer/path", out->tokenizer,
                               sizeof out->tokenizer, error);
    return status == STATUS_OK ? inputs_backend(context, params->precision, &out->backend, error) : status;
}

/* What only an execution needs: the state that it continues from, and a directory to write to. */
static enum status places_continue(const struct run_context *context, const struct train_params *params,
                                   struct places *out, struct error *error)
{
    enum status status = STATUS_OK;
    if (params->from != NULL) status = made_checkpoint_state(context, &out->from_row, &out->from, &out->state, error);
    return status == STATUS_OK ? made_checkpoint_directory(context, out->directory, sizeof out->directory, error)
                               : status;
}

/* The step of the checkpoint that the run continues, 0 for fresh weights: its state tells it. */
static enum status begun_at(const struct train_params *params, const struct places *places, int64_t *step,
                            struct error *error)
{
    struct state_about state = {.step = 0};
    const bool apart = places->state.hold != NULL;
    enum status status = STATUS_OK;
    if (params->from != NULL)
        status =
            apart ? state_look(places->state.path, &state, error) : train_branch_look(&places->from, &state, error);
    *step = state.step;
    return status;
}

static void places_reset(struct places *places)
{
    data_source_reset(&places->dataset);
    data_source_reset(&places->validation);
    checkpoint_place_close(&places->from);
    checkpoint_place_close(&places->state);
    backend_free(places->backend);
}

/* The number of tokens is not known without the data. Like sharpness, training uses a share of the machine. */
static enum status train_run_plan(const struct run_context *context, const void *filled, struct plan_budget *budget,
                                  struct run_plan *out, struct error *error)
{
    const struct train_params *params = filled;
    struct places *places = calloc(1, sizeof *places);
    int64_t tokens = 0;
    if (places == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a plan");
    enum status status = places_open(context, params, places, error);
    if (status == STATUS_OK) status = data_source_tokens_at_most(&places->dataset, &tokens, error);
    if (status == STATUS_OK) {
        const struct train_request request = {
            .params = params, .from = params->from != NULL ? places->from.path : NULL, .backend = places->backend};
        *budget = backend_budget(places->backend, context->work_directory);
        budget->bytes[backend_space(places->backend)] = places->backend->ops->memory(places->backend);
        status = train_plan_run(&request, tokens, out, error);
    }
    places_reset(places);
    free(places);
    return status;
}

static void work_note(const struct run_context *context, const struct train_request *request)
{
    struct run_plan plan;
    struct error unused;
    if (context->work == NULL || context->attempt > 0 || request->from != NULL) return;
    if (train_plan_run(request, 0, &plan, &unused) == STATUS_OK) *context->work = plan.flops;
}

static enum status train_execute(const struct run_context *context, const void *filled, json_t **result,
                                 struct measurements *out, struct error *error)
{
    const struct train_params *params = filled;
    struct registrar registrar = {
        .context = context, .measurements = out, .ids = json_array(), .averages = json_array()};
    struct places *places = calloc(1, sizeof *places);
    struct train_result found = {0};
    int64_t begun = 0;
    enum status status = STATUS_OK;
    if (places == NULL || registrar.ids == NULL || registrar.averages == NULL)
        status = error_set(error, STATUS_NO_MEMORY, "no memory for a run");
    if (status == STATUS_OK) status = places_open(context, params, places, error);
    if (status == STATUS_OK) status = places_continue(context, params, places, error);
    if (status == STATUS_OK) status = name_trajectory(&registrar, params->trajectory, error);
    if (status == STATUS_OK) status = begun_at(params, places, &begun, error);
    if (status == STATUS_OK) status = train_names_check(context, params, registrar.trajectory, begun, error);
    if (status != STATUS_OK) goto done;
    (void)snprintf(registrar.dataset, sizeof registrar.dataset, "%s", places->dataset.row.name);
    (void)snprintf(registrar.validation, sizeof registrar.validation, "%s", places->validation.row.name);
    registrar.precision = inputs_precisions[params->precision];
    registrar.from = params->from != NULL ? places->from_row.id.text : NULL;
    const struct train_request request = {
        .params = params,
        .from = params->from != NULL ? places->from.path : NULL,
        .from_state = places->state.hold != NULL ? places->state.path : NULL,
        .step_unknown = params->from != NULL && places->from_row.step < 0,
        .tokenizer = places->tokenizer[0] != '\0' ? places->tokenizer : NULL,
        .dataset = &places->dataset.source,
        .validation = params->validation != NULL ? &places->validation.source : NULL,
        .directory = places->directory,
        .work_directory = context->work_directory,
        .save_seconds = context->save_seconds,
        .backend = places->backend,
        .monitor = context->monitor,
        .validated_on = note_validation,
        .written = note_written,
        .owner = &registrar,
    };
    work_note(context, &request);
    if ((status = train_run(&request, &found, error)) != STATUS_OK) {
        curve_keep(context, params, &found, status);
        goto done;
    }
    if ((status = curve_publish(context->artifacts, params, &found, error)) != STATUS_OK) goto done;
    const struct train_report report = {found, registrar.ids, registrar.averages};
    status = result_render(&train_shape, &report, result, error);
done:
    train_result_reset(&found);
    if (places != NULL) places_reset(places);
    free(places);
    json_decref(registrar.averages);
    json_decref(registrar.ids);
    return status;
}

static const char *const train_resumes[] = {"training.state", "tokenizer.json", NULL};

const struct kind train_kind = {
    .name = "train",
    .help = "Trains a model and registers its checkpoints as they appear",
    .params = train_params,
    .params_size = sizeof(struct train_params),
    .result = &train_shape,
    .measured = train_measured,
    .makes_trajectories = true,
    .check = train_check_params,
    .vacant = train_names_vacant,
    .meet = train_names_meet,
    .execute = train_execute,
    .plan = train_run_plan,
    .resumes = train_resumes,
};
