#include "kinds/attribution_report.h"

#include "base/memory.h"
#include "kinds/attribution_table.h"
#include "kinds/measure.h"
#include "schema/result_render.h"

#include <math.h>
#include <stdio.h>

static struct quantization quantization_of(const struct attribution_number *number)
{
    return (struct quantization){*number, (double)number->bits / (double)number->weights};
}

static struct prediction prediction_of(const struct attribution_result *found, const struct attribution_point *point)
{
    return (struct prediction){point->bits_per_weight, point->loss, point->loss / found->loss_fp - 1, point->kl};
}

static void fill_width(struct width_report *width, const struct attribution_number *number, int64_t bits)
{
    width->quantization = quantization_of(number);
    width->bits = bits;
    width->has_bits = bits > 0;
}

static void fill_unit(const struct attribution_result *found, int64_t index, struct unit_report *unit)
{
    const struct attribution_unit *from = &found->units[index];
    const struct attribution_number *alone = &found->alone[index * found->width_count];
    const bool left_out = found->left_out != NULL;
    const double marginal = left_out ? found->whole[found->own].delta - found->left_out[index].delta : NAN;
    *unit = (struct unit_report){
        .name = from->name,
        .layer = from->layer,
        .weights = from->weights,
        .width_count = found->width_count,
        .picked = found->allocated ? found->picked[index] : 0,
        .alone = quantization_of(&alone[found->own]),
        .was_left_out = left_out,
        .share = alone[found->own].delta / found->additive[found->own].delta_alone,
        .marginal = marginal,
        .interaction = marginal - alone[found->own].delta,
    };
    if (left_out) unit->left_out = quantization_of(&found->left_out[index]);
    for (int64_t w = 0; w < found->width_count; w++) fill_width(&unit->widths[w], &alone[w], found->widths[w]);
}

/* Writes the first note that applies, which a reader must know. */
static void fill_note(const struct attribution_findings *findings, struct attribution_report *report)
{
    const struct attribution_result *found = findings->result;
    bool finite = isfinite(found->loss_fp);
    for (int64_t i = 0; i < found->unit_count * found->width_count && finite; i++)
        finite = isfinite(found->alone[i].loss);
    for (int64_t w = 0; w < found->width_count && finite; w++) finite = isfinite(found->whole[w].loss);
    if (findings->request->budget > 0 && !found->allocated) {
        (void)snprintf(report->why, sizeof report->why,
                       "no allocation: the least widths take %.6g bits per weight, the budget is %.6g", found->least,
                       findings->request->budget);
        report->note = report->why;
    } else if (!finite) {
        report->note = "a loss is not finite: the model's outputs overflow or are not numbers";
    }
}

static enum status fill_allocation(const struct attribution_findings *findings, struct attribution_report *report,
                                   struct error *error)
{
    const struct attribution_result *found = findings->result;
    struct quantize_method method = findings->request->method;
    struct allocation_report *out = &report->allocation;
    report->allocated = found->allocated;
    if (!found->allocated) return STATUS_OK;
    *out = (struct allocation_report){
        .budget = findings->request->budget,
        .predicted = prediction_of(found, &found->predicted),
        .measured = quantization_of(&found->measured),
        .units = report->units,
        .unit_count = report->unit_count,
        .overrides = found->overrides->items,
        .override_count = found->overrides->count,
    };
    method.options.override_count = out->override_count;
    method.options.overrides = out->overrides;
    const enum status status = recipes_id(&method, out->recipe, error);
    if (status != STATUS_OK) return status;
    out->method = recipes_document(&method);
    return out->method == NULL ? error_set(error, STATUS_NO_MEMORY, "no memory for a result") : STATUS_OK;
}

static void fill_numbers(const struct attribution_findings *findings, struct attribution_report *report)
{
    const struct attribution_result *found = findings->result;
    const struct sequences *calibration = findings->request->calibration, *evaluation = findings->request->evaluation;
    *report = (struct attribution_report){
        .whole = quantization_of(&found->whole[found->own]),
        .loss_fp = found->loss_fp,
        .sequences = evaluation->count,
        .tokens = evaluation->starts[evaluation->count],
        .calibration_sequences = calibration == NULL ? 0 : calibration->count,
        .calibration_tokens = found->calibration_tokens,
        .sums = found->additive[found->own],
        .interaction = found->whole[found->own].delta - found->additive[found->own].delta_alone,
        .unit_count = found->unit_count,
        .width_count = found->width_count,
        .frontier_count = found->frontier_count,
        .recipe_id = findings->recipe,
        .recipe = recipes_name(findings->recipe),
        .protocol_id = findings->protocol,
    };
    for (int64_t w = 0; w < found->width_count; w++) {
        fill_width(&report->widths[w], &found->whole[w], found->widths[w]);
        report->widths[w].sums = found->additive[w];
    }
}

static enum status fill_lists(const struct attribution_result *found, struct attribution_report *report,
                              struct error *error)
{
    enum status status = memory_new(found->unit_count, sizeof *report->units, "a result", &report->units, error);
    if (status == STATUS_OK)
        status = memory_new(found->frontier_count, sizeof *report->frontier, "a result", &report->frontier, error);
    if (status != STATUS_OK) return status;
    for (int64_t i = 0; i < found->unit_count; i++) fill_unit(found, i, &report->units[i]);
    for (int64_t i = 0; i < found->frontier_count; i++) {
        const struct attribution_point *point = &found->frontier[i];
        const char *unit = point->unit < 0 ? NULL : found->units[point->unit].name;
        report->frontier[i] = (struct frontier_report){prediction_of(found, point), unit, point->bits};
    }
    return STATUS_OK;
}

enum status attribution_report_make(const struct attribution_findings *findings, const struct measurement *series,
                                    json_t **result, struct measurements *out, struct error *error)
{
    struct attribution_report report;
    enum status status;
    fill_numbers(findings, &report);
    fill_note(findings, &report);
    status = fill_lists(findings->result, &report, error);
    if (status == STATUS_OK) status = fill_allocation(findings, &report, error);
    if (status == STATUS_OK) status = measure_result(&attribution_table_shape, &report, series, out, error);
    if (status == STATUS_OK) status = result_render(&attribution_table_shape, &report, result, error);
    json_decref(report.allocation.method);
    memory_free(report.frontier);
    memory_free(report.units);
    return status;
}
