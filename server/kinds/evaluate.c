#include "eval/evaluate.h"
#include "kinds/inputs.h"
#include "kinds/protocol.h"

#include <math.h>

struct evaluate_params {
    const char *checkpoint;
    struct data_use use;
    int precision;
};

static const struct param evaluate_params[] = {
    {.name = "checkpoint",
     .type = PARAM_CHECKPOINT,
     .offset = offsetof(struct evaluate_params, checkpoint),
     .help = "Id, name or TRAJECTORY/NAME of the checkpoint"},
    DATA_SOURCE_PARAMS(offsetof(struct evaluate_params, use), "\"blocks\""),
    INPUTS_PRECISION_PARAM(offsetof(struct evaluate_params, precision)),
    {0},
};

static enum status evaluate_check_params(struct kind_request *request, const void *filled, struct error *error)
{
    const struct evaluate_params *params = filled;
    const enum status status = inputs_check_precision(request, params->precision, error);
    if (status != STATUS_OK) return status;
    return inputs_check_use(request, params->checkpoint, params->use.dataset, NULL, error);
}

static json_t *render(const struct evaluate_result *result, const char *protocol)
{
    json_t *losses = json_array();
    for (int64_t i = 0; losses != NULL && i < result->sequences; i++)
        (void)json_array_append_new(losses, inputs_number(result->sequence_losses[i]));
    json_t *document =
        json_pack("{so so sI sI so so ss}", "loss", inputs_number(result->loss), "perplexity", inputs_number(exp(result->loss)),
                  "sequences", (json_int_t)result->sequences, "tokens", (json_int_t)result->tokens, "loss_stderr",
                  inputs_number(result->loss_stderr), "sequence_losses", losses, "protocol_id", protocol);
    if (document != NULL && !isfinite(result->loss))
        (void)json_object_set_new(document, "note",
                                  json_string("the loss is not finite: the model's outputs overflow or are not numbers"));
    return document;
}

static enum status measure(const struct inputs *inputs, const char *dataset, const char *protocol,
                           const struct evaluate_result *result, struct measurements *out, struct error *error)
{
    const struct {
        const char *metric;
        double value, error;
    } rows[] = {{"loss", result->loss, 1.96 * result->loss_stderr}, {"perplexity", exp(result->loss), NAN}};
    enum status status = STATUS_OK;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && status == STATUS_OK; i++) {
        struct measurement item = {.checkpoint = inputs->row.id, .value = rows[i].value};
        item.low = rows[i].value - rows[i].error;
        item.high = rows[i].value + rows[i].error;
        (void)snprintf(item.metric, sizeof item.metric, "%s", rows[i].metric);
        (void)snprintf(item.dataset, sizeof item.dataset, "%s", dataset);
        (void)snprintf(item.protocol, sizeof item.protocol, "%s", protocol);
        status = measurements_add(out, &item, error);
    }
    return status;
}

static struct evaluate_request request_of(const struct kind_context *context, const struct inputs *inputs,
                                          const struct sequences *sequences)
{
    return (struct evaluate_request){inputs->model, inputs->backend, sequences, context->work_directory, context->monitor};
}

static enum status evaluate_forecast(const struct kind_context *context, const void *filled, struct plan_budget *budget,
                                     struct run_plan *out, struct error *error)
{
    const struct evaluate_params *params = filled;
    struct inputs inputs = {0};
    struct sequences sequences = {0};
    enum status status = inputs_open(context, params->checkpoint, params->precision, &inputs, error);
    if (status == STATUS_OK) status = inputs_sequences(context, &inputs, &params->use, false, &sequences, NULL, error);
    if (status == STATUS_OK) {
        const struct evaluate_request request = request_of(context, &inputs, &sequences);
        *budget = backend_budget(inputs.backend, context->work_directory);
        status = evaluate_plan(&request, budget, out, error);
    }
    dataset_sequences_free(&sequences);
    inputs_reset(&inputs);
    return status;
}

static enum status evaluate_execute(const struct kind_context *context, const void *filled, json_t **result,
                                    struct measurements *out, struct error *error)
{
    const struct evaluate_params *params = filled;
    struct inputs inputs = {0};
    struct sequences sequences = {0};
    struct evaluate_result found = {0};
    char dataset[128] = "", protocol[PROTOCOL_TEXT];
    enum status status;
    if ((status = inputs_open(context, params->checkpoint, params->precision, &inputs, error)) != STATUS_OK) goto done;
    if ((status = inputs_sequences(context, &inputs, &params->use, false, &sequences, dataset, error)) != STATUS_OK) goto done;
    if ((status = protocol_id(&sequences, inputs_precisions[params->precision], protocol, error)) != STATUS_OK) goto done;
    const struct evaluate_request request = request_of(context, &inputs, &sequences);
    if ((status = evaluate_asked(&request, &found, error)) != STATUS_OK) goto done;
    if (context->work != NULL) *context->work = found.flops; /* of any attempt: none goes on with an earlier one's work */
    if ((status = measure(&inputs, dataset, protocol, &found, out, error)) != STATUS_OK) goto done;
    *result = render(&found, protocol);
    if (*result == NULL) status = error_set(error, STATUS_NO_MEMORY, "no memory for a result");
done:
    evaluate_result_reset(&found);
    dataset_sequences_free(&sequences);
    inputs_reset(&inputs);
    return status;
}

const struct kind evaluate_kind = {
    .name = "evaluate",
    .help = "Mean next-token loss of a checkpoint on a dataset",
    .params = evaluate_params,
    .params_size = sizeof(struct evaluate_params),
    .check = evaluate_check_params,
    .execute = evaluate_execute,
    .plan = evaluate_forecast,
};
