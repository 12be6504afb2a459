#include "kinds/quantize_report.h"

#include "kinds/method.h"

#include <math.h>
#include <stdio.h>

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

json_t *quantize_report_render(const struct quantize_findings *found, const struct quantize_identity *identity)
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

enum status quantize_report_measure(const struct quantize_params *params, const struct inputs *inputs,
                                    const struct quantize_identity *identity, const struct quantize_findings *found,
                                    struct measurements *out, struct error *error)
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
            (void)snprintf(item.method, sizeof item.method, "%s", quantizer_by_id(params->method.quantizer)->name);
            method_label(&params->method, item.label, sizeof item.label);
            item.bits = method_bits(&params->method);
        }
        status = measurements_add(out, &item, error);
    }
    return status;
}
