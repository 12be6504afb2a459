#include "jobs/sharpness/sharpness.h"

#include "inputs/inputs.h"
#include "jobs/point.h"
#include "kinds/kind.h"
#include "kinds/measure.h"
#include "kinds/method.h"
#include "kinds/preconditioner.h"
#include "kinds/protocol.h"
#include "kinds/sharpness_ends.h"
#include "kinds/sharpness_report.h"

#include <math.h>
#include <stdio.h>

enum estimator { ESTIMATOR_TOP_EIGENVALUE, ESTIMATOR_TRACE, ESTIMATOR_SPECTRUM, ESTIMATOR_CRITICAL };
static const char *const estimators[] = {"top_eigenvalue", "trace", "spectrum", "critical_sharpness", NULL};

/* The quantization whose error is the direction. */
struct direction_params {
    struct quantize_method method; /* a null direction leaves it zeroed, which no method is, because every method has
                                    * bits */
    struct data_use calibration;   /* dataset NULL: none */
    int64_t random;
};

struct sharpness_params {
    const char *checkpoint;
    struct data_use use;
    struct param_list estimators;
    struct sharpness_settings settings; /* which estimators run, by the list above */
    struct direction_params direction;
    int precision;
};

static const struct param estimator_item = {.type = PARAM_CHOICE, .choices = estimators};

static const struct param direction_params[] = {
    {.name = "method",
     .type = PARAM_VARIANT,
     .schema = "Method",
     .offset = offsetof(struct direction_params, method.quantizer),
     .variants = quantize_method_variants,
     .recipes = recipes_table,
     .help = "The quantizer, by name, and its parameters"},
    {.name = "calibration",
     .type = PARAM_OBJECT,
     .offset = offsetof(struct direction_params, calibration),
     .schema = "Calibration",
     .children = data_source_calibration,
     .fallback = "null",
     .nullable = true,
     .help = "Data for calibrating the quantizer; null only for methods that need none"},
    {.name = "random_directions",
     .type = PARAM_INTEGER,
     .offset = offsetof(struct direction_params, random),
     .fallback = "0",
     .minimum = 0,
     .maximum = 1000,
     .help = "Random changes of the weights, as large as the quantization's error in each linear, to compare its cost "
             "with: a product and two losses each"},
    {0},
};

#define SETTING(field) offsetof(struct sharpness_params, settings.field)

static const struct param sharpness_params[] = {
    {.name = "checkpoint",
     .type = PARAM_CHECKPOINT,
     .offset = offsetof(struct sharpness_params, checkpoint),
     .help = "Id, name or TRAJECTORY/NAME of the checkpoint"},
    DATA_SOURCE_PARAMS(offsetof(struct sharpness_params, use), "\"blocks\""),
    {.name = "estimators",
     .type = PARAM_LIST,
     .offset = offsetof(struct sharpness_params, estimators),
     .item = &estimator_item,
     .fallback = "[\"top_eigenvalue\", \"trace\", \"spectrum\"]",
     .minimum = 0,
     .maximum = 4,
     .help = "Estimators to run beside the loss and the norms of gradient and weights"},
    {.name = "groups",
     .type = PARAM_BOOLEAN,
     .offset = SETTING(groups),
     .fallback = "false",
     .help = "Also the eigenvalues of embeddings, attention, mlp, norms and output alone"},
    {.name = "method",
     .type = PARAM_CHOICE,
     .offset = SETTING(method),
     .choices = sharpness_methods,
     .fallback = "\"lanczos\"",
     .help = "Of eigenvalues: lanczos finds both ends; power is PyHessian's iteration, in the least memory"},
    {.name = "max_iterations",
     .type = PARAM_INTEGER,
     .offset = SETTING(max_iterations),
     .fallback = "100",
     .minimum = 1,
     .maximum = 10000,
     .help = "Most Hessian-vector products for the top eigenvalue"},
    {.name = "tolerance",
     .type = PARAM_NUMBER,
     .offset = SETTING(tolerance),
     .fallback = "0.001",
     .minimum = 1e-12,
     .maximum = 0.5,
     .help = "Relative: of the residual (lanczos), of the change between iterations (power)"},
    {.name = "probes",
     .type = PARAM_INTEGER,
     .offset = SETTING(probes),
     .fallback = "32",
     .minimum = 1,
     .maximum = 1 << 24,
     .help = "Hessian-vector products for the trace; as many as parameters make it exact"},
    {.name = "trace_method",
     .type = PARAM_CHOICE,
     .offset = SETTING(trace_method),
     .choices = trace_method_names,
     .fallback = "\"hutchinson\"",
     .help = "hutch++ takes the dominant part exactly, with a third of the probes, held in memory"},
    {.name = "spectrum_probes",
     .type = PARAM_INTEGER,
     .offset = SETTING(spectrum_probes),
     .fallback = "4",
     .minimum = 1,
     .maximum = 1000,
     .help = "Random vectors that the spectral density is averaged over"},
    {.name = "spectrum_steps",
     .type = PARAM_INTEGER,
     .offset = SETTING(spectrum_steps),
     .fallback = "32",
     .minimum = 1,
     .maximum = 1000,
     .help = "Lanczos steps, and nodes, of each of them"},
    {.name = "preconditioner",
     .type = PARAM_VARIANT,
     .schema = "Preconditioner",
     .offset = SETTING(preconditioner.moments),
     .variants = preconditioner_variants,
     .fallback = "null",
     .nullable = true,
     .help =
         "Also the eigenvalues of the Hessian as Adam meets it, with second moments from its training state, or from "
         "the gradients of the run's sequences"},
    {.name = "direction",
     .type = PARAM_OBJECT,
     .offset = offsetof(struct sharpness_params, direction),
     .schema = "Direction",
     .children = direction_params,
     .fallback = "null",
     .nullable = true,
     .help = "Predicts what this quantization costs from gradient and curvature along its error"},
    INPUTS_PRECISION_PARAM(offsetof(struct sharpness_params, precision)),
    INPUTS_SEED_PARAM(SETTING(seed), "Of starts and probes"),
    {0},
};

static bool has_direction(const struct sharpness_params *params)
{
    return point_method_given(&params->direction.method);
}

static enum status check_direction(struct run_request *request, const struct sharpness_params *params,
                                   struct error *error)
{
    if (quantize_method_treats_inputs(&params->direction.method))
        return error_set_at(error, STATUS_UNSUPPORTED, "/params/direction/method",
                            "rounds or turns inputs too; a direction is a change of the blocks' weights alone");
    if (params->direction.method.options.embedding_bits > 0 || params->direction.method.options.lm_head_bits > 0)
        return error_set_at(error, STATUS_UNSUPPORTED, "/params/direction/method",
                            "rounds embeddings or output; a direction is a change of the blocks' weights alone");
    const struct direction_params *direction = &params->direction;
    const enum status status = method_check(request, params->checkpoint, "direction", &direction->method,
                                            direction->calibration.dataset != NULL, error);
    if (status != STATUS_OK || direction->calibration.dataset == NULL) return status;
    return inputs_check_use(request, params->checkpoint, direction->calibration.dataset, "direction/calibration",
                            error);
}

static struct sharpness_settings settings_of(const struct sharpness_params *params)
{
    struct sharpness_settings settings = params->settings;
    for (int64_t i = 0; i < params->estimators.count; i++) {
        settings.top_eigenvalue |= params->estimators.choices[i] == ESTIMATOR_TOP_EIGENVALUE;
        settings.trace |= params->estimators.choices[i] == ESTIMATOR_TRACE;
        settings.critical |= params->estimators.choices[i] == ESTIMATOR_CRITICAL;
        settings.spectrum |= params->estimators.choices[i] == ESTIMATOR_SPECTRUM;
    }
    settings.preconditioned = preconditioner_given(&settings.preconditioner);
    return settings;
}

static enum status sharpness_check_params(struct run_request *request, const void *filled, struct error *error)
{
    const struct sharpness_params *params = filled;
    struct sharpness_settings settings = settings_of(params);
    enum status status;
    if (settings.preconditioned &&
        (status = preconditioner_complete(request, params->checkpoint, &settings.preconditioner, error)) != STATUS_OK)
        return status;
    if ((status = sharpness_check(&settings, error)) != STATUS_OK) return status;
    if (has_direction(params) && (status = check_direction(request, params, error)) != STATUS_OK) return status;
    return inputs_check_use(request, params->checkpoint, params->use.dataset, NULL, error);
}

/* The inputs of a run, and the request that lends from them. */
struct opened {
    struct inputs inputs;
    struct sequences sequences, calibration;
    char calibrated_on[STORE_NAME];
    struct quantize_method method;
    struct checkpoint_place state; /* of a fetched training state */
    char dataset[STORE_NAME], training_state[PATH_MAX];
    struct sharpness_request request;
};

static enum status open_all(const struct run_context *context, const struct sharpness_params *params, struct opened *o,
                            struct error *error)
{
    enum status status;
    *o = (struct opened){.method = params->direction.method};
    if ((status = inputs_open(context, params->checkpoint, params->precision, &o->inputs, error)) != STATUS_OK)
        return status;
    status = inputs_sequences(context, &o->inputs, &params->use, false, &o->sequences, o->dataset, error);
    if (status != STATUS_OK) return status;
    if (has_direction(params) && (status = quantize_method_complete(&o->method, error)) != STATUS_OK) return status;
    if (params->direction.calibration.dataset != NULL)
        status = inputs_sequences(context, &o->inputs, &params->direction.calibration, true, &o->calibration,
                                  o->calibrated_on, error);
    o->request = (struct sharpness_request){
        .model = o->inputs.model,
        .backend = o->inputs.backend,
        .sequences = &o->sequences,
        .settings = settings_of(params),
        .direction = has_direction(params) ? &o->method : NULL,
        .calibration = o->calibration.count > 0 ? &o->calibration : NULL,
        .random_directions = params->direction.random,
        .training_state = o->training_state,
        .work_directory = context->work_directory,
        .save_seconds = context->save_seconds,
        .monitor = context->monitor,
    };
    return status;
}

/* What only an execution needs: the state whose second moments it reads. */
static enum status open_state(const struct run_context *context, struct opened *o, struct error *error)
{
    const struct sharpness_settings *settings = &o->request.settings;
    if (!settings->preconditioned || settings->preconditioner.moments != SHARPNESS_MOMENTS_OF_STATE) return STATUS_OK;
    return preconditioner_state(context, &o->inputs.row, &o->inputs.place, weights_directory(o->inputs.model->weights),
                                &o->state, o->training_state, error);
}

static void close_all(struct opened *o)
{
    checkpoint_place_close(&o->state);
    dataset_sequences_free(&o->sequences);
    dataset_sequences_free(&o->calibration);
    inputs_reset(&o->inputs);
}

/* Notes the work of the products that were made, which may be fewer than planned. Does nothing when an earlier attempt
 * had begun the run. */
static enum status work_note(const struct run_context *context, const struct sharpness_request *request,
                             int64_t products, struct error *error)
{
    const struct plan_budget budget = backend_budget(request->backend, NULL);
    struct run_plan plan;
    if (context->work == NULL || context->attempt > 0 || request->direction != NULL) return STATUS_OK;
    const enum status status = sharpness_plan(request, &budget, &plan, error);
    const int64_t planned = status == STATUS_OK && request->sequences->count > 0 ? plan.tokens : 0;
    const int64_t tokens = request->sequences->starts[request->sequences->count];
    if (planned > 0) *context->work = plan.flops * (double)(1 + products) * (double)tokens / (double)planned;
    return status;
}

/* The budget is a share of the machine and not what is free now, so that the basis does not depend on the moment. */
static enum status sharpness_run_plan(const struct run_context *context, const void *filled, struct plan_budget *budget,
                                      struct run_plan *out, struct error *error)
{
    struct opened o;
    enum status status = open_all(context, filled, &o, error);
    if (status == STATUS_OK) {
        *budget = backend_budget(o.request.backend, context->work_directory);
        budget->bytes[backend_space(o.request.backend)] = o.request.backend->ops->memory(o.request.backend);
        status = sharpness_plan(&o.request, budget, out, error);
    }
    close_all(&o);
    return status;
}

static enum status sharpness_execute(const struct run_context *context, const void *filled, json_t **result,
                                     struct measurements *out, struct error *error)
{
    const struct sharpness_params *params = filled;
    struct opened o;
    struct sharpness_result found = {0};
    char protocol[PROTOCOL_TEXT];
    struct protocol_calibration calibration;
    enum status status;
    if ((status = open_all(context, params, &o, error)) != STATUS_OK) goto done;
    if ((status = open_state(context, &o, error)) != STATUS_OK) goto done;
    if ((status = protocol_id(&o.sequences, inputs_precisions[params->precision], protocol, error)) != STATUS_OK)
        goto done;
    if ((status = sharpness_run(&o.request, &found, error)) != STATUS_OK) goto done;
    if ((status = work_note(context, &o.request, found.products, error)) != STATUS_OK) goto done;
    const struct quantize_method *method = has_direction(params) ? &params->direction.method : NULL;
    struct measurement series = measure_series(&o.inputs.row.id, o.dataset, protocol, method);
    if (method != NULL) {
        status = protocol_calibrated(method, &o.calibration, 1, o.calibrated_on, &calibration, error);
        if (status != STATUS_OK) goto done;
        measure_calibrated(&series, &calibration);
    }
    status =
        sharpness_report(&o.request.settings, &found, &series, params->precision != PRECISION_F32, result, out, error);
done:
    sharpness_result_reset(&found);
    close_all(&o);
    return status;
}

static const struct result_shape *const sharpness_measured[] = {&sharpness_preconditioned_measured, NULL};
static const char *const sharpness_resumes[] = {"sharpness.state", NULL};

const struct kind sharpness_kind = {
    .name = "sharpness",
    .help = "Curvature of a checkpoint's loss, and what it predicts of quantization",
    .params = sharpness_params,
    .params_size = sizeof(struct sharpness_params),
    .result = &sharpness_report_shape,
    .measured = sharpness_measured,
    .check = sharpness_check_params,
    .execute = sharpness_execute,
    .plan = sharpness_run_plan,
    .resumes = sharpness_resumes,
};
