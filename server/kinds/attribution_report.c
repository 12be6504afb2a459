#include "kinds/attribution_report.h"

#include "inputs/inputs.h"

#include <math.h>

static const struct result_metric additive_share_metric = {
    .name = "additive_share",
    .label = "Additive share of ΔQL",
    .help = "Sum of what each unit costs when it alone is quantized, of what the whole costs; the rest is interaction",
    .percent = true,
    .of_method = true,
};
static const struct result_field additive_fields[] = {
    {.name = "additive_share",
     .type = RESULT_NUMBER,
     .offset = offsetof(struct attribution_additive, share),
     .metric = &additive_share_metric},
    {0},
};
const struct result_shape attribution_report_additive = {.fields = additive_fields};
const struct result_shape *const attribution_report_measured[] = {&attribution_report_additive, NULL};

static json_t *interval(const struct attribution_number *number)
{
    if (!isfinite(number->delta_low) || !isfinite(number->delta_high)) return json_null();
    return json_pack("[ff]", number->delta_low, number->delta_high);
}

static double bits_per_weight(const struct attribution_number *number)
{
    return (double)number->bits / (double)number->weights;
}

static json_t *number_of(const struct attribution_number *number)
{
    return json_pack("{so so so so so so}", "loss_q", inputs_number(number->loss), "delta",
                     inputs_number(number->delta), "delta_interval", interval(number), "kl", inputs_number(number->kl),
                     "top1_agreement", inputs_number(number->top1_agreement), "bits_per_weight",
                     inputs_number(bits_per_weight(number)));
}

/* Bits that may be none: a method without a choice. */
static json_t *width_of(int64_t bits)
{
    return bits > 0 ? json_integer((json_int_t)bits) : json_null();
}

static json_t *unit_widths(const struct attribution_result *found, int64_t unit)
{
    json_t *list = json_array();
    for (int64_t w = 0; w < found->width_count; w++) {
        json_t *item = number_of(&found->alone[unit * found->width_count + w]);
        if (item != NULL) (void)json_object_set_new(item, "bits", width_of(found->widths[w]));
        (void)json_array_append_new(list, item);
    }
    return list;
}

/* What the whole gains without the unit, and what of that is not its own. */
static void add_left_out(const struct attribution_result *found, int64_t unit, json_t *item)
{
    const struct attribution_number *whole = &found->whole[found->own],
                                    *alone = &found->alone[unit * found->width_count + found->own];
    const bool there = found->left_out != NULL;
    const double marginal = there ? whole->delta - found->left_out[unit].delta : NAN;
    (void)json_object_set_new(item, "left_out", there ? number_of(&found->left_out[unit]) : json_null());
    (void)json_object_set_new(item, "marginal", inputs_number(marginal));
    (void)json_object_set_new(item, "interaction", inputs_number(marginal - alone->delta));
}

static json_t *units(const struct attribution_result *found)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < found->unit_count; i++) {
        const struct attribution_unit *unit = &found->units[i];
        const struct attribution_number *alone = &found->alone[i * found->width_count + found->own];
        json_t *item = json_pack("{ss sI sI so so so}", "name", unit->name, "layer", (json_int_t)unit->layer, "weights",
                                 (json_int_t)unit->weights, "alone", number_of(alone), "share",
                                 inputs_number(alone->delta / found->additive[found->own].delta_alone), "widths",
                                 unit_widths(found, i));
        if (item != NULL) add_left_out(found, i, item);
        (void)json_array_append_new(list, item);
    }
    return list;
}

static json_t *widths(const struct attribution_result *found)
{
    json_t *list = json_array();
    for (int64_t w = 0; w < found->width_count; w++) {
        const struct attribution_additive *sums = &found->additive[w];
        json_t *item = number_of(&found->whole[w]);
        if (item != NULL) {
            (void)json_object_set_new(item, "bits", width_of(found->widths[w]));
            (void)json_object_set_new(item, "delta_alone", inputs_number(sums->delta_alone));
            (void)json_object_set_new(item, "kl_alone", inputs_number(sums->kl_alone));
            (void)json_object_set_new(item, "additive_share", inputs_number(sums->share));
        }
        (void)json_array_append_new(list, item);
    }
    return list;
}

static json_t *point_of(const struct attribution_result *found, const struct attribution_point *point)
{
    return json_pack("{so so so so}", "bits_per_weight", inputs_number(point->bits_per_weight), "loss_q",
                     inputs_number(point->loss), "delta", inputs_number(point->loss / found->loss_fp - 1), "kl",
                     inputs_number(point->kl));
}

static json_t *frontier(const struct attribution_result *found)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < found->frontier_count; i++) {
        const struct attribution_point *point = &found->frontier[i];
        json_t *item = point_of(found, point);
        if (item != NULL) {
            (void)json_object_set_new(item, "unit",
                                      point->unit < 0 ? json_null() : json_string(found->units[point->unit].name));
            (void)json_object_set_new(item, "bits", json_integer((json_int_t)point->bits));
        }
        (void)json_array_append_new(list, item);
    }
    return list;
}

/* The allocation's overrides as they are posted: fields that change nothing are left out. */
static json_t *overrides(const struct attribution_overrides *from)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < from->count; i++)
        (void)json_array_append_new(
            list, json_pack("{ss sI}", "pattern", from->items[i].pattern, "bits", (json_int_t)from->items[i].bits));
    return list;
}

static enum status allocation(const struct attribution_report *report, json_t **out, struct error *error)
{
    const struct attribution_result *found = report->result;
    struct quantize_method method = report->request->method;
    char recipe[RECIPE_TEXT];
    *out = json_null();
    if (!found->allocated) return STATUS_OK;
    method.options.override_count = found->overrides->count;
    method.options.overrides = found->overrides->items;
    const enum status status = recipes_id(&method, recipe, error);
    if (status != STATUS_OK) return status;
    json_t *picked = json_object();
    for (int64_t i = 0; i < found->unit_count; i++)
        (void)json_object_set_new(picked, found->units[i].name, json_integer((json_int_t)found->picked[i]));
    *out =
        json_pack("{sf so so so so ss so}", "budget", report->request->budget, "predicted",
                  point_of(found, &found->predicted), "measured", number_of(&found->measured), "bits", picked,
                  "overrides", overrides(found->overrides), "recipe_id", recipe, "method", recipes_document(&method));
    return *out == NULL ? error_set(error, STATUS_NO_MEMORY, "no memory for a result") : STATUS_OK;
}

static void add_notes(const struct attribution_report *report, json_t *document)
{
    const struct attribution_result *found = report->result;
    json_t *note = NULL;
    bool finite = isfinite(found->loss_fp);
    for (int64_t i = 0; i < found->unit_count * found->width_count && finite; i++)
        finite = isfinite(found->alone[i].loss);
    for (int64_t w = 0; w < found->width_count && finite; w++) finite = isfinite(found->whole[w].loss);
    if (report->request->budget > 0 && !found->allocated)
        note = json_sprintf("no allocation: the least widths take %.6g bits per weight, the budget is %.6g",
                            found->least, report->request->budget);
    else if (!finite)
        note = json_string("a loss is not finite: the model's outputs overflow or are not numbers");
    if (note != NULL) (void)json_object_set_new(document, "note", note);
}

enum status attribution_report_result(const struct attribution_report *report, json_t **out, struct error *error)
{
    const struct attribution_result *found = report->result;
    const struct attribution_number *whole = &found->whole[found->own];
    const struct attribution_additive *sums = &found->additive[found->own];
    const struct sequences *calibration = report->request->calibration, *evaluation = report->request->evaluation;
    const char *recipe = recipes_name(report->recipe);
    json_t *document = number_of(whole), *allocated = NULL, *more;
    enum status status = allocation(report, &allocated, error);
    *out = NULL;
    if (status != STATUS_OK) goto done;
    more = json_pack(
        "{so sI sI sI sI so so so so so so so so sO ss ss so}", "loss_fp", inputs_number(found->loss_fp), "sequences",
        (json_int_t)evaluation->count, "tokens", (json_int_t)evaluation->starts[evaluation->count],
        "calibration_sequences", (json_int_t)(calibration == NULL ? 0 : calibration->count), "calibration_tokens",
        (json_int_t)found->calibration_tokens, "delta_alone", inputs_number(sums->delta_alone), "kl_alone",
        inputs_number(sums->kl_alone), "delta_marginal", inputs_number(sums->delta_marginal), "additive_share",
        inputs_number(sums->share), "interaction", inputs_number(whole->delta - sums->delta_alone), "units",
        units(found), "widths", widths(found), "frontier", frontier(found), "allocation", allocated, "recipe_id",
        report->recipe, "protocol_id", report->protocol, "recipe", recipe == NULL ? json_null() : json_string(recipe));
    if (document == NULL || more == NULL || json_object_update(document, more) != 0) {
        status = error_set(error, STATUS_NO_MEMORY, "no memory for a result");
    } else {
        add_notes(report, document);
        *out = document;
        document = NULL;
    }
    json_decref(more);
done:
    json_decref(allocated);
    json_decref(document);
    return status;
}
