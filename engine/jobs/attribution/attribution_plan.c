#include "jobs/attribution/attribution_plan.h"

#include "jobs/attribution/attribution_numbers.h"

struct pricing {
    const struct attribution_list *list;
    const struct plan_budget *budget;
    int64_t hold_bytes;
    struct quantize_planner planner;
    struct run_plan *plan;
};

/* Adds the bytes that are live while the streams of a quantization are shown. */
static void add_shown(struct run_plan *plan, const struct quantize_choice *choice)
{
    for (int space = 0; space < PLAN_SPACES; space++) plan_take(plan, (enum plan_space)space, choice->shown[space]);
}

static void remove_shown(struct run_plan *plan, const struct quantize_choice *choice)
{
    for (int space = 0; space < PLAN_SPACES; space++) plan_give(plan, (enum plan_space)space, choice->shown[space]);
}

/* The full-precision hidden states, which stay until the end. */
static void add_hidden(struct pricing *pricing)
{
    const struct attribution_request *request = pricing->list->request;
    plan_take(pricing->plan, backend_space(request->backend),
              pricing->planner.pass.evaluation.tokens * request->model->config.hidden_size *
                  (int64_t)request->backend->ops->element);
}

/* The plan of a quantization does not depend on its width, so that one plan serves all widths of an entry. */
static struct quantize_choice add_own(struct pricing *pricing, const struct attribution_entry *entry)
{
    const struct quantize_handover handover = attribution_list_handover(pricing->list, entry);
    struct attribution_quantization asked;
    struct quantize_choice choice;
    struct run_plan one;
    attribution_list_quantization(pricing->list, entry, entry->width, &asked);
    asked.request.hold_bytes = pricing->hold_bytes;
    quantize_planner_plan(&pricing->planner, &asked.request, &handover, pricing->budget, &choice, &one);
    plan_add(pricing->plan, &one, entry->width_count);
    return choice;
}

static void add_entry(struct pricing *pricing, const struct attribution_entry *entry)
{
    const struct quantize_choice choice = add_own(pricing, entry);
    if (!attribution_list_handover(pricing->list, entry).shown) return;
    add_shown(pricing->plan, &choice);
    if (entry->target == ATTRIBUTION_FULL_PRECISION) add_hidden(pricing);
    for (int64_t i = 1; i <= entry->children; i++) (void)add_own(pricing, entry + i);
    remove_shown(pricing->plan, &choice);
}

static void add_all(struct pricing *pricing)
{
    const struct attribution_list *list = pricing->list;
    struct run_plan *plan = pricing->plan;
    *plan = (struct run_plan){.at_most = list->request->budget > 0};
    attribution_numbers_plan(list, plan);
    plan_take(plan, PLAN_HOST, list->whole * (int64_t)sizeof(struct attribution_number));
    plan_take(plan, PLAN_HOST, list->units->unit_count * (int64_t)sizeof(struct attribution_unit));
    for (int64_t i = 0; i < list->count; i += 1 + list->entries[i].children) add_entry(pricing, &list->entries[i]);
}

/* Activations are held between linears as usual or, where that does not fit, as few as can be. */
enum status attribution_plan_choose(const struct attribution_list *list, const struct plan_budget *budget,
                                    int64_t *hold_bytes, struct run_plan *out, struct error *error)
{
    static const int64_t choices[] = {0, 1};
    const struct quantize_request texts = {.model = list->request->model,
                                           .backend = list->request->backend,
                                           .method = list->request->method,
                                           .calibration = list->request->calibration,
                                           .evaluation = list->request->evaluation};
    struct pricing pricing = {.list = list, .budget = budget, .plan = out};
    *out = (struct run_plan){.flops = 0};
    const enum status status = quantize_planner_init(&texts, &pricing.planner, error);
    for (int i = 0; i < 2 && status == STATUS_OK; i++) {
        *hold_bytes = pricing.hold_bytes = choices[i];
        add_all(&pricing);
        if (plan_fits(out, budget)) break;
    }
    quantize_planner_reset(&pricing.planner);
    return status;
}

enum status attribution_plan(const struct attribution_request *request, const struct plan_budget *budget,
                             struct run_plan *out, struct error *error)
{
    struct attribution_result units = {0};
    struct attribution_list list;
    int64_t hold_bytes = 0;
    *out = (struct run_plan){.flops = 0};
    enum status status = attribution_list_new(request, &units, &list, error);
    if (status == STATUS_OK) status = attribution_plan_choose(&list, budget, &hold_bytes, out, error);
    attribution_list_reset(&list);
    attribution_result_reset(&units);
    return status;
}
