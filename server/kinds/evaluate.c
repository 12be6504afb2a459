#include "eval/evaluate.h"
#include "inputs/inputs.h"
#include "kinds/kind.h"
#include "kinds/losses.h"
#include "kinds/measure.h"
#include "kinds/metric.h"
#include "kinds/protocol.h"
#include "schema/result_render.h"

#include <math.h>

struct evaluate_params {
    const char *checkpoint;
    struct data_use use;
    int precision;
    bool per_token;
};

static const struct param evaluate_params[] = {
    {.name = "checkpoint",
     .type = PARAM_CHECKPOINT,
     .offset = offsetof(struct evaluate_params, checkpoint),
     .help = "Id, name or TRAJECTORY/NAME of the checkpoint"},
    DATA_SOURCE_PARAMS(offsetof(struct evaluate_params, use), "\"blocks\""),
    INPUTS_PRECISION_PARAM(offsetof(struct evaluate_params, precision)),
    LOSSES_PER_TOKEN_PARAM(offsetof(struct evaluate_params, per_token)),
    {0},
};

static enum status evaluate_check_params(struct run_request *request, const void *filled, struct error *error)
{
    const struct evaluate_params *params = filled;
    return inputs_check_use(request, params->checkpoint, params->use.dataset, NULL, error);
}

/* The result of a run. */
struct evaluate_report {
    struct evaluate_result found;
    double perplexity;
    char protocol[PROTOCOL_TEXT];
    const char *note; /* NULL: none */
};

static const struct result_metric perplexity_metric = {
    .name = "perplexity",
    .label = "Perplexity",
    .axis = "perplexity",
    .help = "The exponential of the loss",
    .better = RESULT_LOWER,
};

static const struct result_field loss_item = {.type = RESULT_NUMBER};

#define REPORT(field) offsetof(struct evaluate_report, field)

static const struct result_field evaluate_fields[] = {
    {.name = "loss",
     .type = RESULT_NUMBER,
     .offset = REPORT(found.loss),
     .metric = &metric_loss,
     .spread = RESULT_STDERR,
     .spread_low = REPORT(found.loss_stderr),
     .spread_degrees = REPORT(found.loss_degrees)},
    {.name = "perplexity", .type = RESULT_NUMBER, .offset = REPORT(perplexity), .metric = &perplexity_metric},
    {.name = "sequences", .type = RESULT_INTEGER, .offset = REPORT(found.sequences), .help = "How many were measured"},
    {.name = "tokens", .type = RESULT_INTEGER, .offset = REPORT(found.tokens), .help = "Of all sequences"},
    {.name = "loss_stderr",
     .type = RESULT_NUMBER,
     .offset = REPORT(found.loss_stderr),
     .unit = "nats",
     .help =
         "Standard error of the loss over sequences, each weighing its predictions; null for a single one. "
         "Curves show the loss with Student's 95 % interval of (Σw)²/Σw² − 1 degrees of freedom, w the predictions: "
         "as many as sequences less one where all are equally long"},
    {.name = "sequence_losses",
     .type = RESULT_LIST,
     .offset = REPORT(found.sequence_losses),
     .count = REPORT(found.sequences),
     .item = &loss_item,
     .unit = "nats",
     .help = "The loss of each sequence, in the order of the dataset"},
    {.name = "protocol_id",
     .type = RESULT_CHARS,
     .offset = REPORT(protocol),
     .later = true,
     .help = "Hash of the tokens, their sequences and the arithmetic: curves never mix two of them"},
    METRIC_NOTE_FIELD(REPORT(note)),
    {0},
};

static const struct result_shape evaluate_shape = {.name = "EvaluateResult", .fields = evaluate_fields};

static enum status report(const struct inputs *inputs, const char *dataset, struct evaluate_report *told,
                          json_t **result, struct measurements *out, struct error *error)
{
    const struct measurement series = measure_series(&inputs->row.id, dataset, told->protocol, NULL);
    told->perplexity = exp(told->found.loss);
    if (!isfinite(told->found.loss))
        told->note = "the loss is not finite: the model's outputs overflow or are not numbers";
    const enum status status = measure_result(&evaluate_shape, told, &series, out, error);
    return status == STATUS_OK ? result_render(&evaluate_shape, told, result, error) : status;
}

static enum status losses_of(const struct run_context *context, const struct evaluate_result *found,
                             struct error *error)
{
    const double *const losses[] = {found->sequence_losses};
    const float *const tokens[] = {found->token_losses};
    const enum status status = losses_publish(context->artifacts, found->sequence_predictions, found->sequences,
                                              &losses_evaluate, losses, error);
    if (status != STATUS_OK || found->token_losses == NULL) return status;
    return losses_publish_tokens(context->artifacts, &losses_evaluate, tokens, found->predictions, error);
}

static struct evaluate_request request_of(const struct run_context *context, const struct evaluate_params *params,
                                          const struct inputs *inputs, const struct sequences *sequences)
{
    return (struct evaluate_request){.model = inputs->model,
                                     .backend = inputs->backend,
                                     .sequences = sequences,
                                     .directory = context->work_directory,
                                     .monitor = context->monitor,
                                     .per_token = params->per_token};
}

static enum status evaluate_run_plan(const struct run_context *context, const void *filled, struct plan_budget *budget,
                                     struct run_plan *out, struct error *error)
{
    const struct evaluate_params *params = filled;
    struct inputs inputs = {0};
    struct sequences sequences = {0};
    enum status status = inputs_open(context, params->checkpoint, params->precision, &inputs, error);
    if (status == STATUS_OK) status = inputs_sequences(context, &inputs, &params->use, false, &sequences, NULL, error);
    if (status == STATUS_OK) {
        const struct evaluate_request request = request_of(context, params, &inputs, &sequences);
        *budget = backend_budget(inputs.backend, context->work_directory);
        status = evaluate_plan(&request, budget, out, error);
    }
    dataset_sequences_free(&sequences);
    inputs_reset(&inputs);
    return status;
}

static enum status evaluate_execute(const struct run_context *context, const void *filled, json_t **result,
                                    struct measurements *out, struct error *error)
{
    const struct evaluate_params *params = filled;
    struct inputs inputs = {0};
    struct sequences sequences = {0};
    struct evaluate_report told = {0};
    char dataset[STORE_NAME] = "";
    enum status status;
    if ((status = inputs_open(context, params->checkpoint, params->precision, &inputs, error)) != STATUS_OK) goto done;
    if ((status = inputs_sequences(context, &inputs, &params->use, false, &sequences, dataset, error)) != STATUS_OK)
        goto done;
    if ((status = protocol_id(&sequences, inputs_precisions[params->precision], told.protocol, error)) != STATUS_OK)
        goto done;
    const struct evaluate_request request = request_of(context, params, &inputs, &sequences);
    if ((status = evaluate_asked(&request, &told.found, error)) != STATUS_OK) goto done;
    if (context->work != NULL)
        *context->work = told.found.flops; /* this is the work of any attempt: none continues an earlier one's work */
    if ((status = losses_of(context, &told.found, error)) != STATUS_OK) goto done;
    status = report(&inputs, dataset, &told, result, out, error);
done:
    evaluate_result_reset(&told.found);
    dataset_sequences_free(&sequences);
    inputs_reset(&inputs);
    return status;
}

const struct kind evaluate_kind = {
    .name = "evaluate",
    .help = "Mean next-token loss of a checkpoint on a dataset",
    .params = evaluate_params,
    .params_size = sizeof(struct evaluate_params),
    .result = &evaluate_shape,
    .check = evaluate_check_params,
    .execute = evaluate_execute,
    .plan = evaluate_run_plan,
};
