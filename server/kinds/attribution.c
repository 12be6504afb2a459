#include "jobs/attribution/attribution.h"

#include "inputs/inputs.h"
#include "kinds/attribution_report.h"
#include "kinds/attribution_table.h"
#include "kinds/baselines.h"
#include "kinds/kind.h"
#include "kinds/measure.h"
#include "kinds/method.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct attribution_params {
    const char *checkpoint;
    struct quantize_method method;
    struct data_use calibration, evaluation; /* calibration.dataset NULL: none */
    int part, objective, precision;
    bool left_out;
    struct param_list bits;
    double budget; /* 0: none */
    int64_t seed;
};
#define AT(field) offsetof(struct attribution_params, field)

static const char *const parts[] = {"linear", "block", NULL}, *const objectives[] = {"loss", "kl", NULL};
static const struct param bits_item = {.type = PARAM_INTEGER, .minimum = 2, .maximum = 8, .help = "2, 3, 4 or 8"};

static const struct param attribution_params[] = {
    {.name = "checkpoint",
     .type = PARAM_CHECKPOINT,
     .offset = AT(checkpoint),
     .help = "Id, name or TRAJECTORY/NAME of the checkpoint"},
    METHOD_PARAM(
        AT(method),
        "The quantizer of the whole, by name, and its parameters; without overrides, embedding_bits and lm_head_bits"),
    INPUTS_CALIBRATION_PARAM(AT(calibration)),
    INPUTS_EVALUATION_PARAM(AT(evaluation), "Data that all losses are measured on"),
    {.name = "unit",
     .type = PARAM_CHOICE,
     .offset = AT(part),
     .choices = parts,
     .fallback = "\"linear\"",
     .help = "What is quantized alone and left out: each linear (the experts of a step together), or each block"},
    {.name = "left_out",
     .type = PARAM_BOOLEAN,
     .offset = AT(left_out),
     .fallback = "true",
     .help = "Also quantize all but each unit: half a run for each, more than the units alone cost"},
    {.name = "bits",
     .type = PARAM_LIST,
     .offset = AT(bits),
     .item = &bits_item,
     .fallback = "[]",
     .maximum = ATTRIBUTION_WIDTHS,
     .help =
         "Widths (2, 3, 4, 8) at which units are measured alone beside the method's own; with any there is a frontier"},
    {.name = "budget",
     .type = PARAM_NUMBER,
     .offset = AT(budget),
     .fallback = "null",
     .nullable = true,
     .minimum = 2,
     .maximum = 16,
     .help = "Bits per weight, scales included, of an allocation of these widths that is then measured; null: none"},
    {.name = "allocate_by",
     .type = PARAM_CHOICE,
     .offset = AT(objective),
     .choices = objectives,
     .fallback = "\"loss\"",
     .help = "What frontier and allocation make least: the loss, or the divergence, which is less noisy"},
    INPUTS_PRECISION_PARAM(AT(precision)),
    INPUTS_SEED_PARAM(AT(seed), "Seed of the bootstrap behind intervals"),
    {0},
};

/* Everything that follows from the parameters; the method is not complete yet. */
static struct attribution_request request_of(const struct attribution_params *params)
{
    return (struct attribution_request){
        .method = params->method,
        .seed = (uint64_t)params->seed,
        .part = (enum attribution_part)params->part,
        .left_out = params->left_out,
        .width_count = params->bits.count,
        .widths = params->bits.integers,
        .budget = params->budget,
        .objective = (enum attribution_objective)params->objective,
    };
}

static enum status attribution_kind_check(struct run_request *request, const void *filled, struct error *error)
{
    const struct attribution_params *params = filled;
    const struct attribution_request asked = request_of(params);
    struct error cause;
    char pointer[sizeof cause.pointer];
    enum status status;
    if ((status = method_check(request, params->checkpoint, NULL, &params->method, params->calibration.dataset != NULL,
                               error)) != STATUS_OK)
        return status;
    if ((status = attribution_check(&asked, &cause)) != STATUS_OK) {
        (void)snprintf(pointer, sizeof pointer, "/params%.100s", cause.pointer);
        return error_set_at(error, status, pointer, "%s", cause.detail);
    }
    status = inputs_check_use(request, params->checkpoint, params->evaluation.dataset, "evaluation", error);
    if (status != STATUS_OK || params->calibration.dataset == NULL) return status;
    return inputs_check_use(request, params->checkpoint, params->calibration.dataset, "calibration", error);
}

/* The inputs of a run, and the request that lends from them. Must not move. */
struct opened {
    struct inputs inputs;
    struct sequences calibration, evaluation;
    char calibrated_on[STORE_NAME];
    char dataset[STORE_NAME];
    struct attribution_request request;
};

static enum status open_all(const struct run_context *context, const struct attribution_params *params,
                            struct opened *o, struct error *error)
{
    enum status status;
    *o = (struct opened){.request = request_of(params)};
    if ((status = inputs_open(context, params->checkpoint, params->precision, &o->inputs, error)) != STATUS_OK)
        return status;
    status = inputs_sequences(context, &o->inputs, &params->evaluation, false, &o->evaluation, o->dataset, error);
    if (status == STATUS_OK && params->calibration.dataset != NULL)
        status =
            inputs_sequences(context, &o->inputs, &params->calibration, true, &o->calibration, o->calibrated_on, error);
    if (status != STATUS_OK) return status;
    o->request.model = o->inputs.model;
    o->request.backend = o->inputs.backend;
    o->request.evaluation = &o->evaluation;
    o->request.calibration = o->calibration.count > 0 ? &o->calibration : NULL;
    o->request.work_directory = context->work_directory;
    o->request.monitor = context->monitor;
    return quantize_method_complete(&o->request.method, error);
}

static void close_all(struct opened *o)
{
    dataset_sequences_free(&o->calibration);
    dataset_sequences_free(&o->evaluation);
    inputs_reset(&o->inputs);
}

static enum status attribution_run_plan(const struct run_context *context, const void *filled,
                                        struct plan_budget *budget, struct run_plan *out, struct error *error)
{
    struct opened o;
    enum status status = open_all(context, filled, &o, error);
    if (status == STATUS_OK) {
        *budget = backend_budget(o.inputs.backend, context->work_directory);
        status = attribution_plan(&o.request, budget, out, error);
    }
    close_all(&o);
    return status;
}

static enum status attribution_execute(const struct run_context *context, const void *filled, json_t **result,
                                       struct measurements *out, struct error *error)
{
    const struct attribution_params *params = filled;
    struct opened o;
    struct attribution_result found = {0};
    struct attribution_findings findings = {.request = &o.request, .result = &found};
    char *baseline = NULL;
    enum status status;
    if ((status = open_all(context, params, &o, error)) != STATUS_OK) goto done;
    if ((status = recipes_id(&o.request.method, findings.recipe, error)) != STATUS_OK) goto done;
    if ((status = protocol_id(&o.evaluation, inputs_precisions[params->precision], findings.protocol, error)) !=
        STATUS_OK)
        goto done;
    if ((status = baselines_path(context, &o.inputs, &o.evaluation, &baseline, error)) != STATUS_OK) goto done;
    o.request.baseline = baseline;
    if ((status = attribution_run(&o.request, &found, error)) != STATUS_OK) goto done;
    run_context_note_work(context, found.flops);
    struct measurement series = measure_series(&o.inputs.row.id, o.dataset, findings.protocol, &o.request.method);
    struct protocol_calibration calibration;
    status = protocol_calibrated(&o.request.method, &o.calibration, 1, o.calibrated_on, &calibration, error);
    if (status != STATUS_OK) goto done;
    measure_calibrated(&series, &calibration);
    /* the share of the sum over blocks is another number than that over linears: no points of one curve */
    if (params->part == ATTRIBUTION_BLOCK)
        status = protocol_detailed(findings.protocol, "attribution 1: blocks", series.protocol, error);
    if (status != STATUS_OK) goto done;
    status = attribution_report_make(&findings, &series, result, out, error);
done:
    attribution_result_reset(&found);
    free(baseline);
    close_all(&o);
    return status;
}

static const char *const attribution_resumes[] = {"attribution.table", NULL};

const struct kind attribution_kind = {
    .name = "attribution",
    .help = "Measures what each part of a checkpoint adds to the cost of quantizing it",
    .params = attribution_params,
    .params_size = sizeof(struct attribution_params),
    .result = &attribution_table_shape,
    .check = attribution_kind_check,
    .execute = attribution_execute,
    .plan = attribution_run_plan,
    .resumes = attribution_resumes,
};
