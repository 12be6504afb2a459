#include "jobs/export/export_plan.h"

#include "base/memory.h"
#include "base/words.h"
#include "model/architecture.h"
#include "quant/overrides.h"

#include <stdlib.h>
#include <string.h>

/* ---- the linears and their grids ---- */

struct linear {
    const struct parameter *parameter;
    int64_t block;
    bool skipped; /* an override leaves it as it is */
    struct export_grid grid;
};

static const char *module_of(const char *name, char out[PARAMETER_NAME])
{
    static const char ending[] = ".weight";
    const size_t length = strlen(name), tail = sizeof ending - 1;
    const bool cut = length > tail && strcmp(name + length - tail, ending) == 0;
    (void)snprintf(out, PARAMETER_NAME, "%.*s", (int)(cut ? length - tail : length), name);
    return out;
}

/* Columns of the widest linear. */
static int64_t widest_row(const struct model *model)
{
    int64_t widest = 0;
    for (int64_t block = 0; block < model->config.layers; block++) {
        const struct program *program = &model->programs[block];
        for (int i = 0; i < program->parameter_count; i++)
            if (program->parameters[i].linear && program->parameters[i].columns > widest)
                widest = program->parameters[i].columns;
    }
    return widest;
}

/* For formats with a list of groups: a group that holds whole rows of all linears is -1. */
static void name_whole_rows(const struct export_format *format, int64_t widest, struct export_grid *grid)
{
    if (format->groups != NULL && grid->group_size >= widest) grid->group_size = -1;
}

static enum status each_linear(const struct export_format *format, const struct model *model,
                               const struct quantize_method *method,
                               enum status (*each)(void *, const struct linear *, struct error *), void *owner,
                               struct error *error)
{
    struct overrides *overrides = NULL;
    enum status status = overrides_new(method, &overrides, error);
    const int64_t widest = widest_row(model);
    for (int64_t block = 0; block < model->config.layers && status == STATUS_OK; block++) {
        const struct program *program = &model->programs[block];
        for (int i = 0; i < program->parameter_count && status == STATUS_OK; i++) {
            struct linear linear = {.parameter = &program->parameters[i], .block = block};
            struct quantize_method applied;
            int64_t index = OVERRIDES_NONE;
            if (!linear.parameter->linear) continue;
            if ((status = overrides_find(overrides, linear.parameter->name, &index, error)) != STATUS_OK) break;
            linear.skipped = overrides_apply(overrides, index, &applied);
            if (format->check != NULL) status = export_format_grid(&applied, &linear.grid, error);
            name_whole_rows(format, widest, &linear.grid);
            if (status == STATUS_OK) status = each(owner, &linear, error);
        }
    }
    overrides_free(overrides);
    return status;
}

/* ---- whether the format can store them ---- */

struct fitting {
    const struct export_format *format;
    struct export_grid grid;
};

static enum status check_groups(const struct export_format *format, int64_t group_size, const char *module,
                                struct error *error)
{
    char list[120] = "";
    for (const int64_t *group = format->groups; group != NULL && *group != 0; group++) {
        if (*group == group_size) return STATUS_OK;
        words_add(list, sizeof list, "%lld", (long long)*group);
    }
    if (format->groups == NULL) return STATUS_OK;
    return error_set_at(error, STATUS_UNSUPPORTED, "/export",
                        "readers of \"%s\" have groups of %s columns, and %s has groups of %lld: take one of these, or "
                        "use \"compressed-tensors\" or \"dequantized\"",
                        format->name, list, module, (long long)group_size);
}

static enum status fits(void *owner, const struct linear *linear, struct error *error)
{
    const struct fitting *fitting = owner;
    const struct export_format *format = fitting->format;
    const struct parameter *parameter = linear->parameter;
    char module[PARAMETER_NAME];
    enum status status;
    if (linear->skipped) return STATUS_OK;
    (void)module_of(parameter->name, module);
    if (!export_format_same(&linear->grid, &fitting->grid)) {
        if (!format->mixed)
            return error_set_at(
                error, STATUS_UNSUPPORTED, "/export",
                "\"%s\" has one grid for all layers, and an override gives %s another: overrides may only skip "
                "modules; use \"gptq\", \"compressed-tensors\", \"gguf\" or \"dequantized\"",
                format->name, module);
        if ((status = format->check(&linear->grid, error)) != STATUS_OK) return status;
    }
    if ((status = check_groups(format, linear->grid.group_size, module, error)) != STATUS_OK) return status;
    return format->fits(&linear->grid, module, parameter->rows, parameter->columns, error);
}

static enum status check_architecture(const struct export_format *format, const struct model *model,
                                      struct error *error)
{
    const struct architecture *architecture = model->config.architecture;
    const char *reason = NULL;
    if (format->describe != NULL) {
        const enum status status = gguf_names_check(model, error);
        return status == STATUS_OK ? status : error_set_at(error, status, "/export", "%s", error->detail);
    }
    if (architecture->block != BLOCK_ATTENTION)
        reason = "its readers use the weights of state space models directly, which packed modules have not";
    else if (architecture->transposed && !format->transposed)
        reason = "its readers replace linear modules only, and these are Conv1D";
    else if (architecture->names[ROLE_ROUTER] != NULL && !format->experts)
        reason = "its readers have all experts in one parameter, not in linear modules";
    if (reason == NULL) return STATUS_OK;
    return error_set_at(error, STATUS_UNSUPPORTED, "/export",
                        "layers of %s are not packed as \"%s\": %s; use \"dequantized\"", architecture->model_type,
                        format->name, reason);
}

struct skipping {
    const struct model *model;
    bool *skipped; /* [tensors] */
};

static enum status note_skipped(void *owner, const struct linear *linear, struct error *error)
{
    const struct skipping *skipping = owner;
    const int64_t tensor = weights_find(skipping->model->weights, linear->parameter->name);
    if (tensor < 0) return error_set(error, STATUS_INTERNAL, "tensor \"%s\" is not there", linear->parameter->name);
    skipping->skipped[tensor] = linear->skipped;
    return STATUS_OK;
}

static enum status fold_new(const struct export_format *format, const struct model *model,
                            const struct quantize_method *method, struct export_fold **out, struct error *error)
{
    struct skipping skipping = {.model = model};
    *out = NULL;
    enum status status =
        memory_new(weights_count(model->weights), sizeof(bool), "tensor list", &skipping.skipped, error);
    if (status == STATUS_OK) status = each_linear(format, model, method, note_skipped, &skipping, error);
    if (status == STATUS_OK)
        status =
            export_fold_new(model, skipping.skipped, method->awq.scale_o_proj == AWQ_SCALE_O_PROJ_ALWAYS, out, error);
    memory_free(skipping.skipped);
    return status;
}

enum status export_plan_check(int id, const struct quantize_method *method, const struct model *model,
                              struct error *error)
{
    struct fitting fitting = {.format = export_format_by_id(id)};
    enum status status = export_format_check(fitting.format, method, &fitting.grid, error);
    if (status != STATUS_OK || fitting.format->fits == NULL) return status;
    name_whole_rows(fitting.format, widest_row(model), &fitting.grid);
    if ((status = check_architecture(fitting.format, model, error)) != STATUS_OK) return status;
    status = each_linear(fitting.format, model, method, fits, &fitting, error);
    if (status != STATUS_OK || !fitting.grid.column_scales) return status;
    struct export_fold *fold;
    status = fold_new(fitting.format, model, method, &fold, error);
    export_fold_free(fold);
    return status;
}

/* ---- the plan ---- */

/* The prefix of module names as readers know them: files may omit it, modules never do. */
static const char *prefix_of(const struct export_plan *plan)
{
    const struct architecture *architecture = plan->model->config.architecture;
    return plan->format->configure != NULL && plan->model->config.bare_names && architecture->prefix != NULL
               ? architecture->prefix
               : "";
}

static void add_module(struct export_plan *plan, const char *name, const struct export_grid *grid)
{
    char module[PARAMETER_NAME];
    const int64_t at = plan->module_count++;
    (void)snprintf(plan->module_names[at], PARAMETER_NAME, "%s%s", prefix_of(plan), module_of(name, module));
    plan->modules[at] = (struct export_module){.name = plan->module_names[at], .grid = grid};
}

static enum status find_layer(void *owner, const struct linear *linear, struct error *error)
{
    struct export_plan *plan = owner;
    const char *name = linear->parameter->name;
    const int64_t index = weights_find(plan->model->weights, name);
    if (index < 0) return error_set(error, STATUS_INTERNAL, "tensor \"%s\" is not there", name);
    struct export_item *item = &plan->items[index];
    item->grid = linear->grid;
    item->grid.stored = plan->grid.stored;
    item->block = linear->block;
    if (!linear->skipped) item->layer = linear->parameter;
    add_module(plan, name, linear->skipped ? NULL : &item->grid);
    return STATUS_OK;
}

/* Finds linear modules that no method quantizes, so that readers do not expect them to be packed. */
static void find_others(struct export_plan *plan)
{
    static const enum role roles[] = {ROLE_PROJECT_IN, ROLE_PROJECT_OUT, ROLE_ROUTER, ROLE_STATE_STEP};
    const struct architecture *architecture = plan->model->config.architecture;
    char name[PARAMETER_NAME];
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        const char *template = architecture->names[roles[i]], *place = template == NULL ? NULL : strstr(template, "%d");
        const int64_t count = template == NULL ? 0 : place == NULL ? 1 : plan->model->config.layers;
        const int head = place == NULL ? 0 : (int)(place - template);
        for (int64_t layer = 0; layer < count; layer++) {
            if (place == NULL)
                (void)snprintf(name, sizeof name, "%s.weight", template);
            else
                (void)snprintf(name, sizeof name, "%.*s%lld%s.weight", head, template, (long long)layer, place + 2);
            const int64_t tensor = weights_find(plan->model->weights, name);
            if (tensor >= 0 && plan->items[tensor].layer == NULL) add_module(plan, name, NULL);
        }
    }
}

static void find_name(void *owner, int64_t tensor, const char *name, int64_t head_rows)
{
    struct export_item *item = &((struct export_plan *)owner)->items[tensor];
    (void)snprintf(item->name, sizeof item->name, "%s", name);
    item->head_rows = head_rows;
}

/* The dtype as other tools read it: no 64 bits, no blocks; float32 for divided tensors and for the vectors of GGUF. */
static enum dtype stored_dtype(const struct export_plan *plan, int64_t index, const struct weights_tensor *tensor)
{
    const bool divided = plan->fold != NULL && export_fold_divides(plan->fold, index);
    const bool vector = plan->format->describe != NULL && tensor->rank == 1;
    const bool wide = tensor->dtype == DTYPE_F64 || dtype_info(tensor->dtype)->block > 1;
    return plan->format->write == NULL || divided || vector || wide ? DTYPE_F32 : tensor->dtype;
}

static void plan_layer(struct export_plan *plan, struct export_item *item, const char *name)
{
    struct export_tensor parts[EXPORT_TENSORS];
    char module[PARAMETER_NAME];
    item->count = plan->format->tensors(&item->grid, item->layer->rows, item->layer->columns, parts);
    for (int64_t i = 0; i < item->count; i++) {
        const int64_t at = plan->entry_count++;
        (void)snprintf(plan->names[at], EXPORT_PLAN_NAME, "%s%s.%s", prefix_of(plan), module_of(name, module),
                       parts[i].suffix);
        memcpy(plan->shapes[at], parts[i].shape, sizeof parts[i].shape);
        plan->entries[at] =
            (struct safetensors_entry){plan->names[at], parts[i].dtype, parts[i].rank, plan->shapes[at]};
    }
}

static void plan_tensor(struct export_plan *plan, int64_t index)
{
    struct export_item *item = &plan->items[index];
    struct weights_tensor tensor;
    weights_tensor(plan->model->weights, index, &tensor);
    const bool named = plan->format->describe == NULL || item->name[0] != '\0';
    item->first = dtype_info(tensor.dtype)->to_f32 == NULL || !named ? -1 : plan->entry_count;
    item->count = 1;
    if (item->first < 0) return;
    const char *name = item->name[0] != '\0' ? item->name : tensor.name, *prefix = prefix_of(plan);
    if (item->layer != NULL && plan->format->write != NULL) {
        plan_layer(plan, item, name);
        return;
    }
    const struct architecture *architecture = plan->model->config.architecture;
    const char *output = architecture->names[ROLE_OUTPUT];
    const bool outside = output != NULL && strncmp(name, output, strlen(output)) == 0;
    const int64_t at = plan->entry_count++;
    if (prefix[0] != '\0' && !outside) {
        (void)snprintf(plan->names[at], EXPORT_PLAN_NAME, "%s%s", prefix, name);
        name = plan->names[at];
    }
    plan->entries[at] = (struct safetensors_entry){name, stored_dtype(plan, index, &tensor), tensor.rank, tensor.shape};
}

enum status export_plan_init(struct export_plan *plan, int id, const struct quantize_method *method,
                             const struct model *model, struct error *error)
{
    const int64_t tensors = weights_count(model->weights), most = tensors * EXPORT_TENSORS + 1;
    enum status status;
    *plan = (struct export_plan){.format = export_format_by_id(id), .model = model, .tensors = tensors};
    if ((status = export_plan_check(id, method, model, error)) != STATUS_OK) return status;
    if ((status = export_format_check(plan->format, method, &plan->grid, error)) != STATUS_OK) return status;
    name_whole_rows(plan->format, widest_row(model), &plan->grid);
    plan->grid.stored = weights_dtype(model->weights, NULL);
    if (plan->grid.column_scales && (status = fold_new(plan->format, model, method, &plan->fold, error)) != STATUS_OK)
        return status;
    if ((status = memory_new(tensors, sizeof *plan->items, "tensor list", &plan->items, error)) != STATUS_OK ||
        (status = memory_new(most, sizeof *plan->entries, "tensor list", &plan->entries, error)) != STATUS_OK ||
        (status = memory_new(most, sizeof *plan->names, "tensor list", &plan->names, error)) != STATUS_OK ||
        (status = memory_new(most, sizeof *plan->shapes, "tensor list", &plan->shapes, error)) != STATUS_OK ||
        (status = memory_new(tensors, sizeof *plan->modules, "tensor list", &plan->modules, error)) != STATUS_OK ||
        (status = memory_new(tensors, sizeof *plan->module_names, "tensor list", &plan->module_names, error)) !=
            STATUS_OK)
        return status;
    if ((status = each_linear(plan->format, model, method, find_layer, plan, error)) != STATUS_OK) return status;
    find_others(plan);
    if (plan->format->describe != NULL) gguf_names_each(model, find_name, plan);
    for (int64_t i = 0; i < tensors; i++) plan_tensor(plan, i);
    return STATUS_OK;
}

void export_plan_reset(struct export_plan *plan)
{
    export_fold_free(plan->fold);
    memory_free(plan->items);
    memory_free(plan->entries);
    memory_free(plan->names);
    memory_free(plan->shapes);
    memory_free(plan->modules);
    memory_free(plan->module_names);
    *plan = (struct export_plan){0};
}

enum status export_plan_configuration(const struct export_plan *plan, char **out, struct error *error)
{
    char output[PARAMETER_NAME];
    size_t size = 0;
    const char *given = plan->model->config.architecture->names[ROLE_OUTPUT];
    FILE *stream = open_memstream(out, &size);
    if (stream == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a configuration");
    (void)snprintf(output, sizeof output, "%s", given != NULL ? given : "lm_head");
    const struct export_modules modules = {plan->modules, plan->module_count, output};
    plan->format->configure(&plan->grid, &modules, stream);
    return fclose(stream) == 0 ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "no memory for a configuration");
}
