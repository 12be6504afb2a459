#include "kinds/attribution_table.h"

#include "kinds/metric.h"

#define QUANTIZATION(field) offsetof(struct quantization, field)

static const struct result_field quantization_fields[] = {
    {.name = "loss_q",
     .type = RESULT_NUMBER,
     .offset = QUANTIZATION(number.loss),
     .metric = &metric_loss_q,
     .unkept = true},
    {.name = "delta",
     .type = RESULT_NUMBER,
     .offset = QUANTIZATION(number.delta),
     .metric = &metric_delta,
     .unkept = true,
     .spread = RESULT_BETWEEN,
     .spread_low = QUANTIZATION(number.delta_low),
     .spread_high = QUANTIZATION(number.delta_high)},
    {.name = "delta_interval",
     .type = RESULT_INTERVAL,
     .offset = QUANTIZATION(number.delta_low),
     .high = QUANTIZATION(number.delta_high),
     .help = "95 % interval over sequences, made like delta_interval of a quantize run"},
    {.name = "kl", .type = RESULT_NUMBER, .offset = QUANTIZATION(number.kl), .metric = &metric_kl, .unkept = true},
    {.name = "top1_agreement",
     .type = RESULT_NUMBER,
     .offset = QUANTIZATION(number.top1_agreement),
     .metric = &metric_top1_agreement,
     .unkept = true},
    {.name = "bits_per_weight",
     .type = RESULT_NUMBER,
     .offset = QUANTIZATION(bits_per_weight),
     .metric = &metric_bits_per_weight,
     .unkept = true,
     .help = "Of what is quantized, scales and zero points included"},
    {0},
};
static const struct result_shape quantization_shape = {
    .name = "Quantization",
    .help = "What one quantization of the model, or of a part of it, gave; as in QuantizeResult",
    .fields = quantization_fields};

#define PREDICTION(field) offsetof(struct prediction, field)

static const struct result_field prediction_fields[] = {
    {.name = "bits_per_weight",
     .type = RESULT_NUMBER,
     .offset = PREDICTION(bits_per_weight),
     .finite = true,
     .unit = "bits",
     .help = "Of what is quantized, scales and zero points included"},
    {.name = "loss_q",
     .type = RESULT_NUMBER,
     .offset = PREDICTION(loss),
     .unit = "nats",
     .help = "Full precision, and what each unit adds alone"},
    {.name = "delta", .type = RESULT_NUMBER, .offset = PREDICTION(delta), .help = "loss_q / loss_fp − 1"},
    {.name = "kl",
     .type = RESULT_NUMBER,
     .offset = PREDICTION(kl),
     .unit = "nats",
     .help = "Sum of the units' divergences alone"},
    {0},
};
static const struct result_shape prediction_shape = {
    .name = "Prediction", .help = "Full precision and what each unit adds alone", .fields = prediction_fields};

#define WIDTH(field) offsetof(struct width_report, field)

static const struct result_field unit_width_fields[] = {
    {.type = RESULT_MERGED, .offset = WIDTH(quantization), .shape = &quantization_shape},
    {.name = "bits",
     .type = RESULT_INTEGER,
     .offset = WIDTH(bits),
     .absence = RESULT_NULL,
     .has_when = true,
     .when = WIDTH(has_bits),
     .unit = "bits",
     .help = "The width; null for methods that have no choice"},
    {0},
};
static const struct result_shape unit_width_shape = {.fields = unit_width_fields, .size = sizeof(struct width_report)};
static const struct result_field unit_width_item = {.type = RESULT_OBJECT, .shape = &unit_width_shape};

/* The whole model at one width, beside the sums over units. */
static const struct result_field width_fields[] = {
    {.type = RESULT_MERGED, .shape = &unit_width_shape},
    {.name = "delta_alone",
     .type = RESULT_NUMBER,
     .offset = WIDTH(sums.delta_alone),
     .help = "Sum of `delta` over the units alone"},
    {.name = "kl_alone",
     .type = RESULT_NUMBER,
     .offset = WIDTH(sums.kl_alone),
     .unit = "nats",
     .help = "Sum of `kl` over the units alone"},
    {.name = "additive_share", .type = RESULT_NUMBER, .offset = WIDTH(sums.share), .help = "delta_alone / delta"},
    {0},
};
static const struct result_shape width_shape = {.fields = width_fields, .size = sizeof(struct width_report)};
static const struct result_field width_item = {.type = RESULT_OBJECT, .shape = &width_shape};

#define UNIT(field) offsetof(struct unit_report, field)

static const struct result_field unit_fields[] = {
    {.name = "name", .type = RESULT_TEXT, .offset = UNIT(name), .help = "Of the module; a star stands for all experts"},
    {.name = "layer", .type = RESULT_INTEGER, .offset = UNIT(layer), .help = "Its block, counted from 0"},
    {.name = "weights", .type = RESULT_INTEGER, .offset = UNIT(weights), .help = "Numbers in its matrices"},
    {.name = "alone",
     .type = RESULT_OBJECT,
     .offset = UNIT(alone),
     .shape = &quantization_shape,
     .help = "Only this unit quantized"},
    {.name = "share", .type = RESULT_NUMBER, .offset = UNIT(share), .help = "alone.delta / delta_alone"},
    {.name = "widths",
     .type = RESULT_ARRAY,
     .offset = UNIT(widths),
     .count = UNIT(width_count),
     .item = &unit_width_item,
     .help = "The unit alone at each width"},
    {.name = "left_out",
     .type = RESULT_OBJECT,
     .offset = UNIT(left_out),
     .absence = RESULT_NULL,
     .has_when = true,
     .when = UNIT(was_left_out),
     .shape = &quantization_shape,
     .help = "All but this unit quantized"},
    {.name = "marginal",
     .type = RESULT_NUMBER,
     .offset = UNIT(marginal),
     .help = "delta − left_out.delta: what the whole gains without the unit. What lies behind it is rounded otherwise "
             "too, and all units share the luck of the whole"},
    {.name = "interaction", .type = RESULT_NUMBER, .offset = UNIT(interaction), .help = "marginal − alone.delta"},
    {0},
};
static const struct result_shape unit_shape = {.fields = unit_fields, .size = sizeof(struct unit_report)};
static const struct result_field unit_item = {.type = RESULT_OBJECT, .shape = &unit_shape};

#define FRONTIER(field) offsetof(struct frontier_report, field)

static const struct result_field frontier_fields[] = {
    {.type = RESULT_MERGED, .offset = FRONTIER(prediction), .shape = &prediction_shape},
    {.name = "unit",
     .type = RESULT_TEXT,
     .offset = FRONTIER(unit),
     .absence = RESULT_NULL,
     .help = "Which step led here; null for the first point"},
    {.name = "bits",
     .type = RESULT_INTEGER,
     .offset = FRONTIER(bits),
     .unit = "bits",
     .help = "Its width from here on"},
    {0},
};
static const struct result_shape frontier_shape = {.fields = frontier_fields, .size = sizeof(struct frontier_report)};
static const struct result_field frontier_item = {.type = RESULT_OBJECT, .shape = &frontier_shape};

#define OVERRIDE(field) offsetof(struct quantize_override, field)

static const struct result_field override_fields[] = {
    {.name = "pattern", .type = RESULT_TEXT, .offset = OVERRIDE(pattern), .help = "Of names of modules"},
    {.name = "bits", .type = RESULT_INTEGER, .offset = OVERRIDE(bits), .unit = "bits", .help = "Their width"},
    {0},
};
static const struct result_shape override_shape = {.fields = override_fields, .size = sizeof(struct quantize_override)};
static const struct result_field override_item = {.type = RESULT_OBJECT, .shape = &override_shape};
static const struct result_field picked_item = {.type = RESULT_INTEGER, .offset = UNIT(picked)};

#define ALLOCATION(field) offsetof(struct allocation_report, field)

static const struct result_field allocation_fields[] = {
    {.name = "budget",
     .type = RESULT_NUMBER,
     .offset = ALLOCATION(budget),
     .finite = true,
     .unit = "bits per weight",
     .help = "As it was asked for"},
    {.name = "predicted", .type = RESULT_OBJECT, .offset = ALLOCATION(predicted), .shape = &prediction_shape},
    {.name = "measured", .type = RESULT_OBJECT, .offset = ALLOCATION(measured), .shape = &quantization_shape},
    {.name = "bits",
     .type = RESULT_MAP,
     .offset = ALLOCATION(units),
     .count = ALLOCATION(unit_count),
     .key = UNIT(name),
     .stride = sizeof(struct unit_report),
     .item = &picked_item,
     .unit = "bits",
     .help = "Width by unit"},
    {.name = "overrides",
     .type = RESULT_LIST,
     .offset = ALLOCATION(overrides),
     .count = ALLOCATION(override_count),
     .item = &override_item,
     .help = "The same as a method has it"},
    {.name = "recipe_id",
     .type = RESULT_CHARS,
     .offset = ALLOCATION(recipe),
     .help = "Hash of every field of the method with these overrides"},
    {.name = "method",
     .type = RESULT_DOCUMENT,
     .offset = ALLOCATION(method),
     .help = "The method with these overrides; post it to `quantize`"},
    {0},
};
static const struct result_shape allocation_shape = {
    .help = "Widths for each unit under the budget; null without one, or where it is too small",
    .fields = allocation_fields};

static const struct result_metric additive_share_metric = {
    .name = "additive_share",
    .label = "Additive share of ΔQL",
    .axis = "units' own ΔQL, of the whole",
    .help = "Sum of what each unit costs when it alone is quantized, of what the whole costs; the rest is interaction",
    .format = RESULT_PERCENT,
    .of_method = true,
};

#define REPORT(field) offsetof(struct attribution_report, field)

static const struct result_field report_fields[] = {
    {.type = RESULT_MERGED, .offset = REPORT(whole), .shape = &quantization_shape},
    {.name = "loss_fp", .type = RESULT_NUMBER, .offset = REPORT(loss_fp), .metric = &metric_loss_fp, .unkept = true},
    {.name = "sequences", .type = RESULT_INTEGER, .offset = REPORT(sequences), .help = "Of the evaluation"},
    {.name = "tokens", .type = RESULT_INTEGER, .offset = REPORT(tokens), .help = "Of the evaluation"},
    {.name = "calibration_sequences",
     .type = RESULT_INTEGER,
     .offset = REPORT(calibration_sequences),
     .help = "0 without calibration"},
    {.name = "calibration_tokens",
     .type = RESULT_INTEGER,
     .offset = REPORT(calibration_tokens),
     .help = "0 without calibration"},
    {.name = "delta_alone",
     .type = RESULT_NUMBER,
     .label = "ΔQL of units alone, summed",
     .format = RESULT_PERCENT,
     .offset = REPORT(sums.delta_alone),
     .help = "Sum of `delta` over the units alone"},
    {.name = "kl_alone",
     .type = RESULT_NUMBER,
     .label = "KL of units alone, summed",
     .format = RESULT_DIGITS,
     .offset = REPORT(sums.kl_alone),
     .unit = "nats",
     .help = "Sum of `kl` over the units alone"},
    {.name = "delta_marginal",
     .type = RESULT_NUMBER,
     .label = "Lost without each, summed",
     .format = RESULT_PERCENT,
     .absence = RESULT_NULL,
     .offset = REPORT(sums.delta_marginal),
     .help = "Sum of `marginal` over the units; null unless they were left out"},
    {.name = "additive_share",
     .type = RESULT_NUMBER,
     .offset = REPORT(sums.share),
     .metric = &additive_share_metric,
     .help = "delta_alone / delta"},
    {.name = "interaction",
     .type = RESULT_NUMBER,
     .label = "Interaction (ΔQL)",
     .format = RESULT_PERCENT,
     .offset = REPORT(interaction),
     .help = "delta − delta_alone"},
    {.name = "units",
     .type = RESULT_LIST,
     .offset = REPORT(units),
     .count = REPORT(unit_count),
     .item = &unit_item,
     .help = "By layer, in the order in which a run quantizes them"},
    {.name = "widths",
     .type = RESULT_ARRAY,
     .offset = REPORT(widths),
     .count = REPORT(width_count),
     .item = &width_item,
     .help = "Everything quantized at each width, and the sums of the units alone"},
    {.name = "frontier",
     .type = RESULT_LIST,
     .offset = REPORT(frontier),
     .count = REPORT(frontier_count),
     .item = &frontier_item,
     .help = "By ascending bits, from all units at the least width: each point takes `unit` to `bits`, the best step "
             "for its bits. Empty for one width"},
    {.name = "allocation",
     .type = RESULT_OBJECT,
     .offset = REPORT(allocation),
     .absence = RESULT_NULL,
     .has_when = true,
     .when = REPORT(allocated),
     .shape = &allocation_shape},
    {.name = "recipe_id",
     .type = RESULT_TEXT,
     .offset = REPORT(recipe_id),
     .help = "Hash of every field of the method in effect"},
    {.name = "protocol_id",
     .type = RESULT_TEXT,
     .offset = REPORT(protocol_id),
     .help = "Hash of the evaluation tokens, their sequences and the arithmetic"},
    {.name = "recipe",
     .type = RESULT_TEXT,
     .offset = REPORT(recipe),
     .absence = RESULT_NULL,
     .help = "The named recipe that it is"},
    METRIC_NOTE_FIELD(REPORT(note)),
    {0},
};

const struct result_shape attribution_table_shape = {
    .name = "AttributionResult",
    .help = "The whole quantized with the method, and what its parts add",
    .fields = report_fields,
};
