#include "jobs/tasks/tasks_plan.h"

void tasks_plan_asking(const struct tasks_list *list, const struct tasks_asking *asking,
                       const struct likelihood *likelihood, struct run_plan *group)
{
    const struct tasks_request *request = list->request;
    for (int m = asking->first; m < asking->end; m++) {
        const bool full = m == TASKS_FULL;
        const int64_t treated =
            list->copied.treated_bytes + list->copied.token_bytes * likelihood->forest.chunks.largest;
        likelihood_plan(likelihood, request->model, request->backend, full ? 0 : treated, group);
        group->read_bytes += full ? weights_bytes(request->model->weights) : list->copied.stored_bytes;
    }
}

static enum status add_group(struct tasks_list *list, struct run_plan *groups, struct error *error)
{
    const struct tasks_request *request = list->request;
    struct tasks_asking askings[TASKS_MODELS];
    const int count = tasks_list_askings(list, askings);
    struct run_plan group = {.flops = 0};
    enum status status = STATUS_OK;
    for (int i = 0; i < count && status == STATUS_OK; i++) {
        struct likelihood likelihood = {0};
        status = likelihood_init(&likelihood, &list->texts, askings[i].apart, &request->model->config, request->backend,
                                 error);
        if (status == STATUS_OK) tasks_plan_asking(list, &askings[i], &likelihood, &group);
        likelihood_reset(&likelihood);
    }
    plan_add(groups, &group, 1);
    return status;
}

/* A group's rows are saved when it is done, and may be saved once before when that takes long. */
static enum status add_all(struct tasks_list *list, struct run_plan *out, struct error *error)
{
    struct run_plan groups = {.flops = 0};
    const int64_t items = list->item_count;
    int64_t saves = 0;
    enum status status = STATUS_OK;
    for (int64_t first = 0; first < items && status == STATUS_OK; first += list->count, saves++) {
        status = tasks_list_group(list, first, error);
        if (status == STATUS_OK) status = add_group(list, &groups, error);
    }
    saved_table_plan(items, tasks_list_row_width(list), list->request->work_directory != NULL ? saves : 0, out);
    plan_take(out, PLAN_HOST,
              PLAN_SMALL_BYTES + items * (int64_t)(sizeof *list->indices + sizeof(struct tasks_outcome)));
    if (list->request->method != NULL) {
        plan_add(out, &list->copied.plan, 1);
        for (int space = 0; space < PLAN_SPACES; space++)
            plan_take(out, (enum plan_space)space, list->copied.plan.live[space]);
    }
    plan_add(out, &groups, 1);
    return status;
}

enum status tasks_plan(const struct tasks_request *request, const struct plan_budget *budget, struct run_plan *out,
                       struct error *error)
{
    struct tasks_list list;
    *out = (struct run_plan){.flops = 0};
    enum status status = tasks_list_new(request, &list, error);
    if (status == STATUS_OK) status = tasks_list_plan_copy(&list, budget, error);
    if (status == STATUS_OK) status = add_all(&list, out, error);
    tasks_list_reset(&list);
    return status;
}
