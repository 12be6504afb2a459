#include "jobs/tasks/tasks_list.h"

#include "base/memory.h"

#include <math.h>
#include <stdlib.h>

/* A group: work of about half a minute on a desktop's processor, so that little is lost with it, but enough tokens to
 * repay reading the weights, and hidden states of at most a GiB. */
#define GROUP_WORK  1e13
#define GROUP_LEAST 16384
#define GROUP_BYTES (1LL << 30)

int tasks_list_row_width(const struct tasks_list *list)
{
    return list->models * TASK_CHOICES + TASKS_ROW_EXTRAS;
}

static const struct task_set *set_of(const struct tasks_list *list, const struct tasks_item_index *index)
{
    return list->request->sets[index->set];
}

const struct prompt *tasks_list_prompt(const struct tasks_list *list, const struct tasks_item_index *index)
{
    return &set_of(list, index)->items[index->item].prompt;
}

static enum status blame(const struct tasks_list *list, const struct tasks_item_index *index, enum status status,
                         struct error *error)
{
    const struct error cause = *error;
    const struct task_set_item *item = &set_of(list, index)->items[index->item];
    char name[128];
    task_set_name(set_of(list, index), item->subject, name, sizeof name);
    return error_set(error, status, "%s, item %lld: %.300s", name, (long long)item->doc, cause.detail);
}

/* ---- a group's texts ---- */

static enum status texts_reserve(struct tasks_list *list, int64_t count, struct error *error)
{
    if (count + 1 < list->text_capacity) return STATUS_OK;
    const int64_t capacity = 2 * list->text_capacity + count + 256;
    int64_t *starts = realloc(list->starts, (size_t)capacity * sizeof *starts);
    if (starts != NULL) list->starts = starts;
    int64_t *targets = realloc(list->targets, (size_t)capacity * sizeof *targets);
    if (targets != NULL) list->targets = targets;
    if (starts == NULL || targets == NULL)
        return error_set(error, STATUS_NO_MEMORY, "no memory for %lld texts", (long long)capacity);
    list->text_capacity = capacity;
    return STATUS_OK;
}

static enum status choice_add(struct tasks_list *list, const struct tasks_item_index *index, int choice,
                              struct encoded *encoded, struct error *error)
{
    const struct task_set *set = set_of(list, index);
    enum status status;
    list->continuation.size = 0;
    if (choice == 0 || tasks_list_prompt(list, index)->contexts > 1) {
        list->context.size = 0;
        if ((status = task_set_context(set, index->item, choice, &list->context, error)) != STATUS_OK) return status;
    }
    if ((status = task_set_continuation(set, index->item, choice, &list->continuation, error)) != STATUS_OK)
        return status;
    status = encode_pair(&list->encode, &list->context, &list->continuation, &list->tokens, encoded, error);
    return status == STATUS_OK ? STATUS_OK : blame(list, index, status, error);
}

/* Adds an item's texts; *rows: about how many rows they add to the group. */
static enum status item_add(struct tasks_list *list, const struct tasks_item_index *index, double *row, int64_t *rows,
                            struct error *error)
{
    const int choices = tasks_list_prompt(list, index)->choices;
    double *extras = row + list->models * TASK_CHOICES;
    int64_t longest = 0, others = 0;
    enum status status;
    for (int i = 0; i < tasks_list_row_width(list); i++) row[i] = NAN;
    for (int i = 0; i < TASKS_ROW_EXTRAS; i++) extras[i] = 0;
    for (int choice = 0; choice < choices; choice++) {
        struct encoded encoded;
        const int64_t text = list->texts.count;
        if ((status = texts_reserve(list, text + 1, error)) != STATUS_OK) return status;
        list->starts[text] = list->tokens.count;
        if ((status = choice_add(list, index, choice, &encoded, error)) != STATUS_OK) return status;
        list->starts[text + 1] = list->tokens.count;
        list->targets[text] = encoded.targets;
        list->texts.count++;
        extras[TASKS_ROW_ALONE] += (double)(encoded.tokens - 1);
        extras[TASKS_ROW_CUT] += encoded.cut;
        longest = encoded.tokens > longest ? encoded.tokens : longest;
        others += encoded.targets;
    }
    *rows += list->across_text ? (int64_t)extras[TASKS_ROW_ALONE] : longest + others;
    return STATUS_OK;
}

static int64_t group_tokens(const struct tasks_list *list)
{
    const struct model *model = list->request->model;
    if (list->request->group_tokens > 0) return list->request->group_tokens;
    const int64_t most = GROUP_BYTES / (int64_t)list->request->backend->ops->element / model->config.hidden_size;
    int64_t tokens = (int64_t)(GROUP_WORK / (2 * (double)model->parameters * list->models));
    if (tokens < GROUP_LEAST) tokens = GROUP_LEAST;
    return tokens < most ? tokens : most;
}

static enum status rows_reserve(struct tasks_list *list, int64_t count, struct error *error)
{
    if (count <= list->row_capacity) return STATUS_OK;
    const int64_t capacity = 2 * count + 64;
    double *rows = realloc(list->rows, (size_t)(capacity * tasks_list_row_width(list)) * sizeof *rows);
    if (rows == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for %lld items", (long long)capacity);
    list->rows = rows;
    list->row_capacity = capacity;
    return STATUS_OK;
}

enum status tasks_list_group(struct tasks_list *list, int64_t first, struct error *error)
{
    const int64_t most = group_tokens(list);
    int64_t rows = 0;
    enum status status;
    list->first = first;
    list->tokens.count = list->texts.count = list->count = 0;
    while (first + list->count < list->item_count && rows < most) {
        if ((status = rows_reserve(list, list->count + 1, error)) != STATUS_OK) return status;
        double *row = list->rows + list->count * tasks_list_row_width(list);
        if ((status = item_add(list, &list->indices[first + list->count], row, &rows, error)) != STATUS_OK)
            return status;
        if ((status = monitor_check(list->request->monitor, error)) != STATUS_OK) return status;
        list->count++;
    }
    list->texts.starts = list->starts;
    list->texts.targets = list->targets;
    list->texts.tokens = list->tokens.ids;
    return STATUS_OK;
}

int tasks_list_askings(const struct tasks_list *list, struct tasks_asking out[TASKS_MODELS])
{
    out[0] = (struct tasks_asking){false, TASKS_FULL, list->across_text ? TASKS_QUANTIZED : list->models};
    out[1] = (struct tasks_asking){true, TASKS_QUANTIZED, TASKS_MODELS};
    return list->across_text ? 2 : 1;
}

/* ---- the whole list ---- */

static enum status indices_list(struct tasks_list *list, struct error *error)
{
    const struct tasks_request *request = list->request;
    int64_t count = 0;
    for (int64_t s = 0; s < request->set_count; s++) count += request->sets[s]->item_count;
    list->item_count = count;
    const enum status status = memory_new(count, sizeof *list->indices, "items", &list->indices, error);
    if (status != STATUS_OK) return status;
    count = 0;
    for (int64_t s = 0; s < request->set_count; s++)
        for (int64_t i = 0; i < request->sets[s]->item_count; i++)
            list->indices[count++] = (struct tasks_item_index){s, i};
    return STATUS_OK;
}

enum status tasks_list_new(const struct tasks_request *request, struct tasks_list *out, struct error *error)
{
    const struct model_config *config = &request->model->config;
    *out = (struct tasks_list){.request = request, .models = request->method == NULL ? 1 : TASKS_MODELS};
    const enum status status = indices_list(out, error);
    if (status != STATUS_OK) return status;
    return encode_init(&out->encode, request->tokenizer, request->special_tokens, config->maximum_positions,
                       config->vocabulary_size, error);
}

void tasks_list_reset(struct tasks_list *list)
{
    encode_reset(&list->encode);
    tokenizer_list_free(&list->tokens);
    phrase_reset(&list->context);
    phrase_reset(&list->continuation);
    memory_free(list->indices);
    free(list->starts);
    free(list->targets);
    free(list->rows);
}

struct quantized_copy_request tasks_list_copy(const struct tasks_list *list)
{
    const struct tasks_request *request = list->request;
    return (struct quantized_copy_request){
        .model = request->model,
        .backend = request->backend,
        .method = *request->method,
        .calibration = request->calibration,
        .directory = request->work_directory,
        .fingerprint = request->fingerprint,
        .monitor = request->monitor,
    };
}

enum status tasks_list_plan_copy(struct tasks_list *list, const struct plan_budget *budget, struct error *error)
{
    if (list->request->method == NULL) return STATUS_OK;
    const struct quantized_copy_request copy = tasks_list_copy(list);
    list->across_text = quantized_copy_across_text(list->request->method);
    return quantized_copy_plan(&copy, budget, &list->copied, error);
}
