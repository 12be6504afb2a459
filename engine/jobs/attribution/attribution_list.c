#include "jobs/attribution/attribution_list.h"

#include "base/memory.h"

/* ---- the entries ---- */

static void add(struct attribution_list *list, struct attribution_entry entry)
{
    list->entries[list->count++] = entry;
}

static void add_streams(struct attribution_list *list)
{
    add(list, (struct attribution_entry){.target = ATTRIBUTION_FULL_PRECISION,
                                         .unit = -1,
                                         .width = list->units->own,
                                         .width_count = 1,
                                         .row = -1,
                                         .last = list->rows - 1});
    add(list, (struct attribution_entry){.target = ATTRIBUTION_UNQUANTIZED,
                                         .unit = -1,
                                         .width = list->units->own,
                                         .width_count = 1,
                                         .row = -1,
                                         .last = list->left_out - 1,
                                         .children = list->units->unit_count});
}

static void add_alone(struct attribution_list *list, int64_t unit)
{
    const int64_t widths = list->units->width_count, row = unit * widths;
    add(list,
        (struct attribution_entry){
            .target = ATTRIBUTION_ALONE, .unit = unit, .width_count = widths, .row = row, .last = row + widths - 1});
}

/* One quantization at one width. */
static void add_one(struct attribution_list *list, enum attribution_target target, int64_t unit, int64_t width,
                    int64_t row)
{
    add(list, (struct attribution_entry){
                  .target = target, .unit = unit, .width = width, .width_count = 1, .row = row, .last = row});
}

static void add_all(struct attribution_list *list)
{
    const struct attribution_result *units = list->units;
    add_streams(list);
    for (int64_t unit = 0; unit < units->unit_count; unit++) add_alone(list, unit);
    add_one(list, ATTRIBUTION_ALL, -1, units->own, list->whole);
    list->entries[list->count - 1].children = list->whole - list->left_out;
    for (int64_t row = list->left_out; row < list->whole; row++)
        add_one(list, ATTRIBUTION_LEFT_OUT, row - list->left_out, units->own, row);
    for (int64_t width = 0, row = list->others; width < units->width_count; width++)
        if (width != units->own) add_one(list, ATTRIBUTION_ALL, -1, width, row++);
    if (list->allocation < list->rows) add_one(list, ATTRIBUTION_ALLOCATION, -1, units->own, list->allocation);
}

/* ---- units, widths and rows ---- */

static enum status units_find(const struct attribution_request *request, struct attribution_result *out,
                              struct error *error)
{
    enum status status;
    if ((status = attribution_check(request, error)) != STATUS_OK ||
        (status = attribution_widths(request, out, error)) != STATUS_OK)
        return status;
    if ((status = evaluate_check(&request->model->config, request->evaluation, "evaluation", error)) != STATUS_OK)
        return status;
    status = attribution_units_new(request->model, request->part, &out->units, &out->unit_count, error);
    if (status != STATUS_OK || request->budget <= 0) return status;
    return attribution_units_check(out->units, out->unit_count, out->width_count, error);
}

enum status attribution_list_new(const struct attribution_request *request, struct attribution_result *out,
                                 struct attribution_list *list, struct error *error)
{
    enum status status;
    *list = (struct attribution_list){.request = request, .units = out};
    if ((status = units_find(request, out, error)) != STATUS_OK) return status;
    list->left_out = out->unit_count * out->width_count;
    list->whole = list->left_out + (request->left_out ? out->unit_count : 0);
    list->others = list->whole + 1;
    list->allocation = list->others + out->width_count - 1;
    list->rows = list->allocation + (request->budget > 0);
    if ((status = memory_new(list->left_out, sizeof *out->alone, "measurements", &out->alone, error)) != STATUS_OK)
        return status;
    if (request->left_out && (status = memory_new(out->unit_count, sizeof *out->left_out, "measurements",
                                                  &out->left_out, error)) != STATUS_OK)
        return status;
    /* an entry has one row or more, but for the two that are run for their streams only */
    if ((status = memory_new(list->rows + 2, sizeof *list->entries, "quantizations", &list->entries, error)) !=
        STATUS_OK)
        return status;
    add_all(list);
    return STATUS_OK;
}

void attribution_list_reset(struct attribution_list *list)
{
    memory_free(list->entries);
    *list = (struct attribution_list){0};
}

/* ---- an entry as a quantization ---- */

struct quantize_handover attribution_list_handover(const struct attribution_list *list,
                                                   const struct attribution_entry *entry)
{
    const bool full_precision = entry->target == ATTRIBUTION_FULL_PRECISION;
    return (struct quantize_handover){.lent = !full_precision,
                                      .shown = full_precision || entry->children > 0,
                                      .start = entry->unit < 0 ? -1 : list->units->units[entry->unit].layer};
}

static struct quantize_request request_of(const struct attribution_request *request)
{
    return (struct quantize_request){
        .model = request->model,
        .backend = request->backend,
        .method = request->method,
        .calibration = request->calibration,
        .evaluation = request->evaluation,
        .seed = request->seed,
    };
}

/* Its hidden states depend on the model and the evaluation alone, so that a baseline of them can be shared with other
 * runs: any method will do that calibrates nothing and leaves inputs and embeddings as they are. */
static void full_precision(const struct attribution_request *request, struct quantize_request *out)
{
    out->method =
        (struct quantize_method){.quantizer = QUANTIZER_RTN, .rtn = {.bits = 8, .group_size = -1, .sym = true}};
    out->calibration = NULL;
    out->baseline = request->baseline;
}

static struct quantize_override *next_item(struct attribution_quantization *out)
{
    return &out->items[out->request.method.options.override_count++];
}

static void skip(struct attribution_quantization *out, const char *pattern)
{
    *next_item(out) = (struct quantize_override){.pattern = pattern, .skip = true};
}

void attribution_list_quantization(const struct attribution_list *list, const struct attribution_entry *entry,
                                   int64_t width, struct attribution_quantization *out)
{
    const struct attribution_result *units = list->units;
    const struct attribution_unit *unit = entry->unit < 0 ? NULL : &units->units[entry->unit];
    const bool alone = entry->target == ATTRIBUTION_ALONE;
    out->request = request_of(list->request);
    if (entry->target == ATTRIBUTION_FULL_PRECISION) full_precision(list->request, &out->request);
    struct quantize_options *options = &out->request.method.options;
    options->overrides = out->items;
    if (entry->target == ATTRIBUTION_ALLOCATION && units->allocated) {
        options->override_count = units->overrides->count;
        options->overrides = units->overrides->items;
        return;
    }
    if (unit != NULL) {
        attribution_units_pattern(unit, alone, out->pattern);
        skip(out, out->pattern);
    } else if (entry->target == ATTRIBUTION_FULL_PRECISION || entry->target == ATTRIBUTION_UNQUANTIZED) {
        skip(out, ".");
    }
    if (width != units->own) *next_item(out) = (struct quantize_override){.pattern = ".", .bits = units->widths[width]};
    if (alone) out->request.idle_from = unit->layer + 1;
}
