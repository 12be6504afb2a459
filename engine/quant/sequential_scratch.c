#include "quant/sequential_scratch.h"

#include "base/memory.h"
#include "quant/cuts.h"

int64_t sequential_scratch_widest(const struct model *model)
{
    int64_t widest = 0;
    for (int64_t layer = 0; layer < model->config.layers; layer++) {
        const struct program *program = &model->programs[layer];
        for (int i = 0; i < program->parameter_count; i++)
            if (program->parameters[i].linear && program->parameters[i].columns > widest)
                widest = program->parameters[i].columns;
    }
    return widest;
}

/* Number of experts that are collected together: as many as their statistics take no more memory than a block's
 * weights; the others need further passes. `routed` is their width, 0 without experts. */
static int64_t collectors_of(const struct model *model, int64_t *routed)
{
    const struct program *program = &model->programs[0];
    int64_t block = 0, count = 1;
    *routed = 0;
    for (int i = 0; i < program->step_count; i++)
        if (program->steps[i].op == &op_experts &&
            program->parameters[program->steps[i].parameter[0]].columns > *routed)
            *routed = program->parameters[program->steps[i].parameter[0]].columns;
    for (int i = 0; i < program->parameter_count; i++)
        block += program->parameters[i].rows * program->parameters[i].columns;
    if (*routed > 0)
        count =
            block / (*routed * *routed) < model->config.experts ? block / (*routed * *routed) : model->config.experts;
    return count < 1 ? 1 : count;
}

static enum status collectors_new(struct sequential_scratch *scratch, const struct model *model, unsigned needs,
                                  int64_t tokens, struct error *error)
{
    int64_t routed;
    const int64_t widest = sequential_scratch_widest(model), count = collectors_of(model, &routed);
    enum status status =
        memory_new(count, sizeof *scratch->collectors, "input statistics", &scratch->collectors, error);
    for (int64_t i = 0; i < count && status == STATUS_OK; i++) {
        scratch->collector_count = i + 1;
        status =
            statistics_init(&scratch->collectors[i], scratch->backend, needs, i == 0 ? widest : routed, tokens, error);
    }
    return status;
}

static int64_t held_width(const struct model *model, int64_t budget_width)
{
    struct cuts cuts;
    int64_t widest = 0;
    for (int64_t layer = 0; layer < model->config.layers; layer++) {
        cuts_plan(&model->programs[layer], budget_width, &cuts);
        for (int i = 0; i < cuts.count; i++)
            if (cuts.cuts[i].held && cuts.cuts[i].live_width > widest) widest = cuts.cuts[i].live_width;
    }
    return widest;
}

void sequential_scratch_plan(const struct model *model, const struct backend *backend, unsigned needs, int64_t tokens,
                             int64_t hold_bytes, struct run_plan *plan)
{
    const int64_t element = (int64_t)backend->ops->element, widest = sequential_scratch_widest(model);
    int64_t routed;
    const int64_t count = collectors_of(model, &routed);
    for (int64_t i = 0; i < count; i++) statistics_plan(backend, needs, i == 0 ? widest : routed, plan);
    plan_take(plan, backend_space(backend), tokens * held_width(model, hold_bytes / tokens / element) * element);
}

enum status sequential_scratch_init(struct sequential_scratch *scratch, const struct model *model,
                                    struct backend *backend, unsigned needs, int64_t tokens, int64_t hold_bytes,
                                    struct error *error)
{
    *scratch = (struct sequential_scratch){.backend = backend};
    scratch->budget_width = hold_bytes / tokens / (int64_t)backend->ops->element;
    scratch->held_width = held_width(model, scratch->budget_width);
    const enum status status = collectors_new(scratch, model, needs, tokens, error);
    if (status != STATUS_OK) return status;
    return backend->ops->allocate(backend, tokens * scratch->held_width, "activations between layers", &scratch->held,
                                  error);
}

void sequential_scratch_reset(struct sequential_scratch *scratch)
{
    for (int64_t i = 0; i < scratch->collector_count; i++) statistics_reset(&scratch->collectors[i]);
    memory_free(scratch->collectors);
    if (scratch->held != NULL) scratch->backend->ops->release(scratch->backend, scratch->held);
    *scratch = (struct sequential_scratch){0};
}
