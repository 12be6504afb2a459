#include "kinds/tasks_report.h"

#include "base/memory.h"
#include "inputs/inputs.h"
#include "kinds/measure.h"
#include "kinds/tasks_table.h"
#include "schema/result_render.h"
#include "json/written.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the result ---- */

static void fill_score(const char *name, const struct tasks_score *score, int models, struct tasks_table_score *out)
{
    (void)snprintf(out->name, sizeof out->name, "%s", name);
    out->items = score->items;
    out->plain = (struct tasks_table_measure){score->plain, models > 1};
    const bool compared = models > 1 && !isnan(score->normalised.accuracy[TASKS_FULL].value); /* false when the accuracy
                                                                                               * is a mean of no
                                                                                               * items */
    out->normalised = (struct tasks_table_measure){score->normalised, compared};
}

/* Scores the outcomes of set `s` that `wanted` selects (a subject or a group of subjects), and appends the scores
 * unless there are none. */
static enum status fill_part(const struct tasks_report *report, int64_t s, const char *name,
                             bool (*wanted)(const struct task_set *set, int64_t subject, const char *name),
                             struct tasks_table_score *list, int64_t *listed, struct error *error)
{
    const struct tasks_result *result = report->result;
    const struct task_set *set = report->request->sets[s];
    struct tasks_outcome *some = calloc((size_t)set->item_count + 1, sizeof *some);
    struct tasks_score score;
    int64_t count = 0;
    enum status status = some == NULL ? error_set(error, STATUS_NO_MEMORY, "no memory for a result") : STATUS_OK;
    for (int64_t i = 0; i < result->item_count && status == STATUS_OK; i++) {
        const struct tasks_outcome *outcome = &result->outcomes[i];
        if (outcome->set == s && wanted(set, set->items[outcome->item].subject, name)) some[count++] = *outcome;
    }
    if (status == STATUS_OK && count > 0) {
        tasks_score_make(some, count, result->models, set->task->normalised, &score);
        fill_score(name, &score, result->models, &list[(*listed)++]);
    }
    free(some);
    return status;
}

static bool is_subject(const struct task_set *set, int64_t subject, const char *name)
{
    char full[128];
    task_set_name(set, subject, full, sizeof full);
    return strcmp(full, name) == 0;
}

static bool in_group(const struct task_set *set, int64_t subject, const char *name)
{
    const char *group = task_subject_group(set->subjects[subject].name);
    return group != NULL && strcmp(group, name) == 0;
}

static enum status fill_subjects(const struct tasks_report *report, int64_t s, struct tasks_table_task *task,
                                 struct error *error)
{
    static const char *const groups[] = {"stem", "other", "social_sciences", "humanities"};
    const int64_t group_count = sizeof groups / sizeof groups[0];
    const struct task_set *set = report->request->sets[s];
    if (set->task->subject == NULL) return STATUS_OK;
    enum status status = memory_new(group_count, sizeof *task->groups, "a result", &task->groups, error);
    if (status == STATUS_OK)
        status = memory_new(set->subject_count, sizeof *task->subjects, "a result", &task->subjects, error);
    for (int64_t g = 0; g < group_count && status == STATUS_OK; g++)
        status = fill_part(report, s, groups[g], in_group, task->groups, &task->group_count, error);
    for (int64_t i = 0; i < set->subject_count && status == STATUS_OK; i++) {
        char name[128];
        task_set_name(set, i, name, sizeof name);
        status = fill_part(report, s, name, is_subject, task->subjects, &task->subject_count, error);
    }
    return status;
}

static enum status fill_tasks(const struct tasks_report *report, struct tasks_table *table, struct error *error)
{
    static const char *const metrics[] = {"acc", "acc_norm"};
    const struct tasks_result *result = report->result;
    enum status status = memory_new(result->set_count, sizeof *table->tasks, "a result", &table->tasks, error);
    if (status == STATUS_OK) table->task_count = result->set_count;
    for (int64_t s = 0; s < table->task_count && status == STATUS_OK; s++) {
        const struct task_param *param = &report->tasks[s];
        struct tasks_table_task *task = &table->tasks[s];
        fill_score(task_table[param->name].name, &result->scores[s], result->models, &task->score);
        task->metrics = metrics;
        task->metric_count = task_table[param->name].normalised ? 2 : 1;
        task->shots = report->shots;
        task->sha256 = param->sha256;
        task->fewshot_sha256 = report->shots > 0 ? param->fewshot_sha256 : NULL;
        status = fill_subjects(report, s, task, error);
    }
    return status;
}

static struct tasks_table table_of(const struct tasks_report *report)
{
    const struct tasks_result *result = report->result;
    struct tasks_table table = {
        .protocol = report->protocol,
        .item_count = result->item_count,
        .tokens_computed = result->tokens_computed,
        .tokens_alone = result->tokens_alone * result->models,
        .truncated = result->cut,
        .bits_per_weight = result->bits_per_weight,
        .quantized = result->models > 1,
    };
    fill_score("", &result->mean, result->models, &table.mean);
    return table;
}

enum status tasks_report_result(const struct tasks_report *report, json_t **out, struct error *error)
{
    struct tasks_table table = table_of(report);
    enum status status = fill_tasks(report, &table, error);
    if (status == STATUS_OK) status = result_render(&tasks_table_shape, &table, out, error);
    for (int64_t s = 0; s < table.task_count; s++) {
        memory_free(table.tasks[s].groups);
        memory_free(table.tasks[s].subjects);
    }
    memory_free(table.tasks);
    return status;
}

/* ---- curves ---- */

static struct measurement series_of(const struct tasks_report *report, const char *task, const char *protocol)
{
    char dataset[128];
    (void)snprintf(dataset, sizeof dataset, "%s%s%d-shot", task, task[0] != '\0' ? " " : "", report->shots);
    struct measurement series = measure_series(&report->checkpoint, dataset, protocol, NULL);
    (void)snprintf(series.method, sizeof series.method, "%s", report->method);
    (void)snprintf(series.label, sizeof series.label, "%s", report->label);
    series.bits = report->bits;
    measure_calibrated(&series, &report->calibration);
    return series;
}

/* What was asked and how, and in which arithmetic, which ids of f32 do not say; the file of items is identified by its
 * hash. */
static enum status protocol_of(const struct tasks_report *report, int64_t s, char out[24], struct error *error)
{
    const struct task_param *param = &report->tasks[s];
    char sha256[HASH_TEXT];
    json_t *all = json_pack("[s s s? i I b]", task_names[param->name], param->sha256,
                            report->shots > 0 ? param->fewshot_sha256 : NULL, report->shots,
                            (json_int_t)report->result->scores[s].items, report->request->special_tokens);
    const bool complete =
        all != NULL && (report->precision == PRECISION_F32 ||
                        json_array_append_new(all, json_string(inputs_precisions[report->precision])) == 0);
    const enum status status =
        complete ? hash_json(all, sha256, error) : error_set(error, STATUS_NO_MEMORY, "no memory for a result");
    if (status == STATUS_OK) (void)snprintf(out, 24, "%.16s", sha256);
    json_decref(all);
    return status;
}

enum status tasks_report_measure(const struct tasks_report *report, struct measurements *out, struct error *error)
{
    const struct tasks_table table = table_of(report);
    struct measurement series = series_of(report, "", report->protocol);
    enum status status = measure_result(&tasks_table_shape, &table, &series, out, error);
    for (int64_t s = 0; s < report->result->set_count && status == STATUS_OK; s++) {
        struct tasks_table_score score;
        char protocol[24];
        if ((status = protocol_of(report, s, protocol, error)) != STATUS_OK) break;
        fill_score("", &report->result->scores[s], report->result->models, &score);
        series = series_of(report, report->request->sets[s]->task->name, protocol);
        status = measure_result(&tasks_table_score_shape, &score, &series, out, error);
    }
    return status;
}

enum status tasks_report_protocol(struct tasks_report *report, struct error *error)
{
    json_t *all = json_array();
    char sha256[HASH_TEXT];
    enum status status = all == NULL ? error_set(error, STATUS_NO_MEMORY, "no memory for a result") : STATUS_OK;
    for (int64_t s = 0; s < report->result->set_count && status == STATUS_OK; s++) {
        char one[24];
        status = protocol_of(report, s, one, error);
        if (status == STATUS_OK && json_array_append_new(all, json_string(one)) != 0)
            status = error_set(error, STATUS_NO_MEMORY, "no memory for a result");
    }
    if (status == STATUS_OK) status = hash_json(all, sha256, error);
    if (status == STATUS_OK) (void)snprintf(report->protocol, sizeof report->protocol, "%.16s", sha256);
    json_decref(all);
    return status;
}

/* ---- items ---- */

enum { QUESTION_BYTES = 400 };

/* The end of a prompt, which contains the question, for people. */
static void question_of(const struct prompt *prompt, const char **text, size_t *size)
{
    const struct prompt_span span = prompt_context(prompt, 0);
    size_t start = span.end - span.start > QUESTION_BYTES ? span.end - QUESTION_BYTES : span.start;
    while (start < span.end && ((unsigned char)prompt->text.bytes[start] & 0xc0) == 0x80) start++;
    *text = prompt->text.bytes + start;
    *size = span.end - start;
}

enum status tasks_report_list(const struct tasks_report *report, struct task_items *items, struct error *error)
{
    const struct tasks_result *result = report->result;
    enum status status = STATUS_OK;
    items->checkpoint = report->checkpoint;
    items->shots = report->shots;
    (void)snprintf(items->label, sizeof items->label, "%s", report->label);
    for (int64_t i = 0; i < result->item_count && status == STATUS_OK; i++) {
        const struct tasks_outcome *outcome = &result->outcomes[i];
        const struct task_set *set = report->request->sets[outcome->set];
        const struct task_set_item *asked = &set->items[outcome->item];
        char name[128];
        task_set_name(set, asked->subject, name, sizeof name);
        struct task_item item = {
            .sha256 = report->tasks[outcome->set].sha256,
            .task = name,
            .doc = asked->doc,
            .gold = outcome->gold,
            .choice = outcome->choice[TASKS_FULL],
            .choice_norm = outcome->choice_normalised[TASKS_FULL],
            .quantized = result->models > 1,
            .choice_q = outcome->choice[TASKS_QUANTIZED],
            .choice_norm_q = outcome->choice_normalised[TASKS_QUANTIZED],
        };
        question_of(&asked->prompt, &item.question, &item.question_size);
        status = task_items_add(items, &item, error);
    }
    return status;
}

static json_t *numbers(const double *values, int count)
{
    json_t *list = json_array();
    for (int i = 0; list != NULL && i < count; i++) (void)json_array_append_new(list, inputs_number(values[i]));
    return list;
}

static json_t *render_item(const struct tasks_report *report, const struct tasks_outcome *outcome)
{
    const struct task_set *set = report->request->sets[outcome->set];
    const struct task_set_item *item = &set->items[outcome->item];
    const int choices = item->prompt.choices;
    char name[128];
    task_set_name(set, item->subject, name, sizeof name);
    json_t *line = json_pack("{ss sI so si si si}", "task", name, "doc", (json_int_t)item->doc, "log_likelihoods",
                             numbers(outcome->log_likelihoods, choices), "choice", outcome->choice[TASKS_FULL], "gold",
                             outcome->gold, "choice_norm", outcome->choice_normalised[TASKS_FULL]);
    if (line == NULL || report->result->models == 1) return line;
    (void)json_object_set_new(line, "log_likelihoods_q", numbers(outcome->log_likelihoods + TASK_CHOICES, choices));
    (void)json_object_set_new(line, "choice_q", json_integer(outcome->choice[TASKS_QUANTIZED]));
    (void)json_object_set_new(line, "choice_norm_q", json_integer(outcome->choice_normalised[TASKS_QUANTIZED]));
    return line;
}

enum status tasks_report_items(const struct tasks_report *report, struct artifacts *artifacts, struct error *error)
{
    struct artifact_writer *writer = NULL;
    enum status status = artifact_open(artifacts, "items.jsonl", "application/jsonl", &writer, error);
    for (int64_t i = 0; i < report->result->item_count && status == STATUS_OK; i++) {
        json_t *line = render_item(report, &report->result->outcomes[i]);
        char *text = line == NULL ? NULL : written_json(line, JSON_COMPACT | JSON_REAL_PRECISION(17));
        status = text == NULL ? error_set(error, STATUS_NO_MEMORY, "no memory for a result")
                              : artifact_write(writer, text, strlen(text), error);
        if (status == STATUS_OK) status = artifact_write(writer, "\n", 1, error);
        free(text);
        json_decref(line);
    }
    if (status == STATUS_OK) return artifact_publish(writer, error);
    artifact_abandon(writer);
    return status;
}
