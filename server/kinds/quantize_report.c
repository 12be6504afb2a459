#include "kinds/quantize_report.h"

#include "base/memory.h"
#include "kinds/measure.h"
#include "kinds/method.h"
#include "kinds/metric.h"
#include "schema/result_render.h"

#include <math.h>
#include <stdio.h>

/* --- What is told ---- */

enum { WHY_BYTES = 160 };

struct layer_report {
    struct layer_summary summary;
    const char *degraded; /* NULL: it did not give way */
    char why[WHY_BYTES];
    bool has_dead; /* dead columns were counted */
};

/* The findings of a run, and the values derived from them. Copies lend from the originals. */
struct quantize_report {
    struct quantize_result result;
    struct quantize_draws draws;
    struct overlap overlap;
    double overlap_share;
    struct quantize_identity identity;
    const char *recipe, *artifact, *note, *interval_method, *calibration_id; /* NULL: none */
    struct quantize_exported exported;
    bool several_draws, was_exported, has_overlap;
    int64_t degraded_layers, undersampled_layers;
    struct layer_report *layers; /* owned; [result.layer_count] */
    char why[WHY_BYTES];
};

/* --- Its table ---- */

static const struct result_field number_item = {.type = RESULT_NUMBER};

#define LAYER(field) offsetof(struct layer_report, field)

static const struct result_field layer_fields[] = {
    {.name = "name", .type = RESULT_CHARS, .offset = LAYER(summary.name), .help = "Of the linear, without \".weight\""},
    {.name = "rows", .type = RESULT_INTEGER, .offset = LAYER(summary.rows), .help = "Outputs"},
    {.name = "columns", .type = RESULT_INTEGER, .offset = LAYER(summary.columns), .help = "Inputs"},
    {.name = "proxy_error",
     .type = RESULT_NUMBER,
     .offset = LAYER(summary.proxy_error),
     .help = "tr((W − Q) H (W − Q)ᵀ) with H = 2/N XᵀX of the N calibration inputs: twice the mean over tokens of the "
             "squared change of the layer's outputs; without calibration H = 1, in squares of weights"},
    {.name = "relative_error",
     .type = RESULT_NUMBER,
     .offset = LAYER(summary.relative_error),
     .help =
         "proxy_error over tr(W H Wᵀ): the squared change of the layer's outputs over their squares, a plain number"},
    {.name = "damp",
     .type = RESULT_NUMBER,
     .offset = LAYER(summary.damp),
     .later = true,
     .help = "Part of the Hessian's mean diagonal that was added to it"},
    {.name = "dead_columns",
     .type = RESULT_INTEGER,
     .offset = LAYER(summary.dead_columns),
     .absence = RESULT_NULL,
     .when = LAYER(has_dead),
     .has_when = true,
     .later = true,
     .help = "Input columns that are zero on every calibration token; null where no calibration was read"},
    {.name = "alpha",
     .type = RESULT_NUMBER,
     .offset = LAYER(summary.alpha),
     .later = true,
     .help = "The exponent that AWQ or SmoothQuant found or was given"},
    {.name = "kept_columns",
     .type = RESULT_INTEGER,
     .offset = LAYER(summary.kept),
     .later = true,
     .help = "Input columns that were left as they are"},
    {.name = "skipped",
     .type = RESULT_BOOLEAN,
     .offset = LAYER(summary.skipped),
     .later = true,
     .help = "Left as it is by an override"},
    {.name = "tokens",
     .type = RESULT_INTEGER,
     .offset = LAYER(summary.tokens),
     .later = true,
     .help = "Calibration tokens that reached the layer: of an expert those that visit it"},
    {.name = "degraded",
     .type = RESULT_TEXT,
     .offset = LAYER(degraded),
     .absence = RESULT_NULL,
     .later = true,
     .help =
         "Why this layer was rounded to nearest in place of the method: too few calibration tokens visit its expert"},
    {.name = "damping_increases",
     .type = RESULT_INTEGER,
     .offset = LAYER(summary.damp_increases),
     .later = true,
     .help = "Steps of 0.01 that GPTQ raised its damping by, before a factorisation worked"},
    {0},
};
static const struct result_shape layer_shape = {.fields = layer_fields, .size = sizeof(struct layer_report)};
static const struct result_field layer_item = {.type = RESULT_OBJECT, .shape = &layer_shape};

static const struct result_metric delta_stddev_metric = {
    .name = "delta_stddev",
    .label = "Standard deviation of ΔQL",
    .axis = "standard deviation of ΔQL over calibration samples",
    .help = "Of delta over disjoint calibration samples, over the number of draws less one",
    .better = RESULT_LOWER,
    .format = RESULT_PERCENT,
    .of_method = true,
};

static const struct result_metric model_bits_metric = {
    .name = "model_bits_per_weight",
    .label = "Bits per weight of the model",
    .axis = "bits per weight of the model",
    .unit = "bits",
    .help = "Of the whole checkpoint over its parameters: the quantized matrices, and all else at the width that it is "
            "stored in",
    .of_method = true,
};

#define DRAWS(field) offsetof(struct quantize_draws, field)

static const struct result_field draws_fields[] = {
    {.name = "delta",
     .type = RESULT_ARRAY,
     .offset = DRAWS(deltas),
     .count = DRAWS(count),
     .item = &number_item,
     .help = "ΔQL of each draw: loss_q / loss_fp − 1 with the weights that its calibration sample gave"},
    {.name = "loss_q",
     .type = RESULT_ARRAY,
     .offset = DRAWS(losses),
     .count = DRAWS(count),
     .item = &number_item,
     .unit = "nats",
     .help = "Quantized loss of each draw"},
    {.name = "kl",
     .type = RESULT_ARRAY,
     .offset = DRAWS(kls),
     .count = DRAWS(count),
     .item = &number_item,
     .unit = "nats",
     .later = true,
     .help = "KL divergence of each draw"},
    {.name = "top1_agreement",
     .type = RESULT_ARRAY,
     .offset = DRAWS(agreements),
     .count = DRAWS(count),
     .item = &number_item,
     .later = true,
     .help = "Top-1 agreement of each draw"},
    {.name = "delta_mean",
     .type = RESULT_NUMBER,
     .offset = DRAWS(mean),
     .help = "Mean of delta over the draws, which is also the delta of the run"},
    {.name = "delta_stddev", .type = RESULT_NUMBER, .offset = DRAWS(deviation), .metric = &delta_stddev_metric},
    {0},
};
static const struct result_shape draws_shape = {
    .help = "The spread over disjoint calibration samples; null for a single one", .fields = draws_fields};

#define OVERLAP(field) offsetof(struct quantize_report, field)

static const struct result_field overlap_fields[] = {
    {.name = "window_tokens", .type = RESULT_INTEGER, .offset = OVERLAP(overlap.window), .help = "Tokens of a window"},
    {.name = "windows",
     .type = RESULT_INTEGER,
     .offset = OVERLAP(overlap.windows),
     .help = "Of the evaluation, one after another"},
    {.name = "overlapping",
     .type = RESULT_INTEGER,
     .offset = OVERLAP(overlap.overlapping),
     .help = "Windows that the calibration data contain too"},
    {.name = "share",
     .type = RESULT_NUMBER,
     .offset = OVERLAP(overlap_share),
     .finite = true,
     .help = "Of the windows"},
    {0},
};
static const struct result_shape overlap_shape = {
    .help = "Windows of the evaluation that the calibration data contain too; null without calibration",
    .fields = overlap_fields};

/* By enum ratio_method, after RATIO_NONE. */
static const char *const interval_methods[] = {"student", "bootstrap", "student_draws", NULL};

#define REPORT(field) offsetof(struct quantize_report, field)

/* A mean over the evaluation's predictions, and its interval. */
#define MEAN(name_, member, metric_, which)                                                            \
    {                                                                                                  \
        .name = (name_), .type = RESULT_NUMBER, .offset = REPORT(result.member), .metric = &(metric_), \
        .spread = RESULT_BETWEEN, .spread_low = REPORT(result.intervals[which].low),                   \
        .spread_high = REPORT(result.intervals[which].high)                                            \
    }
#define MEAN_INTERVAL(name_, which, unit_, help_)                                                     \
    {                                                                                                 \
        .name = (name_), .type = RESULT_INTERVAL, .offset = REPORT(result.intervals[which].low),      \
        .high = REPORT(result.intervals[which].high), .later = true, .unit = (unit_), .help = (help_) \
    }

static const struct result_field report_fields[] = {
    MEAN("loss_fp", fp.loss, metric_loss_fp, QUANTIZE_LOSS_FP),
    MEAN_INTERVAL(
        "loss_fp_interval", QUANTIZE_LOSS_FP, "nats",
        "95 % interval of loss_fp over the evaluation's sequences, each weighing its predictions w: Student's t "
        "of (Σw)²/Σw² − 1 degrees of freedom. Null for a single sequence"),
    MEAN("loss_q", q.loss, metric_loss_q, QUANTIZE_LOSS_Q),
    MEAN_INTERVAL("loss_q_interval", QUANTIZE_LOSS_Q, "nats",
                  "Likewise of loss_q; with several calibration draws those are drawn at random too, as for "
                  "delta_interval. What one model loses is delta: both losses vary with the sequences together"),
    {.name = "delta",
     .type = RESULT_NUMBER,
     .offset = REPORT(result.delta),
     .metric = &metric_delta,
     .spread = RESULT_BETWEEN,
     .spread_low = REPORT(result.delta_low),
     .spread_high = REPORT(result.delta_high)},
    {.name = "delta_interval",
     .type = RESULT_INTERVAL,
     .offset = REPORT(result.delta_low),
     .high = REPORT(result.delta_high),
     .help = "95 % interval of delta: the evaluation's sequences are what is drawn at random, with several calibration "
             "draws those too. interval_method says how. Null for a single sequence"},
    {.name = "interval_method",
     .type = RESULT_TEXT,
     .offset = REPORT(interval_method),
     .choices = interval_methods,
     .absence = RESULT_NULL,
     .later = true,
     .help = "How delta_interval was made. `student`, where (Σw)²/Σw², the number n of sequences if all are of one "
             "length, is below 64: delta ± t √V, t Student's of (Σw)²/Σw² − 1 degrees of freedom, "
             "V = (n − 1) / n · Σ(w (q − r f) / (1 − w / Σw))² / (Σ w f)² over sequences with losses f "
             "and q, w predictions and r = loss_q / loss_fp. `bootstrap`, from 64 on: percentiles of 2000 samples of "
             "sequences with replacement, f and q together. `student_draws`, with K > 1 calibration draws: V of the "
             "losses q averaged over the draws, plus delta_stddev² / K, and the mean of Student's t of these and of "
             "K − 1 degrees, weighted by these two terms (Cochran and Cox). Null without an interval"},
    MEAN("kl", kl, metric_kl, QUANTIZE_KL),
    MEAN_INTERVAL("kl_interval", QUANTIZE_KL, "nats", "95 % interval of kl, as that of loss_q"),
    MEAN("top1_agreement", top1_agreement, metric_top1_agreement, QUANTIZE_TOP1),
    MEAN_INTERVAL("top1_agreement_interval", QUANTIZE_TOP1, NULL,
                  "95 % interval of top1_agreement, as that of loss_q. Null also where all predictions agree, or none"),
    {.name = "bits_per_weight",
     .type = RESULT_NUMBER,
     .offset = REPORT(result.bits_per_weight),
     .metric = &metric_bits_per_weight},
    {.name = "model_bits_per_weight",
     .type = RESULT_NUMBER,
     .offset = REPORT(result.model_bits_per_weight),
     .later = true,
     .metric = &model_bits_metric},
    {.name = "sequences",
     .type = RESULT_INTEGER,
     .offset = REPORT(result.fp.sequences),
     .later = true,
     .help = "Of the evaluation"},
    {.name = "tokens",
     .type = RESULT_INTEGER,
     .offset = REPORT(result.fp.tokens),
     .later = true,
     .help = "Of the evaluation"},
    {.name = "calibration_sequences",
     .type = RESULT_INTEGER,
     .offset = REPORT(result.calibration_sequences),
     .later = true,
     .help = "0 without calibration"},
    {.name = "calibration_tokens",
     .type = RESULT_INTEGER,
     .offset = REPORT(result.calibration_tokens),
     .later = true,
     .help = "0 without calibration"},
    {.name = "layers",
     .type = RESULT_LIST,
     .offset = REPORT(layers),
     .count = REPORT(result.layer_count),
     .item = &layer_item,
     .help = "Every linear of the blocks, in the order of the model"},
    {.name = "artifact",
     .type = RESULT_TEXT,
     .offset = REPORT(artifact),
     .absence = RESULT_NULL,
     .help = "The weights of the export, among the artifacts of the run"},
    {.name = "export",
     .type = RESULT_OBJECT,
     .offset = REPORT(exported),
     .absence = RESULT_NULL,
     .has_when = true,
     .when = REPORT(was_exported),
     .later = true,
     .shape = &quantize_export_shape},
    {.name = "recipe_id",
     .type = RESULT_CHARS,
     .offset = REPORT(identity.recipe),
     .later = true,
     .help = "Hash of every field of the method in effect"},
    {.name = "recipe",
     .type = RESULT_TEXT,
     .offset = REPORT(recipe),
     .absence = RESULT_NULL,
     .later = true,
     .help = "The named recipe that it is"},
    {.name = "protocol_id",
     .type = RESULT_CHARS,
     .offset = REPORT(identity.protocol),
     .later = true,
     .help = "Hash of the evaluation tokens, their sequences and the arithmetic"},
    {.name = "calibration_id",
     .type = RESULT_TEXT,
     .offset = REPORT(calibration_id),
     .absence = RESULT_NULL,
     .later = true,
     .help =
         "Hash of the calibration tokens, their sequences and the number of draws; null where the method reads none. "
         "Curves never mix two of them"},
    {.name = "calibration_draws",
     .type = RESULT_OBJECT,
     .offset = REPORT(draws),
     .absence = RESULT_NULL,
     .has_when = true,
     .when = REPORT(several_draws),
     .later = true,
     .shape = &draws_shape},
    {.name = "calibration_overlap",
     .type = RESULT_OBJECT,
     .absence = RESULT_NULL,
     .has_when = true,
     .when = REPORT(has_overlap),
     .later = true,
     .shape = &overlap_shape},
    {.name = "degraded_layers",
     .type = RESULT_INTEGER,
     .offset = REPORT(degraded_layers),
     .later = true,
     .help = "Layers with `degraded`"},
    {.name = "undersampled_layers",
     .type = RESULT_INTEGER,
     .offset = REPORT(undersampled_layers),
     .later = true,
     .help = "Layers that fewer calibration tokens reached than they have columns: their Hessians lack rank"},
    METRIC_NOTE_FIELD(REPORT(note)),
    {0},
};

const struct result_shape quantize_report_shape = {.name = "QuantizeResult", .fields = report_fields};

/* --- Filling it ---- */

static void explain_layer(struct layer_report *layer, int64_t calibration_tokens)
{
    const struct layer_summary *summary = &layer->summary;
    if (summary->degraded == DEGRADED_NO) return;
    layer->degraded = layer->why;
    if (summary->degraded == DEGRADED_SILENT)
        layer->degraded = "rounded to nearest: its inputs are zero on every calibration token";
    else if (summary->degraded == DEGRADED_SINGULAR)
        layer->degraded = "rounded to nearest: the Hessian of its inputs has no factor even with damping 0.99";
    else
        (void)snprintf(layer->why, sizeof layer->why, "rounded to nearest: %lld of %lld calibration tokens reached it",
                       (long long)summary->tokens, (long long)calibration_tokens);
}

/* Layers where the method gave way, and layers that fewer tokens reached than they have inputs, so that their Hessians
 * lack rank. */
static void fill_layers(struct quantize_report *report)
{
    const struct quantize_result *result = &report->result;
    for (int64_t i = 0; i < result->layer_count; i++) {
        const struct layer_summary *summary = &result->layers[i];
        report->layers[i].summary = *summary;
        report->layers[i].has_dead = summary->dead_columns >= 0;
        explain_layer(&report->layers[i], result->calibration_tokens);
        report->degraded_layers += summary->degraded != DEGRADED_NO;
        report->undersampled_layers += result->calibration_tokens > 0 && summary->tokens < summary->columns;
    }
}

static void fill_note(struct quantize_report *report, bool on_heads)
{
    report->note = NULL;
    if (on_heads) {
        (void)snprintf(report->why, sizeof report->why, INPUTS_HEADS, (long long)report->result.calibration_sequences);
        report->note = report->why;
    }
    if (report->degraded_layers > 0) {
        (void)snprintf(report->why, sizeof report->why,
                       "%lld of %lld layers were rounded to nearest (\"degraded\" says why); calibrate on more",
                       (long long)report->degraded_layers, (long long)report->result.layer_count);
        report->note = report->why;
    }
    if (!isfinite(report->result.delta))
        report->note = "a loss is not finite: the model's outputs overflow or are not numbers";
}

/* Everything except layers and note. The metrics are measured from this. */
static struct quantize_report report_of(const struct quantize_findings *found, const struct quantize_identity *identity)
{
    const struct overlap *overlap = &found->overlap;
    const enum ratio_method method = found->result.delta_method;
    return (struct quantize_report){
        .result = found->result,
        .draws = found->draws,
        .several_draws = found->draws.count > 1,
        .overlap = *overlap,
        .has_overlap = overlap->windows > 0,
        .overlap_share = (double)overlap->overlapping / (double)overlap->windows,
        .identity = *identity,
        .calibration_id = identity->calibration.id[0] != '\0' ? identity->calibration.id : NULL,
        .interval_method = method == RATIO_NONE ? NULL : interval_methods[method - 1],
        .recipe = recipes_name(identity->recipe),
        .exported = found->exported,
        .was_exported = found->exported.format != NULL,
        .artifact = found->exported.format != NULL ? found->exported.artifact : NULL,
    };
}

json_t *quantize_report_render(const struct quantize_findings *found, const struct quantize_identity *identity)
{
    struct quantize_report report = report_of(found, identity);
    struct error unused;
    json_t *document = NULL;
    if (memory_new(found->result.layer_count, sizeof *report.layers, "a result", &report.layers, &unused) != STATUS_OK)
        return NULL;
    fill_layers(&report);
    fill_note(&report, found->calibrated_on_heads);
    if (result_render(&quantize_report_shape, &report, &document, &unused) != STATUS_OK) document = NULL;
    memory_free(report.layers);
    return document;
}

enum status quantize_report_measure(const struct quantize_params *params, const struct inputs *inputs,
                                    const struct quantize_identity *identity, const struct quantize_findings *found,
                                    struct measurements *out, struct error *error)
{
    const struct quantize_report report = report_of(found, identity);
    struct measurement series = measure_series(&inputs->row.id, identity->dataset, identity->protocol, &params->method);
    if (found->half_scales) method_label_marked(&params->method, " float16 scales", series.label);
    measure_calibrated(&series, &identity->calibration);
    return measure_result(&quantize_report_shape, &report, &series, out, error);
}
