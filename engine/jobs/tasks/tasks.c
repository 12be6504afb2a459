#include "jobs/tasks/tasks.h"

#include "base/memory.h"
#include "jobs/tasks/tasks_plan.h"

#include <stdlib.h>

struct execution {
    const struct tasks_request *request;
    struct tasks_result *out;
    struct tasks_list list;
    struct quantized_copy copy;
    struct run_plan group;         /* what the group in work needs */
    double *answers[TASKS_MODELS]; /* [texts of the group] */
};

/* ---- a group ---- */

static enum status memory_check(const struct execution *execution, struct error *error)
{
    const struct tasks_request *request = execution->request;
    struct plan_budget budget;
    for (bool again = true; again;) {
        budget = backend_budget(request->backend, request->work_directory);
        const enum status status =
            backend_claim(request->backend, execution->group.peak[PLAN_DEVICE], request->monitor, &again, error);
        if (status != STATUS_OK) return status;
    }
    if (plan_fits(&execution->group, &budget)) return STATUS_OK;
    return plan_refuse(&execution->group, &budget, "give it fewer shots, or more memory (--memory, --device-memory)",
                       error);
}

static enum status likelihood_ask(struct execution *execution, const struct tasks_asking *asking,
                                  struct likelihood *likelihood, struct error *error)
{
    const struct tasks_request *request = execution->request;
    const struct monitor quiet = {.owner = request->monitor == NULL ? NULL : request->monitor->owner,
                                  .check = request->monitor == NULL ? NULL : request->monitor->check};
    struct likelihood_products products;
    enum status status = memory_check(execution, error);
    for (int m = asking->first; m < asking->end && status == STATUS_OK; m++) {
        const bool full = m == TASKS_FULL;
        status = likelihood_run(likelihood, full ? request->model : execution->copy.model, request->backend,
                                full ? NULL : quantized_copy_products(&execution->copy, &products), &quiet,
                                execution->answers[m], error);
    }
    return status;
}

static enum status group_ask(struct execution *execution, const struct tasks_asking *asking, struct error *error)
{
    const struct tasks_request *request = execution->request;
    struct likelihood likelihood = {0};
    enum status status = likelihood_init(&likelihood, &execution->list.texts, asking->apart, &request->model->config,
                                         request->backend, error);
    if (status == STATUS_OK) {
        tasks_plan_asking(&execution->list, asking, &likelihood, &execution->group);
        status = likelihood_ask(execution, asking, &likelihood, error);
    }
    likelihood_reset(&likelihood);
    return status;
}

static enum status answers_reserve(struct execution *execution, struct error *error)
{
    const int64_t texts = execution->list.texts.count;
    for (int m = 0; m < execution->list.models; m++) {
        double *grown = realloc(execution->answers[m], (size_t)(texts + 1) * sizeof *grown);
        if (grown == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for %lld texts", (long long)texts);
        execution->answers[m] = grown;
    }
    return STATUS_OK;
}

static enum status group_run(struct execution *execution, struct error *error)
{
    struct tasks_asking askings[TASKS_MODELS];
    const int count = tasks_list_askings(&execution->list, askings);
    enum status status = answers_reserve(execution, error);
    execution->group = (struct run_plan){.flops = 0};
    for (int i = 0; i < count && status == STATUS_OK; i++) status = group_ask(execution, &askings[i], error);
    return status;
}

/* Writes the group's rows at once: the next attempt begins with a whole group, as an uninterrupted run does. */
static enum status group_keep(struct execution *execution, struct error *error)
{
    const struct tasks_list *list = &execution->list;
    int64_t text = 0;
    for (int64_t i = 0; i < list->count; i++) {
        double *row = list->rows + i * tasks_list_row_width(list);
        const int choices = tasks_list_prompt(list, &list->indices[list->first + i])->choices;
        for (int choice = 0; choice < choices; choice++, text++)
            for (int m = 0; m < list->models; m++) row[m * TASK_CHOICES + choice] = execution->answers[m][text];
        if (i == 0) row[list->models * TASK_CHOICES + TASKS_ROW_COMPUTED] = (double)execution->group.tokens;
        saved_table_put(&execution->out->table, row);
    }
    return saved_table_save(&execution->out->table, error);
}

static enum status groups_run(struct execution *execution, struct error *error)
{
    const struct monitor *monitor = execution->request->monitor;
    struct saved_table *table = &execution->out->table;
    enum status status = STATUS_OK;
    monitor_progress(monitor, table->done, table->rows, "item");
    while (table->done < table->rows && status == STATUS_OK) {
        status = tasks_list_group(&execution->list, table->done, error);
        if (status == STATUS_OK) status = group_run(execution, error);
        if (status == STATUS_OK) status = group_keep(execution, error);
        if (status == STATUS_OK) execution->out->flops += execution->group.flops;
        if (status == STATUS_OK) monitor_progress(monitor, table->done, table->rows, "item");
    }
    return status;
}

/* ---- all of it ---- */

static enum status copy_open(struct execution *execution, struct error *error)
{
    const struct tasks_request *request = execution->request;
    const struct plan_budget budget = backend_budget(request->backend, request->work_directory);
    struct tasks_list *list = &execution->list;
    enum status status = tasks_list_plan_copy(list, &budget, error);
    if (status != STATUS_OK || request->method == NULL) return status;
    const struct quantized_copy_request copy = tasks_list_copy(list);
    status = quantized_copy_open(&copy, &execution->copy, error);
    list->across_text = execution->copy.across_text;
    execution->out->bits_per_weight = execution->copy.bits_per_weight;
    execution->out->flops += list->copied.plan.flops;
    return status;
}

static void outcome_make(const struct execution *execution, int64_t i, struct tasks_outcome *out)
{
    const struct tasks_list *list = &execution->list;
    const struct tasks_item_index *index = &list->indices[i];
    const struct prompt *prompt = tasks_list_prompt(list, index);
    const double *row = execution->out->table.values + i * tasks_list_row_width(list);
    *out = (struct tasks_outcome){.set = index->set, .item = index->item, .log_likelihoods = row, .gold = prompt->gold};
    for (int m = 0; m < list->models; m++) {
        out->choice[m] = tasks_score_choice(row + m * TASK_CHOICES, NULL, prompt->choices);
        out->choice_normalised[m] = tasks_score_choice(row + m * TASK_CHOICES, prompt->characters, prompt->choices);
    }
}

static enum status summarise(struct execution *execution, struct error *error)
{
    const struct tasks_request *request = execution->request;
    const struct tasks_list *list = &execution->list;
    struct tasks_result *out = execution->out;
    enum status status;
    if ((status = memory_new(out->item_count, sizeof *out->outcomes, "outcomes", &out->outcomes, error)) != STATUS_OK ||
        (status = memory_new(out->set_count, sizeof *out->scores, "scores", &out->scores, error)) != STATUS_OK)
        return status;
    for (int64_t i = 0; i < out->item_count; i++) {
        const double *extras = out->table.values + i * tasks_list_row_width(list) + list->models * TASK_CHOICES;
        outcome_make(execution, i, &out->outcomes[i]);
        out->tokens_alone += (int64_t)extras[TASKS_ROW_ALONE];
        out->tokens_computed += (int64_t)extras[TASKS_ROW_COMPUTED];
        out->cut += (int64_t)extras[TASKS_ROW_CUT];
    }
    for (int64_t s = 0, first = 0; s < out->set_count; first += request->sets[s++]->item_count)
        tasks_score_make(out->outcomes + first, request->sets[s]->item_count, out->models,
                         request->sets[s]->task->normalised, &out->scores[s]);
    tasks_score_mean(out->scores, out->set_count, &out->mean);
    return STATUS_OK;
}

static enum status table_open(struct execution *execution, struct error *error)
{
    const struct tasks_request *request = execution->request;
    struct tasks_result *out = execution->out;
    out->item_count = execution->list.item_count;
    const enum status status =
        saved_table_open(request->work_directory, "items.table", request->fingerprint, out->item_count,
                         tasks_list_row_width(&execution->list), &out->table, error);
    if (status == STATUS_OK && out->table.done > 0)
        monitor_log(request->monitor, "%lld of %lld items were answered before", (long long)out->table.done,
                    (long long)out->item_count);
    return status;
}

enum status tasks_run(const struct tasks_request *request, struct tasks_result *out, struct error *error)
{
    struct execution execution = {.request = request, .out = out};
    enum status status = tasks_list_new(request, &execution.list, error);
    *out = (struct tasks_result){.models = execution.list.models, .set_count = request->set_count};
    if (status == STATUS_OK) status = table_open(&execution, error);
    if (status == STATUS_OK) status = copy_open(&execution, error);
    if (status == STATUS_OK) status = groups_run(&execution, error);
    if (status == STATUS_OK) status = summarise(&execution, error);
    quantized_copy_reset(&execution.copy);
    tasks_list_reset(&execution.list);
    for (int m = 0; m < TASKS_MODELS; m++) free(execution.answers[m]);
    if (status != STATUS_OK) tasks_result_reset(out);
    return status;
}

void tasks_result_reset(struct tasks_result *result)
{
    memory_free(result->outcomes);
    memory_free(result->scores);
    saved_table_reset(&result->table);
    *result = (struct tasks_result){0};
}
