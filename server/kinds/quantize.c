#include "base/checksum.h"
#include "eval/overlap.h"
#include "jobs/quantize_draws.h"
#include "kinds/baselines.h"
#include "kinds/inputs.h"
#include "kinds/method.h"
#include "kinds/protocol.h"
#include "kinds/quantize_export.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct quantize_params {
    const char *checkpoint;
    struct quantize_method method;
    struct data_use calibration, evaluation; /* calibration.dataset NULL: none */
    int precision, export_as;
    int64_t seed, calibration_draws;
};

/* What one run finds. */
struct findings {
    struct quantize_result result; /* of the first draw */
    struct quantize_draws draws;
    struct overlap overlap; /* windows 0: no calibration */
    json_t *exported;       /* owned; NULL: nothing */
};

static const struct param_variant method_variants[] = {QUANTIZE_METHOD_VARIANTS(offsetof(struct quantize_params, method)), {0}};
static const char *const exports[] = {"none", "gptq", "compressed-tensors", "dequantized", "awq",
                                      "gguf", NULL}; /* enum export_id */

static const struct param quantize_params[] = {
    {.name = "checkpoint",
     .type = PARAM_CHECKPOINT,
     .offset = offsetof(struct quantize_params, checkpoint),
     .help = "Id, name or TRAJECTORY/NAME of the checkpoint"},
    {.name = "method",
     .type = PARAM_VARIANT,
     .offset = offsetof(struct quantize_params, method.quantizer),
     .variants = method_variants,
     .recipes = recipes_table,
     .help = "The quantizer, by name, and its parameters"},
    {.name = "calibration",
     .type = PARAM_OBJECT,
     .offset = offsetof(struct quantize_params, calibration),
     .children = data_source_calibration,
     .fallback = "null",
     .nullable = true,
     .help = "What the quantizer sees; null only for methods that need none"},
    {.name = "evaluation",
     .type = PARAM_OBJECT,
     .offset = offsetof(struct quantize_params, evaluation),
     .children = data_source_evaluation,
     .help = "What both losses are measured on"},
    {.name = "export",
     .type = PARAM_CHOICE,
     .offset = offsetof(struct quantize_params, export_as),
     .choices = exports,
     .fallback = "null",
     .nullable = true,
     .help =
         "Format of the quantized checkpoint to keep: packed ones become the run's artifacts, dequantized a checkpoint; null: none"},
    INPUTS_PRECISION_PARAM(offsetof(struct quantize_params, precision)),
    {.name = "seed",
     .type = PARAM_INTEGER,
     .offset = offsetof(struct quantize_params, seed),
     .fallback = "0",
     .minimum = 0,
     .maximum = 9007199254740992.0,
     .help = "Of the bootstrap behind delta_interval"},
    {.name = "calibration_draws",
     .type = PARAM_INTEGER,
     .offset = offsetof(struct quantize_params, calibration_draws),
     .fallback = "1",
     .minimum = 1,
     .maximum = QUANTIZE_DRAWS_MAXIMUM,
     .help = "Quantize from so many disjoint calibration samples of max_sequences each, for the spread of the result"},
    {0},
};

static const struct quantizer *quantizer_of(const struct quantize_params *params)
{
    return quantizer_by_id(params->method.quantizer);
}

static enum status quantize_check(struct kind_request *request, const void *filled, struct error *error)
{
    const struct quantize_params *params = filled;
    enum status status;
    if ((status = inputs_check_precision(params->precision, error)) != STATUS_OK) return status;
    if (params->calibration_draws > 1 && params->calibration.max_sequences == 0)
        return error_set_at(error, STATUS_INVALID, "/params/calibration_draws",
                            "needs a calibration with max_sequences: the size of a draw");
    if ((status = method_check(request, NULL, &params->method, params->calibration.dataset != NULL, error)) != STATUS_OK)
        return status;
    if ((status = quantize_export_check(request, params->export_as, params->checkpoint, &params->method, error)) != STATUS_OK)
        return status;
    status = inputs_check_use(request, params->checkpoint, params->evaluation.dataset, "evaluation", error);
    if (status != STATUS_OK || params->calibration.dataset == NULL) return status;
    return inputs_check_use(request, params->checkpoint, params->calibration.dataset, "calibration", error);
}

/* What a number of this run is a number of. */
struct identity {
    char dataset[128], protocol[PROTOCOL_TEXT], recipe[RECIPE_TEXT];
};

static json_t *render_degraded(const struct layer_summary *layer, int64_t calibration_tokens)
{
    if (layer->degraded == DEGRADED_NO) return json_null();
    if (layer->degraded == DEGRADED_SILENT)
        return json_string("rounded to nearest: its inputs are zero on every calibration token");
    if (layer->degraded == DEGRADED_SINGULAR)
        return json_string("rounded to nearest: the Hessian of its inputs has no factor even with damping 0.99");
    return json_sprintf("rounded to nearest: %lld of %lld calibration tokens reached it", (long long)layer->tokens,
                        (long long)calibration_tokens);
}

static json_t *render_layers(const struct quantize_result *result)
{
    json_t *list = json_array();
    for (int64_t i = 0; list != NULL && i < result->layer_count; i++) {
        const struct layer_summary *layer = &result->layers[i];
        (void)json_array_append_new(
            list,
            json_pack("{ss sI sI so so so sI so sI sb sI so sI}", "name", layer->name, "rows", (json_int_t)layer->rows, "columns",
                      (json_int_t)layer->columns, "proxy_error", inputs_number(layer->proxy_error), "relative_error",
                      inputs_number(layer->relative_error), "damp", inputs_number(layer->damp), "dead_columns",
                      (json_int_t)layer->dead_columns, "alpha", inputs_number(layer->alpha), "kept_columns",
                      (json_int_t)layer->kept, "skipped", (int)layer->skipped, "tokens", (json_int_t)layer->tokens, "degraded",
                      render_degraded(layer, result->calibration_tokens), "damping_increases", (json_int_t)layer->damp_increases));
    }
    return list;
}

/* Layers where the method gave way, and those that fewer tokens reached than they have inputs, so that their Hessians lack rank. */
static void count_layers(const struct quantize_result *result, int64_t *degraded, int64_t *undersampled)
{
    *degraded = *undersampled = 0;
    for (int64_t i = 0; i < result->layer_count; i++) {
        *degraded += result->layers[i].degraded != DEGRADED_NO;
        *undersampled += result->calibration_tokens > 0 && result->layers[i].tokens < result->layers[i].columns;
    }
}

static void add_degraded(json_t *document, const struct quantize_result *result)
{
    int64_t degraded = 0, undersampled = 0;
    count_layers(result, &degraded, &undersampled);
    (void)json_object_set_new(document, "degraded_layers", json_integer((json_int_t)degraded));
    (void)json_object_set_new(document, "undersampled_layers", json_integer((json_int_t)undersampled));
    if (degraded > 0)
        (void)json_object_set_new(
            document, "note",
            json_sprintf("%lld of %lld layers were rounded to nearest (\"degraded\" says why); calibrate on more",
                         (long long)degraded, (long long)result->layer_count));
}

/* Null for a single draw. */
static json_t *render_draws(const struct quantize_draws *draws)
{
    json_t *deltas = json_array(), *losses = json_array();
    for (int64_t i = 0; i < draws->count; i++) {
        (void)json_array_append_new(deltas, inputs_number(draws->deltas[i]));
        (void)json_array_append_new(losses, inputs_number(draws->losses[i]));
    }
    json_t *document = json_pack("{so so so so}", "delta", deltas, "loss_q", losses, "delta_mean", inputs_number(draws->mean),
                                 "delta_stddev", inputs_number(draws->deviation));
    if (draws->count > 1) return document;
    json_decref(document);
    return json_null();
}

/* Null without calibration. */
static json_t *render_overlap(const struct overlap *overlap)
{
    if (overlap->windows == 0) return json_null();
    return json_pack("{sI sI sI so}", "window_tokens", (json_int_t)overlap->window, "windows", (json_int_t)overlap->windows,
                     "overlapping", (json_int_t)overlap->overlapping, "share",
                     inputs_number((double)overlap->overlapping / (double)overlap->windows));
}

static json_t *render(const struct findings *found, const struct identity *identity)
{
    const struct quantize_result *result = &found->result;
    json_t *interval = isfinite(result->delta_low) && isfinite(result->delta_high)
                           ? json_pack("[ff]", result->delta_low, result->delta_high)
                           : json_null();
    json_t *document = json_pack("{so so so so so so so sI sI sI sI so so}", "loss_fp", inputs_number(result->fp.loss), "loss_q",
                                 inputs_number(result->q.loss), "delta", inputs_number(result->delta), "delta_interval", interval,
                                 "kl", inputs_number(result->kl), "top1_agreement", inputs_number(result->top1_agreement),
                                 "bits_per_weight", inputs_number(result->bits_per_weight), "sequences",
                                 (json_int_t)result->fp.sequences, "tokens", (json_int_t)result->fp.tokens, "calibration_sequences",
                                 (json_int_t)result->calibration_sequences, "calibration_tokens",
                                 (json_int_t)result->calibration_tokens, "layers", render_layers(result), "artifact", json_null());
    if (document != NULL)
        (void)json_object_set_new(document, "export", found->exported == NULL ? json_null() : json_incref(found->exported));
    const json_t *artifact = json_object_get(found->exported, "artifact");
    if (document != NULL && artifact != NULL)
        (void)json_object_set_new(document, "artifact", json_string(json_string_value(artifact)));
    const char *recipe = recipes_name(identity->recipe);
    if (document != NULL) {
        (void)json_object_set_new(document, "recipe_id", json_string(identity->recipe));
        (void)json_object_set_new(document, "recipe", recipe == NULL ? json_null() : json_string(recipe));
        (void)json_object_set_new(document, "protocol_id", json_string(identity->protocol));
        (void)json_object_set_new(document, "calibration_draws", render_draws(&found->draws));
        (void)json_object_set_new(document, "calibration_overlap", render_overlap(&found->overlap));
    }
    if (document != NULL) add_degraded(document, result);
    if (document != NULL && !isfinite(result->delta))
        (void)json_object_set_new(document, "note",
                                  json_string("a loss is not finite: the model's outputs overflow or are not numbers"));
    return document;
}

static enum status measure(const struct quantize_params *params, const struct inputs *inputs, const struct identity *identity,
                           const struct findings *found, struct measurements *out, struct error *error)
{
    const struct quantize_result *result = &found->result;
    const struct {
        const char *metric;
        double value, low, high;
        bool full_precision;
    } rows[] = {
        {"delta", result->delta, result->delta_low, result->delta_high, false},
        {"loss_fp", result->fp.loss, NAN, NAN, true},
        {"loss_q", result->q.loss, NAN, NAN, false},
        {"kl", result->kl, NAN, NAN, false},
        {"top1_agreement", result->top1_agreement, NAN, NAN, false},
        {"bits_per_weight", result->bits_per_weight, NAN, NAN, false},
        {"delta_stddev", found->draws.deviation, NAN, NAN, false}, /* left out unless there are several draws */
    };
    enum status status = STATUS_OK;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && status == STATUS_OK; i++) {
        struct measurement item = {.checkpoint = inputs->row.id, .value = rows[i].value, .low = rows[i].low, .high = rows[i].high};
        (void)snprintf(item.metric, sizeof item.metric, "%s", rows[i].metric);
        (void)snprintf(item.dataset, sizeof item.dataset, "%s", identity->dataset);
        (void)snprintf(item.protocol, sizeof item.protocol, "%s", identity->protocol);
        if (!rows[i].full_precision) {
            (void)snprintf(item.method, sizeof item.method, "%s", quantizer_of(params)->name);
            method_label(&params->method, item.label, sizeof item.label);
            item.bits = method_bits(&params->method);
        }
        status = measurements_add(out, &item, error);
    }
    return status;
}

/* Where the streams stay between two attempts. An export is written as layers come by, so such a run begins anew. */
static enum status keep_path(const struct kind_context *context, const struct quantize_params *params, char **out,
                             struct error *error)
{
    if (params->export_as != EXPORT_NONE) return STATUS_OK;
    if (asprintf(out, "%s/streams", context->work_directory) >= 0) return STATUS_OK;
    *out = NULL;
    return error_set(error, STATUS_NO_MEMORY, "no memory for a path");
}

/* The work directory is the run's own; what its checkpoint holds may have been replaced all the same. */
static uint64_t content_of(const struct inputs *inputs)
{
    struct checksum sum;
    checksum_init(&sum);
    checksum_add(&sum, inputs->row.id.text, strlen(inputs->row.id.text));
    checksum_add(&sum, inputs->row.sha256, strlen(inputs->row.sha256));
    return checksum_value(&sum);
}

static enum status run(const struct kind_context *context, const struct quantize_params *params, const struct inputs *inputs,
                       const struct sequences *calibration, const struct sequences *evaluation, struct findings *out,
                       struct error *error)
{
    char *baseline = NULL, *keep = NULL;
    struct export_job *export = NULL;
    enum status status = baselines_path(context, inputs, evaluation, &baseline, error);
    struct quantize_request request = {
        .model = inputs->model,
        .backend = inputs->backend,
        .method = params->method,
        .calibration = calibration->count > 0 ? calibration : NULL,
        .evaluation = evaluation,
        .baseline = baseline,
        .seed = (uint64_t)params->seed,
        .monitor = context->monitor,
        .content = content_of(inputs),
    };
    if (status == STATUS_OK) status = keep_path(context, params, &keep, error);
    request.keep = keep;
    if (status == STATUS_OK) status = quantize_method_settle(&request.method, error);
    if (status == STATUS_OK && params->export_as != EXPORT_NONE) {
        status = quantize_export_open(context, params->export_as, &request.method, inputs, &export, error);
        if (status == STATUS_OK) request.hook = export_hook(export);
    }
    if (status == STATUS_OK && calibration->count > 0) status = overlap_find(evaluation, calibration, &out->overlap, error);
    if (status == STATUS_OK && out->overlap.overlapping > 0)
        monitor_log(context->monitor, "%lld of %lld windows of %lld evaluation tokens stand in the calibration data too",
                    (long long)out->overlap.overlapping, (long long)out->overlap.windows, (long long)out->overlap.window);
    if (status == STATUS_OK) status = quantize_draws_run(&request, params->calibration_draws, &out->result, &out->draws, error);
    if (status == STATUS_OK && export != NULL)
        status = quantize_export_publish(context, params->export_as, &request.method, inputs, export, &out->exported, error);
    export_close(export);
    free(baseline);
    free(keep);
    return status;
}

static enum status identify(const struct quantize_params *params, const struct sequences *evaluation, struct identity *identity,
                            struct error *error)
{
    struct quantize_method method = params->method;
    enum status status = quantize_method_settle(&method, error);
    if (status == STATUS_OK) status = recipes_id(&method, identity->recipe, error);
    if (status != STATUS_OK) return status;
    return protocol_id(evaluation, inputs_precisions[params->precision], identity->protocol, error);
}

static enum status quantize_execute(const struct kind_context *context, const void *filled, json_t **result,
                                    struct measurements *out, struct error *error)
{
    const struct quantize_params *params = filled;
    struct inputs inputs = {0};
    struct sequences calibration = {0}, evaluation = {0};
    struct data_use calibration_use = params->calibration;
    struct findings found = {.draws = {0}};
    struct identity identity = {.dataset = ""};
    enum status status;
    calibration_use.max_sequences *= params->calibration_draws;
    if ((status = inputs_open(context, params->checkpoint, &inputs, error)) != STATUS_OK) goto done;
    if ((status = inputs_sequences(context, &inputs, &params->evaluation, false, &evaluation, identity.dataset, error)) !=
        STATUS_OK)
        goto done;
    if (params->calibration.dataset != NULL)
        status = inputs_sequences(context, &inputs, &calibration_use, true, &calibration, NULL, error);
    if (status != STATUS_OK) goto done;
    if (params->calibration_draws > 1 && calibration.count < calibration_use.max_sequences) {
        status = error_set_at(error, STATUS_INVALID, "/params/calibration_draws",
                              "%lld draws of %lld sequences; the dataset has %lld in all", (long long)params->calibration_draws,
                              (long long)params->calibration.max_sequences, (long long)calibration.count);
        goto done;
    }
    if ((status = identify(params, &evaluation, &identity, error)) != STATUS_OK) goto done;
    if ((status = run(context, params, &inputs, &calibration, &evaluation, &found, error)) != STATUS_OK) goto done;
    if ((status = measure(params, &inputs, &identity, &found, out, error)) != STATUS_OK) goto done;
    *result = render(&found, &identity);
    if (*result == NULL) status = error_set(error, STATUS_NO_MEMORY, "no memory for a result");
done:
    quantize_result_reset(&found.result);
    json_decref(found.exported);
    dataset_sequences_free(&calibration);
    dataset_sequences_free(&evaluation);
    inputs_reset(&inputs);
    return status;
}

const struct kind quantize_kind = {
    .name = "quantize",
    .help = "Quantizes a checkpoint and measures what that costs",
    .params = quantize_params,
    .params_size = sizeof(struct quantize_params),
    .check = quantize_check,
    .execute = quantize_execute,
};
