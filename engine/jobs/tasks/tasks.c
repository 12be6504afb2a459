#include "jobs/tasks/tasks.h"

#include "base/memory.h"
#include "eval/bootstrap.h"
#include "eval/likelihood.h"
#include "jobs/quantize/quantized_copy.h"
#include "tasks/encode.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A group: work of some half a minute on a desktop's processor, so that little is lost with it, yet tokens enough to
 * repay reading the weights, and hidden states of a GiB at most. */
#define GROUP_WORK  1e13
#define GROUP_LEAST 16384
#define GROUP_BYTES (1LL << 30)

/* A row of the saved table: the log-likelihoods of each model, then these. */
enum { ROW_ALONE, ROW_COMPUTED, ROW_CUT, ROW_EXTRAS };

struct place {
    int64_t set, item;
};

struct job {
    const struct tasks_request *request;
    struct tasks_result *out;
    int models;
    struct quantized_copy copy;
    struct quantized_copy_plan copied;
    bool across_text;      /* of the copy */
    bool planning;         /* nothing is computed */
    struct run_plan group; /* what the group in work needs */
    struct encode encode;
    struct place *places; /* of every item, in order */
    /* of a group */
    struct token_list tokens;
    struct phrase context, continuation;
    int64_t text_capacity;
    struct likelihood_texts texts; /* its arrays are ours: */
    int64_t *starts, *targets;
    double *answers[TASKS_MODELS];
    double *rows; /* of the group's items */
    int64_t row_capacity;
};

static int row_width(const struct job *job)
{
    return job->models * TASK_CHOICES + ROW_EXTRAS;
}

static const struct task_set *set_of(const struct job *job, const struct place *place)
{
    return job->request->sets[place->set];
}

static const struct prompt *prompt_of(const struct job *job, const struct place *place)
{
    return &set_of(job, place)->items[place->item].prompt;
}

static enum status blame(const struct job *job, const struct place *place, enum status status, struct error *error)
{
    const struct error cause = *error;
    const struct task_set_item *item = &set_of(job, place)->items[place->item];
    char name[128];
    task_set_name(set_of(job, place), item->subject, name, sizeof name);
    return error_set(error, status, "%s, item %lld: %.300s", name, (long long)item->doc, cause.detail);
}

/* ---- a group's texts ---- */

static enum status texts_room(struct job *job, int64_t count, struct error *error)
{
    if (count + 1 < job->text_capacity) return STATUS_OK;
    const int64_t capacity = 2 * job->text_capacity + count + 256;
    int64_t *starts = realloc(job->starts, (size_t)capacity * sizeof *starts);
    if (starts != NULL) job->starts = starts;
    int64_t *targets = realloc(job->targets, (size_t)capacity * sizeof *targets);
    if (targets != NULL) job->targets = targets;
    if (starts == NULL || targets == NULL)
        return error_set(error, STATUS_NO_MEMORY, "no memory for %lld texts", (long long)capacity);
    job->text_capacity = capacity;
    return STATUS_OK;
}

static enum status choice_add(struct job *job, const struct place *place, int choice, struct encoded *encoded,
                              struct error *error)
{
    const struct task_set *set = set_of(job, place);
    enum status status;
    job->continuation.size = 0;
    if (choice == 0 || prompt_of(job, place)->contexts > 1) {
        job->context.size = 0;
        if ((status = task_set_context(set, place->item, choice, &job->context, error)) != STATUS_OK) return status;
    }
    if ((status = task_set_continuation(set, place->item, choice, &job->continuation, error)) != STATUS_OK)
        return status;
    status = encode_pair(&job->encode, &job->context, &job->continuation, &job->tokens, encoded, error);
    return status == STATUS_OK ? STATUS_OK : blame(job, place, status, error);
}

/* Adds an item's texts; *rows is about what they add to the group. */
static enum status item_add(struct job *job, const struct place *place, double *row, int64_t *rows, struct error *error)
{
    const int choices = prompt_of(job, place)->choices;
    double *extras = row + job->models * TASK_CHOICES;
    int64_t longest = 0, others = 0;
    enum status status;
    for (int i = 0; i < row_width(job); i++) row[i] = NAN;
    for (int i = 0; i < ROW_EXTRAS; i++) extras[i] = 0;
    for (int choice = 0; choice < choices; choice++) {
        struct encoded encoded;
        const int64_t text = job->texts.count;
        if ((status = texts_room(job, text + 1, error)) != STATUS_OK) return status;
        job->starts[text] = job->tokens.count;
        if ((status = choice_add(job, place, choice, &encoded, error)) != STATUS_OK) return status;
        job->starts[text + 1] = job->tokens.count;
        job->targets[text] = encoded.targets;
        job->texts.count++;
        extras[ROW_ALONE] += (double)(encoded.tokens - 1);
        extras[ROW_CUT] += encoded.cut;
        longest = encoded.tokens > longest ? encoded.tokens : longest;
        others += encoded.targets;
    }
    *rows += job->across_text ? (int64_t)extras[ROW_ALONE] : longest + others;
    return STATUS_OK;
}

static int64_t group_tokens(const struct job *job)
{
    const struct model *model = job->request->model;
    if (job->request->group_tokens > 0) return job->request->group_tokens;
    const int64_t most = GROUP_BYTES / (int64_t)job->request->backend->ops->element / model->config.hidden_size;
    int64_t tokens = (int64_t)(GROUP_WORK / (2 * (double)model->parameters * job->models));
    if (tokens < GROUP_LEAST) tokens = GROUP_LEAST;
    return tokens < most ? tokens : most;
}

static enum status rows_room(struct job *job, int64_t count, struct error *error)
{
    if (count <= job->row_capacity) return STATUS_OK;
    const int64_t capacity = 2 * count + 64;
    double *rows = realloc(job->rows, (size_t)(capacity * row_width(job)) * sizeof *rows);
    if (rows == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for %lld items", (long long)capacity);
    job->rows = rows;
    job->row_capacity = capacity;
    return STATUS_OK;
}

/* Items from `first` on, at least one; *count says how many. */
static enum status group_collect(struct job *job, int64_t first, int64_t *count, struct error *error)
{
    const int64_t most = group_tokens(job);
    int64_t rows = 0;
    enum status status;
    job->tokens.count = job->texts.count = *count = 0;
    while (first + *count < job->out->item_count && rows < most) {
        if ((status = rows_room(job, *count + 1, error)) != STATUS_OK) return status;
        status = item_add(job, &job->places[first + *count], job->rows + *count * row_width(job), &rows, error);
        if (status != STATUS_OK) return status;
        if ((status = monitor_check(job->request->monitor, error)) != STATUS_OK) return status;
        ++*count;
    }
    job->texts.starts = job->starts;
    job->texts.targets = job->targets;
    job->texts.tokens = job->tokens.ids;
    return STATUS_OK;
}

/* ---- a group's answers ---- */

/* Who is asked about a group's texts: models [first, end), over a forest of their own or (apart) text by text. */
struct asking {
    bool apart;
    int first, end;
};

/* Full precision and the quantized model, over one forest unless what a token gets depends on its whole text in the
 * latter. */
static int askings_of(const struct job *job, struct asking out[TASKS_MODELS])
{
    out[0] = (struct asking){false, TASKS_FULL, job->across_text ? TASKS_QUANTIZED : job->models};
    out[1] = (struct asking){true, TASKS_QUANTIZED, TASKS_MODELS};
    return job->across_text ? 2 : 1;
}

/* Onto the group's plan. */
static void asking_plan(struct job *job, const struct asking *asking, const struct likelihood *likelihood)
{
    const struct tasks_request *request = job->request;
    for (int m = asking->first; m < asking->end; m++) {
        const bool full = m == TASKS_FULL;
        const int64_t treated = job->copied.treated_bytes + job->copied.token_bytes * likelihood->forest.chunks.largest;
        likelihood_plan(likelihood, request->model, request->backend, full ? 0 : treated, &job->group);
        job->group.read_bytes += full ? weights_bytes(request->model->weights) : job->copied.stored_bytes;
    }
}

static enum status room_check(const struct job *job, struct error *error)
{
    const struct plan_budget budget = backend_budget(job->request->backend, job->request->work_directory);
    if (plan_fits(&job->group, &budget)) return STATUS_OK;
    return plan_refuse(&job->group, &budget, "give it fewer shots, or more memory (--memory, DELTAQ_CUDA_MEMORY)",
                       error);
}

static enum status likelihood_ask(struct job *job, const struct asking *asking, struct likelihood *likelihood,
                                  struct error *error)
{
    const struct tasks_request *request = job->request;
    const struct monitor quiet = {.owner = request->monitor == NULL ? NULL : request->monitor->owner,
                                  .check = request->monitor == NULL ? NULL : request->monitor->check};
    struct likelihood_products products;
    enum status status = room_check(job, error);
    for (int m = asking->first; m < asking->end && status == STATUS_OK; m++) {
        const bool full = m == TASKS_FULL;
        status = likelihood_run(likelihood, full ? request->model : job->copy.model, request->backend,
                                full ? NULL : quantized_copy_products(&job->copy, &products), &quiet, job->answers[m],
                                error);
    }
    return status;
}

static enum status group_ask(struct job *job, const struct asking *asking, struct error *error)
{
    const struct tasks_request *request = job->request;
    struct likelihood likelihood = {0};
    enum status status =
        likelihood_init(&likelihood, &job->texts, asking->apart, &request->model->config, request->backend, error);
    if (status == STATUS_OK) asking_plan(job, asking, &likelihood);
    if (status == STATUS_OK && !job->planning) status = likelihood_ask(job, asking, &likelihood, error);
    likelihood_reset(&likelihood);
    return status;
}

static enum status answers_room(struct job *job, struct error *error)
{
    for (int m = 0; m < job->models; m++) {
        double *grown = realloc(job->answers[m], (size_t)(job->texts.count + 1) * sizeof *grown);
        if (grown == NULL)
            return error_set(error, STATUS_NO_MEMORY, "no memory for %lld texts", (long long)job->texts.count);
        job->answers[m] = grown;
    }
    return STATUS_OK;
}

static enum status group_run(struct job *job, struct error *error)
{
    struct asking askings[TASKS_MODELS];
    const int count = askings_of(job, askings);
    enum status status = answers_room(job, error);
    job->group = (struct run_plan){.flops = 0};
    for (int i = 0; i < count && status == STATUS_OK; i++) status = group_ask(job, &askings[i], error);
    return status;
}

static enum status group_keep(struct job *job, int64_t first, int64_t count, struct error *error)
{
    int64_t text = 0;
    enum status status;
    for (int64_t i = 0; i < count; i++) {
        double *row = job->rows + i * row_width(job);
        const int choices = prompt_of(job, &job->places[first + i])->choices;
        for (int choice = 0; choice < choices; choice++, text++)
            for (int m = 0; m < job->models; m++) row[m * TASK_CHOICES + choice] = job->answers[m][text];
        if (i == 0) row[job->models * TASK_CHOICES + ROW_COMPUTED] = (double)job->group.tokens;
        if ((status = saved_table_add(&job->out->table, row, error)) != STATUS_OK) return status;
    }
    return saved_table_save(&job->out->table, error);
}

static enum status groups_run(struct job *job, struct error *error)
{
    struct saved_table *table = &job->out->table;
    enum status status = STATUS_OK;
    monitor_progress(job->request->monitor, table->done, table->rows, "item");
    while (table->done < table->rows && status == STATUS_OK) {
        const int64_t first = table->done;
        int64_t count = 0;
        status = group_collect(job, first, &count, error);
        if (status == STATUS_OK) status = group_run(job, error);
        if (status == STATUS_OK) status = group_keep(job, first, count, error);
        if (status == STATUS_OK) job->out->flops += job->group.flops;
        if (status == STATUS_OK) monitor_progress(job->request->monitor, table->done, table->rows, "item");
    }
    return status;
}

/* ---- all of it ---- */

static enum status places_list(struct job *job, struct error *error)
{
    const struct tasks_request *request = job->request;
    int64_t count = 0;
    for (int64_t s = 0; s < request->set_count; s++) count += request->sets[s]->item_count;
    job->out->item_count = count;
    const enum status status = memory_new(count, sizeof *job->places, "items", &job->places, error);
    if (status != STATUS_OK) return status;
    count = 0;
    for (int64_t s = 0; s < request->set_count; s++)
        for (int64_t i = 0; i < request->sets[s]->item_count; i++) job->places[count++] = (struct place){s, i};
    return STATUS_OK;
}

static struct quantized_copy_request copy_of(const struct tasks_request *request)
{
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

/* What there will be of the copy, and (not for a plan) the copy. */
static enum status copy_open(struct job *job, const struct plan_budget *budget, struct error *error)
{
    const struct tasks_request *request = job->request;
    if (request->method == NULL) return STATUS_OK;
    const struct quantized_copy_request copy = copy_of(request);
    job->across_text = quantized_copy_across_text(request->method);
    enum status status = quantized_copy_plan(&copy, budget, &job->copied, error);
    if (status != STATUS_OK || job->planning) return status;
    status = quantized_copy_open(&copy, &job->copy, error);
    job->across_text = job->copy.across_text;
    job->out->bits_per_weight = job->copy.bits_per_weight;
    job->out->flops += job->copied.plan.flops;
    return status;
}

static void outcome_make(const struct job *job, int64_t i, struct tasks_outcome *out)
{
    const struct place *place = &job->places[i];
    const struct prompt *prompt = prompt_of(job, place);
    const double *row = job->out->table.values + i * row_width(job);
    *out = (struct tasks_outcome){.set = place->set, .item = place->item, .log_likelihoods = row, .gold = prompt->gold};
    for (int m = 0; m < job->models; m++) {
        out->choice[m] = tasks_score_choice(row + m * TASK_CHOICES, NULL, prompt->choices);
        out->choice_normalised[m] = tasks_score_choice(row + m * TASK_CHOICES, prompt->characters, prompt->choices);
    }
}

static enum status summarise(struct job *job, struct error *error)
{
    const struct tasks_request *request = job->request;
    struct tasks_result *out = job->out;
    enum status status;
    if ((status = memory_new(out->item_count, sizeof *out->outcomes, "outcomes", &out->outcomes, error)) != STATUS_OK ||
        (status = memory_new(out->set_count, sizeof *out->scores, "scores", &out->scores, error)) != STATUS_OK)
        return status;
    for (int64_t i = 0; i < out->item_count; i++) {
        const double *extras = out->table.values + i * row_width(job) + job->models * TASK_CHOICES;
        outcome_make(job, i, &out->outcomes[i]);
        out->tokens_alone += (int64_t)extras[ROW_ALONE];
        out->tokens_computed += (int64_t)extras[ROW_COMPUTED];
        out->cut += (int64_t)extras[ROW_CUT];
    }
    for (int64_t s = 0, first = 0; s < out->set_count; first += request->sets[s++]->item_count)
        tasks_score_make(out->outcomes + first, request->sets[s]->item_count, out->models,
                         request->sets[s]->task->normalised, &out->scores[s]);
    tasks_score_mean(out->scores, out->set_count, out->models, &out->mean);
    return STATUS_OK;
}

static void job_reset(struct job *job)
{
    quantized_copy_reset(&job->copy);
    encode_reset(&job->encode);
    tokenizer_list_free(&job->tokens);
    phrase_reset(&job->context);
    phrase_reset(&job->continuation);
    memory_free(job->places);
    free(job->starts);
    free(job->targets);
    free(job->rows);
    for (int m = 0; m < TASKS_MODELS; m++) free(job->answers[m]);
}

static enum status job_open(struct job *job, struct error *error)
{
    const struct tasks_request *request = job->request;
    const struct model_config *config = &request->model->config;
    const enum status status = places_list(job, error);
    if (status != STATUS_OK) return status;
    return encode_init(&job->encode, request->tokenizer, request->special_tokens, config->maximum_positions,
                       config->vocabulary_size, error);
}

/* A group's rows are saved when it is done, and may be once before, when that takes long. */
static enum status groups_plan(struct job *job, struct run_plan *out, struct error *error)
{
    struct run_plan groups = {.flops = 0};
    const int64_t items = job->out->item_count;
    int64_t saves = 0;
    enum status status = STATUS_OK;
    for (int64_t first = 0, count = 0; first < items && status == STATUS_OK; first += count, saves++) {
        status = group_collect(job, first, &count, error);
        if (status == STATUS_OK) status = group_run(job, error);
        plan_add(&groups, &job->group, 1);
    }
    saved_table_plan(items, row_width(job), job->request->work_directory != NULL ? saves : 0, out);
    plan_take(out, PLAN_HOST, PLAN_SMALL_BYTES + items * (int64_t)(sizeof *job->places + sizeof *job->out->outcomes));
    if (job->request->method != NULL) {
        plan_add(out, &job->copied.plan, 1);
        for (int room = 0; room < PLAN_ROOMS; room++) plan_take(out, (enum plan_room)room, job->copied.plan.live[room]);
    }
    plan_add(out, &groups, 1);
    return status;
}

enum status tasks_plan(const struct tasks_request *request, const struct plan_budget *budget, struct run_plan *out,
                       struct error *error)
{
    struct tasks_result items = {0};
    struct job job = {
        .request = request, .out = &items, .models = request->method == NULL ? 1 : TASKS_MODELS, .planning = true};
    *out = (struct run_plan){.flops = 0};
    enum status status = job_open(&job, error);
    if (status == STATUS_OK) status = copy_open(&job, budget, error);
    if (status == STATUS_OK) status = groups_plan(&job, out, error);
    job_reset(&job);
    return status;
}

enum status tasks_run(const struct tasks_request *request, struct tasks_result *out, struct error *error)
{
    struct job job = {.request = request, .out = out, .models = request->method == NULL ? 1 : TASKS_MODELS};
    const struct plan_budget budget = backend_budget(request->backend, request->work_directory);
    enum status status;
    *out = (struct tasks_result){.models = job.models, .set_count = request->set_count};
    if ((status = job_open(&job, error)) != STATUS_OK) goto done;
    status = saved_table_open(request->work_directory, "items.table", request->fingerprint, out->item_count,
                              row_width(&job), &out->table, error);
    if (status != STATUS_OK) goto done;
    if (out->table.done > 0)
        monitor_log(request->monitor, "%lld of %lld items were answered before", (long long)out->table.done,
                    (long long)out->item_count);
    if ((status = copy_open(&job, &budget, error)) != STATUS_OK) goto done;
    if ((status = groups_run(&job, error)) != STATUS_OK) goto done;
    status = summarise(&job, error);
done:
    job_reset(&job);
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
