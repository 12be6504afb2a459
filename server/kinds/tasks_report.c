#include "kinds/tasks_report.h"

#include "kinds/inputs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the result ---- */

static json_t *interval(const struct tasks_accuracy *accuracy)
{
    return isfinite(accuracy->low) && isfinite(accuracy->high) ? json_pack("[ff]", accuracy->low, accuracy->high) : json_null();
}

/* Fields are named PREFIX, PREFIX_interval, ... */
static void put(json_t *object, const char *prefix, const char *ending, json_t *value)
{
    char key[96];
    (void)snprintf(key, sizeof key, "%s%s", prefix, ending);
    (void)json_object_set_new(object, key, value);
}

/* One way to choose: `name` is "accuracy" or "accuracy_norm", perhaps of a mean; flips of the latter are "flips_norm_up", ... */
static void put_measure(json_t *object, const char *name, const struct tasks_measure *measure, int models)
{
    const char *kind = strstr(name, "_norm") != NULL ? "_norm" : "";
    for (int m = 0; m < models; m++) {
        const struct tasks_accuracy *accuracy = &measure->accuracy[m];
        const char *q = m == TASKS_FULL ? "" : "_q";
        char prefix[64];
        (void)snprintf(prefix, sizeof prefix, "%s%s", name, q);
        put(object, prefix, "", inputs_number(accuracy->value));
        put(object, prefix, "_interval", interval(accuracy));
        put(object, prefix, "_stderr", inputs_number(accuracy->error));
    }
    if (models == 1) return;
    put(object, name, "_change", inputs_number(measure->difference.value));
    put(object, name, "_change_interval", interval(&measure->difference));
    char flips[32];
    (void)snprintf(flips, sizeof flips, "flips%s", kind);
    put(object, flips, "_up", json_integer(measure->up));
    put(object, flips, "_down", json_integer(measure->down));
    (void)snprintf(flips, sizeof flips, "mcnemar%s", kind);
    put(object, flips, "_p", inputs_number(measure->mcnemar));
}

static json_t *render_score(const char *name, const struct tasks_score *score, int models)
{
    json_t *object = json_pack("{ss sI so}", "name", name, "n", (json_int_t)score->items, "stderr",
                               inputs_number(score->plain.accuracy[TASKS_FULL].error));
    if (object == NULL) return NULL;
    put_measure(object, "accuracy", &score->plain, models);
    put_measure(object, "accuracy_norm", &score->normalised, models);
    return object;
}

/* Scores the outcomes of set `s` that `wanted` says, by subject or by group of subjects. */
static enum status render_part(const struct tasks_report *report, int64_t s, const char *name,
                               bool (*wanted)(const struct task_set *set, int64_t subject, const char *name), json_t *list,
                               struct error *error)
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
        status = tasks_score_make(some, count, result->models, 0, 0, NULL, &score, error);
        if (status == STATUS_OK) (void)json_array_append_new(list, render_score(name, &score, result->models));
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

static enum status render_subjects(const struct tasks_report *report, int64_t s, json_t *task, struct error *error)
{
    static const char *const groups[] = {"stem", "other", "social_sciences", "humanities"};
    const struct task_set *set = report->request->sets[s];
    json_t *by_group = json_array(), *by_subject = json_array();
    enum status status = STATUS_OK;
    if (set->task->subject == NULL) goto done;
    for (size_t g = 0; g < sizeof groups / sizeof groups[0] && status == STATUS_OK; g++)
        status = render_part(report, s, groups[g], in_group, by_group, error);
    for (int64_t i = 0; i < set->subject_count && status == STATUS_OK; i++) {
        char name[128];
        task_set_name(set, i, name, sizeof name);
        status = render_part(report, s, name, is_subject, by_subject, error);
    }
    (void)json_object_set(task, "groups", by_group);
    (void)json_object_set(task, "subjects", by_subject);
done:
    json_decref(by_group);
    json_decref(by_subject);
    return status;
}

static enum status render_tasks(const struct tasks_report *report, json_t *list, struct error *error)
{
    enum status status = STATUS_OK;
    for (int64_t s = 0; s < report->result->set_count && status == STATUS_OK; s++) {
        const struct task_param *param = &report->tasks[s];
        const struct task *task = &task_table[param->name];
        json_t *object = render_score(task->name, &report->result->scores[s], report->result->models);
        if (object == NULL || json_array_append_new(list, object) != 0)
            return error_set(error, STATUS_NO_MEMORY, "no memory for a result");
        (void)json_object_set_new(object, "metrics",
                                  task->normalised ? json_pack("[ss]", "acc", "acc_norm") : json_pack("[s]", "acc"));
        (void)json_object_set_new(object, "shots", json_integer(report->shots));
        (void)json_object_set_new(object, "sha256", json_string(param->sha256));
        (void)json_object_set_new(object, "fewshot_sha256", report->shots > 0 ? json_string(param->fewshot_sha256) : json_null());
        status = render_subjects(report, s, object, error);
    }
    return status;
}

enum status tasks_report_result(const struct tasks_report *report, json_t **out, struct error *error)
{
    const struct tasks_result *result = report->result;
    json_t *tasks = json_array(), *document = json_object();
    enum status status = tasks == NULL || document == NULL || json_object_set_new(document, "tasks", tasks) != 0
                             ? error_set(error, STATUS_NO_MEMORY, "no memory for a result")
                             : render_tasks(report, tasks, error);
    if (status == STATUS_OK) {
        put_measure(document, "mean_accuracy", &result->mean.plain, result->models);
        put_measure(document, "mean_accuracy_norm", &result->mean.normalised, result->models);
        (void)json_object_set_new(document, "protocol_id", json_string(report->protocol));
        (void)json_object_set_new(document, "items", json_integer(result->item_count));
        (void)json_object_set_new(document, "tokens_computed", json_integer(result->tokens_computed));
        (void)json_object_set_new(document, "tokens_alone", json_integer(result->tokens_alone * result->models));
        (void)json_object_set_new(document, "truncated", json_integer(result->cut));
        if (result->models > 1) (void)json_object_set_new(document, "bits_per_weight", inputs_number(result->bits_per_weight));
        *out = json_incref(document);
    }
    json_decref(document);
    return status;
}

/* ---- curves ---- */

static enum status measure(const struct tasks_report *report, const char *metric, const char *task, const char *protocol, int model,
                           const struct tasks_accuracy *accuracy, struct measurements *out, struct error *error)
{
    struct measurement item = {
        .checkpoint = report->checkpoint, .value = accuracy->value, .low = accuracy->low, .high = accuracy->high};
    (void)snprintf(item.metric, sizeof item.metric, "%s", metric);
    (void)snprintf(item.dataset, sizeof item.dataset, "%s%s%d-shot", task, task[0] != '\0' ? " " : "", report->shots);
    (void)snprintf(item.protocol, sizeof item.protocol, "%s", protocol);
    if (model == TASKS_QUANTIZED) {
        (void)snprintf(item.method, sizeof item.method, "%s", report->method);
        (void)snprintf(item.label, sizeof item.label, "%s", report->label);
        item.bits = report->bits;
    }
    return measurements_add(out, &item, error);
}

static enum status measure_score(const struct tasks_report *report, const struct tasks_score *score, const char *prefix,
                                 const char *task, const char *protocol, struct measurements *out, struct error *error)
{
    const struct tasks_measure *const measures[] = {&score->plain, &score->normalised};
    static const char *const names[] = {"accuracy", "accuracy_norm"};
    char metric[64];
    enum status status = STATUS_OK;
    for (int k = 0; k < 2 && status == STATUS_OK; k++) {
        (void)snprintf(metric, sizeof metric, "%s%s", prefix, names[k]);
        for (int m = 0; m < report->result->models && status == STATUS_OK; m++)
            status = measure(report, metric, task, protocol, m, &measures[k]->accuracy[m], out, error);
        (void)snprintf(metric, sizeof metric, "%s%s_change", prefix, names[k]);
        if (status == STATUS_OK && report->result->models > 1)
            status = measure(report, metric, task, protocol, TASKS_QUANTIZED, &measures[k]->difference, out, error);
    }
    return status;
}

/* What was asked, and how: the file is its own identity. */
static enum status protocol_of(const struct tasks_report *report, int64_t s, char out[24], struct error *error)
{
    const struct task_param *param = &report->tasks[s];
    char sha256[HASH_TEXT];
    json_t *all =
        json_pack("[s s s? i I b]", task_names[param->name], param->sha256, report->shots > 0 ? param->fewshot_sha256 : NULL,
                  report->shots, (json_int_t)report->result->scores[s].items, report->request->special_tokens);
    const enum status status =
        all == NULL ? error_set(error, STATUS_NO_MEMORY, "no memory for a result") : hash_json(all, sha256, error);
    if (status == STATUS_OK) (void)snprintf(out, 24, "%.16s", sha256);
    json_decref(all);
    return status;
}

enum status tasks_report_measure(const struct tasks_report *report, struct measurements *out, struct error *error)
{
    enum status status = measure_score(report, &report->result->mean, "mean_", "", report->protocol, out, error);
    for (int64_t s = 0; s < report->result->set_count && status == STATUS_OK; s++) {
        char protocol[24];
        status = protocol_of(report, s, protocol, error);
        if (status == STATUS_OK)
            status =
                measure_score(report, &report->result->scores[s], "", report->request->sets[s]->task->name, protocol, out, error);
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

/* The end of a prompt, where the question stands, for people. */
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
        char *text = line == NULL ? NULL : json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(17));
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
