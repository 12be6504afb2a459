#include "inputs/inputs.h"
#include "jobs/quantize/quantize_draws.h"
#include "kinds/kind.h"
#include "kinds/losses.h"
#include "kinds/method.h"
#include "kinds/quantize_export.h"
#include "kinds/quantize_report.h"
#include "kinds/quantize_run.h"

static const char *const exports[] = {"none", "gptq", "compressed-tensors", "dequantized", "awq",
                                      "gguf", NULL}; /* enum export_id */

static const struct param quantize_params[] = {
    {.name = "checkpoint",
     .type = PARAM_CHECKPOINT,
     .offset = offsetof(struct quantize_params, checkpoint),
     .help = "Id, name or TRAJECTORY/NAME of the checkpoint"},
    METHOD_PARAM(offsetof(struct quantize_params, method), "The quantizer, by name, and its parameters"),
    INPUTS_CALIBRATION_PARAM(offsetof(struct quantize_params, calibration)),
    INPUTS_EVALUATION_PARAM(offsetof(struct quantize_params, evaluation), "Data that both losses are measured on"),
    {.name = "export",
     .type = PARAM_CHOICE,
     .offset = offsetof(struct quantize_params, export_as),
     .schema = "ExportFormat",
     .choices = exports,
     .fallback = "null",
     .nullable = true,
     .help = "Format of the quantized checkpoint to keep: packed ones become the run's artifacts,"
             " dequantized a checkpoint; null: none"},
    INPUTS_PRECISION_PARAM(offsetof(struct quantize_params, precision)),
    INPUTS_SEED_PARAM(offsetof(struct quantize_params, seed),
                      "Seed of the bootstrap behind delta_interval (from 64 evaluation sequences of one length on)"),
    {.name = "calibration_draws",
     .type = PARAM_INTEGER,
     .offset = offsetof(struct quantize_params, calibration_draws),
     .fallback = "1",
     .minimum = 1,
     .maximum = QUANTIZE_DRAWS_MAXIMUM,
     .help = "Quantize from so many disjoint calibration samples of max_sequences each, for the spread of the result"},
    LOSSES_PER_TOKEN_PARAM(offsetof(struct quantize_params, per_token)),
    {0},
};

static enum status quantize_check(struct run_request *request, const void *filled, struct error *error)
{
    const struct quantize_params *params = filled;
    enum status status;
    request->alone = params->calibration_draws > 1;
    if (params->calibration_draws > 1 && params->calibration.max_sequences == 0)
        return error_set_at(error, STATUS_INVALID, "/params/calibration_draws",
                            "needs a calibration with max_sequences: the size of a draw");
    if (params->calibration_draws > 1 && params->per_token)
        return error_set_at(error, STATUS_INVALID, "/params/per_token",
                            "every calibration draw has tokens of its own; ask for one draw, or for no tokens");
    if ((status = method_check(request, params->checkpoint, NULL, &params->method, params->calibration.dataset != NULL,
                               error)) != STATUS_OK)
        return status;
    if ((status = quantize_export_check(request, params->export_as, params->checkpoint, &params->method, error)) !=
        STATUS_OK)
        return status;
    status = inputs_check_use(request, params->checkpoint, params->evaluation.dataset, "evaluation", error);
    if (status != STATUS_OK || params->calibration.dataset == NULL) return status;
    return inputs_check_use(request, params->checkpoint, params->calibration.dataset, "calibration", error);
}

/* One run as a batch of one. */
struct single {
    json_t *result;
    enum status status;
    struct error error;
};

static void single_ended(struct kind_member *member)
{
    struct single *single = member->owner;
    *single = (struct single){member->result, member->status, member->error};
}

static enum status quantize_execute(const struct run_context *context, const void *filled, json_t **result,
                                    struct measurements *out, struct error *error)
{
    struct single single = {.result = NULL};
    struct kind_member member = {
        .context = *context, .params = filled, .measurements = out, .owner = &single, .ended = single_ended};
    quantize_run_batch(&member, 1);
    *result = single.result;
    if (single.status != STATUS_OK) *error = single.error;
    return single.status;
}

static const char *const quantize_apart[] = {"method", "seed", "export", "per_token", NULL};

static const char *const quantize_resumes[] = {"streams*.state", "streams*.fp", NULL};

const struct kind quantize_kind = {
    .name = "quantize",
    .help = "Quantizes a checkpoint and measures what that costs",
    .params = quantize_params,
    .params_size = sizeof(struct quantize_params),
    .result = &quantize_report_shape,
    .check = quantize_check,
    .execute = quantize_execute,
    .plan = quantize_run_plan,
    .resumes = quantize_resumes,
    .apart = quantize_apart,
    .execute_batch = quantize_run_batch,
};
