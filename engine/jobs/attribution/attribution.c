#include "jobs/attribution/attribution.h"

#include "base/checksum.h"
#include "base/memory.h"
#include "jobs/attribution/attribution_conclusions.h"
#include "jobs/quantize/quantize_plan.h"
#include "jobs/tally.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* A run's measurements in the order in which they are made: each unit alone at each width, each unit left out, the
 * whole at the method's own width, at the others, and the allocation. A row of the tally each. */
struct plan {
    int64_t left_out, whole, others, allocation, rows; /* where each begins; alone at 0 */
};

/* In place of a run: what it would need is added up, quantization by quantization, and no number is made. */
struct outlook {
    const struct plan_budget *budget;
    struct run_plan *plan;
    struct quantize_pass pass;
    struct quantize_member_state member, uncalibrated; /* their tokens in order; the request changes */
    int64_t times;                                     /* that each is counted */
};

struct work {
    const struct attribution_request *request;
    struct outlook *outlook; /* NULL: this is the run */
    int64_t hold_bytes;      /* of each quantization: 0, or 1 for as little as can be */
    struct attribution_result *out;
    struct plan plan;
    struct tally tally;
    struct matrix fp_hidden;                /* of the evaluation, after the last block */
    double calibration, head;               /* costs in passes of the evaluation tokens through a block */
    double done_cost, row_cost, total_cost; /* of rows that are there; of the one that is measured now; of all */
    struct monitor quiet, relay;            /* the owner's, without progress; with the progress of one row among all */
};

/* A row of the tally. */
enum {
    ROW_LOSS_FP,
    ROW_LOSS,
    ROW_DELTA,
    ROW_LOW,
    ROW_HIGH,
    ROW_KL,
    ROW_TOP1,
    ROW_BITS,
    ROW_WEIGHTS,
    ROW_CALIBRATION,
    ROW_WIDTH
};

void attribution_result_reset(struct attribution_result *result)
{
    memory_free(result->units);
    memory_free(result->alone);
    memory_free(result->left_out);
    memory_free(result->frontier);
    memory_free(result->picked);
    memory_free(result->overrides);
    *result = (struct attribution_result){0};
}

int64_t attribution_own_bits(const struct quantize_method *method)
{
    int64_t bits = 0;
    for (const struct param *param = quantizer_by_id(method->quantizer)->params; param->type != PARAM_END; param++)
        if (strcmp(param->name, "bits") == 0) memcpy(&bits, (const char *)method + param->offset, sizeof bits);
    return bits;
}

/* ---- what the owner sees ---- */

static void report(const struct work *work, double cost)
{
    monitor_progress(work->request->monitor, (int64_t)(work->done_cost + cost), (int64_t)work->total_cost, "block");
}

static void relay_progress(void *owner, int64_t done, int64_t total, const char *unit)
{
    const struct work *work = owner;
    (void)unit;
    report(work, work->row_cost * (double)done / (double)(total > 0 ? total : 1));
}

static void relay_log(void *owner, const char *line)
{
    monitor_log(((const struct work *)owner)->request->monitor, "%s", line);
}

static enum status relay_check(void *owner, struct error *error)
{
    return monitor_check(((const struct work *)owner)->request->monitor, error);
}

/* What a row takes, for the estimate of the time that is left. */
static double cost_of(const struct work *work, int64_t row)
{
    const struct plan *plan = &work->plan;
    const struct attribution_result *out = work->out;
    const int64_t layers = work->request->model->config.layers;
    if (row >= plan->whole) return (double)layers * (1 + work->calibration) + work->head;
    const bool alone = row < plan->left_out;
    const int64_t unit = alone ? row / out->width_count : row - plan->left_out;
    const double blocks = (double)(layers - out->units[unit].layer);
    return blocks + work->calibration * (alone ? 1 : blocks) + work->head;
}

static void costs_find(struct work *work)
{
    const struct attribution_request *request = work->request;
    const struct model_config *config = &request->model->config;
    const struct program *program = &request->model->programs[0];
    const struct sequences *calibration = request->calibration, *evaluation = request->evaluation;
    double block = 0;
    for (int i = 0; i < program->parameter_count; i++)
        block += (double)(program->parameters[i].rows * program->parameters[i].columns);
    work->head = 2.0 * (double)config->vocabulary_size * (double)config->hidden_size / block;
    if (calibration != NULL &&
        calibration->count > 0) /* to its linears, through it, and as much for Hessians and codes */
        work->calibration =
            3.0 * (double)calibration->starts[calibration->count] / (double)evaluation->starts[evaluation->count];
    for (int64_t row = 0; row < work->plan.rows; row++) work->total_cost += cost_of(work, row);
    for (int64_t row = 0; row < work->tally.done; row++) work->done_cost += cost_of(work, row);
}

/* ---- one measurement ---- */

static bool has(const struct work *work, int64_t row)
{
    return row < work->tally.done;
}

static struct attribution_number number_at(const struct work *work, int64_t row)
{
    const double *at = work->tally.values + row * ROW_WIDTH;
    return (struct attribution_number){.loss = at[ROW_LOSS],
                                       .delta = at[ROW_DELTA],
                                       .delta_low = at[ROW_LOW],
                                       .delta_high = at[ROW_HIGH],
                                       .kl = at[ROW_KL],
                                       .top1_agreement = at[ROW_TOP1],
                                       .bits = (int64_t)at[ROW_BITS],
                                       .weights = (int64_t)at[ROW_WEIGHTS]};
}

static enum status keep(struct work *work, const struct quantize_result *found, struct error *error)
{
    if (work->outlook != NULL) return STATUS_OK;
    double row[ROW_WIDTH] = {
        [ROW_LOSS_FP] = found->fp.loss,     [ROW_LOSS] = found->q.loss,
        [ROW_DELTA] = found->delta,         [ROW_LOW] = found->delta_low,
        [ROW_HIGH] = found->delta_high,     [ROW_KL] = found->kl,
        [ROW_TOP1] = found->top1_agreement, [ROW_CALIBRATION] = (double)found->calibration_tokens,
    };
    for (int64_t i = 0; i < found->layer_count; i++) {
        const struct layer_summary *layer = &found->layers[i];
        if (layer->skipped) continue;
        row[ROW_BITS] += (double)layer->bits;
        row[ROW_WEIGHTS] += (double)(layer->rows * layer->columns);
    }
    work->done_cost += cost_of(work, work->tally.done);
    enum status status = tally_add(&work->tally, row, error);
    if (status == STATUS_OK) status = tally_save(&work->tally, error); /* a measurement takes far longer */
    report(work, 0);
    return status;
}

static struct quantize_request request_of(const struct work *work, const struct quantize_override *items, int64_t count)
{
    const struct attribution_request *request = work->request;
    struct quantize_request quantize = {
        .model = request->model,
        .backend = request->backend,
        .method = request->method,
        .calibration = request->calibration,
        .evaluation = request->evaluation,
        .seed = request->seed,
        .monitor = &work->relay,
        .fp_hidden = work->fp_hidden,
        .hold_bytes = work->hold_bytes,
    };
    quantize.method.options.override_count = count;
    quantize.method.options.overrides = items;
    return quantize;
}

/* Shows layers of streams that are nowhere; what the walk has at that time is live meanwhile. */
static enum status outlook_visit(struct work *work, const struct quantize_request *request,
                                 const struct quantize_choice *choice, struct error *error)
{
    const struct model_config *config = &work->request->model->config;
    struct run_plan *plan = work->outlook->plan;
    enum status status = STATUS_OK;
    if (request->visitor.streams == NULL) return STATUS_OK;
    for (int room = 0; room < PLAN_ROOMS; room++) plan_take(plan, (enum plan_room)room, choice->shown[room]);
    for (int64_t layer = 0; layer <= config->layers && status == STATUS_OK; layer++) {
        const struct quantize_streams streams = {
            .layer = layer,
            .evaluation = {.rows = work->outlook->pass.evaluation.tokens, .columns = config->hidden_size}};
        status = request->visitor.streams(request->visitor.owner, &streams, error);
    }
    for (int room = 0; room < PLAN_ROOMS; room++) plan_give(plan, (enum plan_room)room, choice->shown[room]);
    return status;
}

static enum status outlook_add(struct work *work, const struct quantize_request *request, struct error *error)
{
    struct outlook *outlook = work->outlook;
    struct quantize_member_state *member = request->calibration != NULL ? &outlook->member : &outlook->uncalibrated;
    const struct quantize_member_state *const list[] = {member};
    struct quantize_choice choice;
    struct run_plan one;
    member->request = request;
    quantize_plan_choose(list, 1, outlook->budget, &choice, &one);
    plan_add(outlook->plan, &one, outlook->times);
    return outlook_visit(work, request, &choice, error);
}

static enum status quantize(struct work *work, const struct quantize_request *request, struct quantize_result *found,
                            struct error *error)
{
    return work->outlook != NULL ? outlook_add(work, request, error) : quantize_run(request, found, error);
}

/* Row `row`, which is the next that is missing; `streams` NULL: from the embeddings. */
static enum status measure(struct work *work, int64_t row, const struct quantize_override *items, int64_t count,
                           const struct quantize_streams *streams, int64_t settled_from, struct error *error)
{
    struct quantize_request request = request_of(work, items, count);
    struct quantize_result found = {0};
    request.start = streams;
    request.settled_from = settled_from;
    work->row_cost = cost_of(work, row);
    enum status status = quantize(work, &request, &found, error);
    if (status == STATUS_OK) status = keep(work, &found, error);
    quantize_result_reset(&found);
    return status;
}

/* ---- units from the streams before their block ---- */

static enum status measure_alone(struct work *work, int64_t unit, const struct quantize_streams *streams,
                                 struct error *error)
{
    const struct attribution_result *out = work->out;
    const struct attribution_unit *what = &out->units[unit];
    char others[ATTRIBUTION_PATTERN];
    enum status status = STATUS_OK;
    attribution_units_pattern(what, true, others);
    if (work->outlook != NULL) work->outlook->times = out->width_count; /* whatever the width */
    for (int64_t i = work->outlook != NULL ? out->own : 0; i < out->width_count && status == STATUS_OK; i++) {
        const int64_t row = unit * out->width_count + i;
        const struct quantize_override items[] = {{.pattern = others, .skip = true},
                                                  {.pattern = ".", .bits = out->widths[i]}};
        if (has(work, row)) continue;
        status = measure(work, row, items, i == out->own ? 1 : 2, streams, what->layer + 1, error);
        if (work->outlook != NULL) break;
        if (status == STATUS_OK)
            monitor_log(work->request->monitor, "%s alone, %" PRId64 " bits: delta %.5g", what->name, out->widths[i],
                        number_at(work, row).delta);
    }
    if (work->outlook != NULL) work->outlook->times = 1;
    return status;
}

static enum status measure_left_out(struct work *work, int64_t unit, const struct quantize_streams *streams,
                                    struct error *error)
{
    const struct attribution_unit *what = &work->out->units[unit];
    const int64_t row = work->plan.left_out + unit;
    char pattern[ATTRIBUTION_PATTERN];
    const struct quantize_override item = {.pattern = pattern, .skip = true};
    if (has(work, row)) return STATUS_OK;
    attribution_units_pattern(what, false, pattern);
    const enum status status = measure(work, row, &item, 1, streams, 0, error);
    if (status == STATUS_OK && work->outlook == NULL)
        monitor_log(work->request->monitor, "all but %s: delta %.5g", what->name, number_at(work, row).delta);
    return status;
}

static enum status each_of_layer(struct work *work, const struct quantize_streams *streams,
                                 enum status (*measure_unit)(struct work *, int64_t, const struct quantize_streams *,
                                                             struct error *),
                                 struct error *error)
{
    enum status status = STATUS_OK;
    for (int64_t unit = 0; unit < work->out->unit_count && status == STATUS_OK; unit++)
        if (work->out->units[unit].layer == streams->layer) status = measure_unit(work, unit, streams, error);
    return status;
}

static enum status visit_unquantized(void *owner, const struct quantize_streams *streams, struct error *error)
{
    return each_of_layer(owner, streams, measure_alone, error);
}

static enum status visit_quantized(void *owner, const struct quantize_streams *streams, struct error *error)
{
    return each_of_layer(owner, streams, measure_left_out, error);
}

/* ---- the walks that carry the streams ---- */

static const struct quantize_override everything[] = {{.pattern = ".", .skip = true}};

static enum status take_hidden(void *owner, const struct quantize_streams *streams, struct error *error)
{
    struct work *work = owner;
    struct backend *backend = work->request->backend;
    const struct matrix from = streams->evaluation;
    void *data = NULL;
    if (streams->layer < work->request->model->config.layers) return STATUS_OK;
    if (work->outlook != NULL) {
        plan_take(work->outlook->plan, backend_room(backend),
                  from.rows * from.columns * (int64_t)backend->ops->element);
        work->fp_hidden =
            matrix_of(work->outlook, from.rows, from.columns, backend->ops->element); /* which nobody reads */
        return STATUS_OK;
    }
    const enum status status = backend->ops->allocate(backend, from.rows * from.columns, "hidden states", &data, error);
    if (status != STATUS_OK) return status;
    work->fp_hidden = matrix_of(data, from.rows, from.columns, backend->ops->element);
    backend->ops->add(backend, work->fp_hidden, from, 1, 0);
    return STATUS_OK;
}

/* The evaluation's hidden states in full precision: the stream of a model of which nothing is quantized. */
static enum status find_hidden(struct work *work, struct error *error)
{
    struct quantize_request request = request_of(work, NULL, 0);
    struct quantize_result found = {0};
    request.method =
        (struct quantize_method){.quantizer = QUANTIZER_RTN, .rtn = {.bits = 8, .group_size = -1, .sym = true}};
    request.method.options.override_count = 1;
    request.method.options.overrides = everything;
    request.calibration = NULL;
    request.baseline = work->request->baseline;
    request.monitor = &work->quiet;
    request.visitor = (struct quantize_visitor){work, take_hidden};
    const enum status status = quantize(work, &request, &found, error);
    quantize_result_reset(&found);
    return status;
}

static enum status walk_unquantized(struct work *work, struct error *error)
{
    struct quantize_request request = request_of(work, everything, 1);
    struct quantize_result found = {0};
    if (has(work, work->plan.left_out - 1)) return STATUS_OK;
    request.monitor = &work->quiet;
    request.visitor = (struct quantize_visitor){work, visit_unquantized};
    const enum status status = quantize(work, &request, &found, error);
    quantize_result_reset(&found);
    return status;
}

static enum status walk_quantized(struct work *work, struct error *error)
{
    struct quantize_request request = request_of(work, NULL, 0);
    struct quantize_result found = {0};
    if (has(work, work->plan.whole)) return STATUS_OK;
    if (work->request->left_out) {
        request.visitor = (struct quantize_visitor){work, visit_quantized};
        request.monitor = &work->quiet;
    }
    work->row_cost = cost_of(work, work->plan.whole);
    enum status status = quantize(work, &request, &found, error);
    if (status == STATUS_OK) status = keep(work, &found, error);
    quantize_result_reset(&found);
    return status;
}

static enum status measure_others(struct work *work, struct error *error)
{
    const struct attribution_result *out = work->out;
    enum status status = STATUS_OK;
    for (int64_t i = 0, row = work->plan.others; i < out->width_count && status == STATUS_OK; i++) {
        const struct quantize_override item = {.pattern = ".", .bits = out->widths[i]};
        if (i == out->own) continue;
        if (!has(work, row)) status = measure(work, row, &item, 1, NULL, 0, error);
        row++;
    }
    return status;
}

/* ---- what follows from the measurements ---- */

static void gather(struct work *work)
{
    struct attribution_result *out = work->out;
    const struct plan *plan = &work->plan;
    for (int64_t i = 0; i < plan->left_out; i++) out->alone[i] = number_at(work, i);
    for (int64_t i = 0, row = plan->others; i < out->width_count; i++)
        out->whole[i] = number_at(work, i == out->own ? plan->whole : row++);
    for (int64_t i = 0; i < out->unit_count && out->left_out != NULL; i++) {
        const struct attribution_number *whole = &out->whole[out->own],
                                        *alone = &out->alone[i * out->width_count + out->own];
        out->left_out[i] =
            number_at(work, plan->left_out + i); /* which began at the unit's block, and counted from there */
        out->left_out[i].bits = whole->bits - alone->bits;
        out->left_out[i].weights = whole->weights - alone->weights;
    }
    out->loss_fp = work->tally.values[ROW_LOSS_FP];
    out->calibration_tokens = (int64_t)work->tally.values[plan->whole * ROW_WIDTH + ROW_CALIBRATION];
}

static enum status conclude(struct work *work, struct error *error)
{
    const struct attribution_request *request = work->request;
    struct attribution_result *out = work->out;
    const int64_t row = work->plan.allocation;
    enum status status;
    gather(work);
    attribution_conclusions_add_up(out);
    if (out->width_count == 1) return STATUS_OK;
    if ((status = attribution_conclusions_frontier(out, request->objective, error)) != STATUS_OK) return status;
    if (request->budget <= 0) return STATUS_OK;
    if ((status = attribution_conclusions_allocate(out, request->objective, request->budget, error)) != STATUS_OK)
        return status;
    if (!out->allocated) {
        monitor_log(request->monitor, "no allocation: the least widths take %.6g bits per weight", out->least);
        return STATUS_OK;
    }
    if (!has(work, row)) status = measure(work, row, out->overrides->items, out->overrides->count, NULL, 0, error);
    if (status == STATUS_OK) out->measured = number_at(work, row);
    return status;
}

/* ---- the beginning ---- */

/* The widths asked for and the method's own, ascending. */
static enum status widths_find(const struct attribution_request *request, struct attribution_result *out,
                               struct error *error)
{
    const int64_t own = attribution_own_bits(&request->method);
    if (own == 0 && request->width_count > 0)
        return error_set_at(error, STATUS_INVALID, "/bits", "%s has no bits to choose; leave them out",
                            quantizer_by_id(request->method.quantizer)->name);
    for (const int64_t *width = quantize_method_bits; *width > 0; width++) {
        bool asked = *width == own;
        for (int64_t i = 0; i < request->width_count; i++) asked = asked || request->widths[i] == *width;
        if (*width == own) out->own = out->width_count;
        if (asked) out->widths[out->width_count++] = *width;
    }
    if (own == 0) out->width_count = 1;
    if (request->budget > 0 && out->width_count < 2)
        return error_set_at(error, STATUS_INVALID, "/budget",
                            "needs two widths or more to choose from: give them as bits");
    return STATUS_OK;
}

static bool is_width(int64_t bits)
{
    const int64_t *width = quantize_method_bits;
    while (*width > 0 && *width != bits) width++;
    return *width > 0;
}

enum status attribution_check(const struct attribution_request *request, struct error *error)
{
    const struct quantize_options *options = &request->method.options;
    struct attribution_result widths = {0};
    if (options->override_count > 0)
        return error_set_at(error, STATUS_INVALID, "/method/overrides",
                            "must be empty: an attribution makes overrides of its own");
    if (options->embedding_bits > 0 || options->lm_head_bits > 0)
        return error_set_at(error, STATUS_INVALID,
                            options->embedding_bits > 0 ? "/method/embedding_bits" : "/method/lm_head_bits",
                            "must be null: an attribution is of the linears between embeddings and output");
    for (int64_t i = 0; i < request->width_count; i++)
        if (!is_width(request->widths[i]))
            return error_set_at(error, STATUS_INVALID, "/bits", "must be of 2, 3, 4 and 8, found %" PRId64,
                                request->widths[i]);
    const enum status status = widths_find(request, &widths, error);
    if (status == STATUS_OK && request->budget > 0 && request->budget < (double)widths.widths[0])
        return error_set_at(error, STATUS_INVALID, "/budget", "is below the least width, %" PRId64 " bits",
                            widths.widths[0]);
    return status;
}

/* Against a work directory that was left by other inputs. */
static uint64_t fingerprint(const struct work *work)
{
    const struct attribution_request *request = work->request;
    const struct attribution_result *out = work->out;
    const struct sequences *calibration = request->calibration, *evaluation = request->evaluation;
    const int64_t numbers[] = {
        request->model->parameters, out->unit_count,           out->width_count,  out->own,
        request->left_out,          request->method.quantizer, evaluation->count, (int64_t)request->seed};
    struct checksum sum;
    checksum_init(&sum);
    checksum_add(&sum, numbers, sizeof numbers);
    checksum_add(&sum, out->widths, sizeof out->widths);
    checksum_add(&sum, evaluation->tokens, (size_t)evaluation->starts[evaluation->count] * sizeof *evaluation->tokens);
    if (calibration != NULL && calibration->count > 0)
        checksum_add(&sum, calibration->tokens,
                     (size_t)calibration->starts[calibration->count] * sizeof *calibration->tokens);
    return checksum_value(&sum);
}

/* Units, and the order of what is measured. */
static enum status settle(struct work *work, struct error *error)
{
    const struct attribution_request *request = work->request;
    struct attribution_result *out = work->out;
    struct plan *plan = &work->plan;
    enum status status;
    if ((status = attribution_check(request, error)) != STATUS_OK ||
        (status = widths_find(request, out, error)) != STATUS_OK)
        return status;
    if ((status = evaluate_check(&request->model->config, request->evaluation, "evaluation", error)) != STATUS_OK)
        return status;
    status = attribution_units_new(request->model, request->part, &out->units, &out->unit_count, error);
    if (status == STATUS_OK && request->budget > 0)
        status = attribution_units_check(out->units, out->unit_count, out->width_count, error);
    if (status != STATUS_OK) return status;
    plan->left_out = out->unit_count * out->width_count;
    plan->whole = plan->left_out + (request->left_out ? out->unit_count : 0);
    plan->others = plan->whole + 1;
    plan->allocation = plan->others + out->width_count - 1;
    plan->rows = plan->allocation + (request->budget > 0);
    if ((status = memory_new(plan->left_out, sizeof *out->alone, "measurements", &out->alone, error)) != STATUS_OK)
        return status;
    if (!request->left_out) return STATUS_OK;
    return memory_new(out->unit_count, sizeof *out->left_out, "measurements", &out->left_out, error);
}

/* All measurements as if none were there. An allocation is a quantization like the others, if there is one. */
static enum status outlook_all(struct work *work, struct error *error)
{
    const struct attribution_request *request = work->request;
    struct outlook *outlook = work->outlook;
    const struct quantize_request whole = request_of(work, NULL, 0);
    enum status status;
    outlook->pass = (struct quantize_pass){.model = request->model, .backend = request->backend};
    outlook->member = (struct quantize_member_state){.pass = &outlook->pass, .request = &whole};
    outlook->uncalibrated = outlook->member;
    outlook->plan->at_most = request->budget > 0;
    tally_plan(work->plan.rows, ROW_WIDTH, request->work_directory != NULL ? work->plan.rows : 0, outlook->plan);
    plan_take(outlook->plan, PLAN_HOST, work->plan.whole * (int64_t)sizeof(struct attribution_number));
    plan_take(outlook->plan, PLAN_HOST, work->out->unit_count * (int64_t)sizeof(struct attribution_unit));
    if ((status = quantize_member_evaluation(&outlook->pass, request->evaluation, error)) != STATUS_OK) return status;
    if ((status = quantize_member_calibration(&outlook->member, error)) != STATUS_OK) return status;
    if ((status = find_hidden(work, error)) != STATUS_OK) return status;
    if ((status = walk_unquantized(work, error)) != STATUS_OK) return status;
    if ((status = walk_quantized(work, error)) != STATUS_OK) return status;
    if ((status = measure_others(work, error)) != STATUS_OK || request->budget <= 0) return status;
    return measure(work, work->plan.allocation, NULL, 0, NULL, 0, error);
}

/* With activations held between linears as usual or, where that does not fit, as few as can be. */
static enum status outlook_find(struct work *work, const struct plan_budget *budget, struct run_plan *plan,
                                struct error *error)
{
    enum status status = STATUS_OK;
    for (work->hold_bytes = 0; work->hold_bytes < 2 && status == STATUS_OK; work->hold_bytes++) {
        struct outlook outlook = {.budget = budget, .plan = plan, .times = 1};
        *plan = (struct run_plan){.flops = 0};
        work->outlook = &outlook;
        status = outlook_all(work, error);
        work->outlook = NULL;
        work->fp_hidden = (struct matrix){0};
        chunks_reset(&outlook.member.calibration);
        chunks_reset(&outlook.pass.evaluation);
        if (plan_fits(plan, budget)) return status;
    }
    work->hold_bytes = 1;
    return status;
}

enum status attribution_plan(const struct attribution_request *request, const struct plan_budget *budget,
                             struct run_plan *out, struct error *error)
{
    struct attribution_result units = {0};
    struct work work = {.request = request, .out = &units};
    *out = (struct run_plan){.flops = 0};
    enum status status = settle(&work, error);
    if (status == STATUS_OK) status = outlook_find(&work, budget, out, error);
    attribution_result_reset(&units);
    return status;
}

static enum status prepare(struct work *work, struct error *error)
{
    const struct attribution_request *request = work->request;
    const struct plan_budget budget = backend_budget(request->backend, request->work_directory);
    struct run_plan plan;
    enum status status = settle(work, error);
    if (status == STATUS_OK) status = outlook_find(work, &budget, &plan, error);
    if (status == STATUS_OK && !plan_fits(&plan, &budget))
        status = plan_refuse(
            &plan, &budget, "give it fewer or shorter sequences, or more memory (--memory, DELTAQ_CUDA_MEMORY)", error);
    if (status == STATUS_OK)
        status = tally_open(request->work_directory, "attribution.tally", fingerprint(work), work->plan.rows, ROW_WIDTH,
                            &work->tally, error);
    if (status != STATUS_OK) return status;
    work->out->flops = plan.flops;
    costs_find(work);
    return STATUS_OK;
}

enum status attribution_run(const struct attribution_request *request, struct attribution_result *out,
                            struct error *error)
{
    struct work work = {.request = request, .out = out};
    enum status status;
    *out = (struct attribution_result){0};
    work.quiet = (struct monitor){.owner = &work, .log = relay_log, .check = relay_check};
    work.relay = (struct monitor){.owner = &work, .progress = relay_progress, .log = relay_log, .check = relay_check};
    if ((status = prepare(&work, error)) != STATUS_OK) goto done;
    report(&work, 0);
    if (work.tally.done < work.plan.rows && (status = find_hidden(&work, error)) != STATUS_OK) goto done;
    if ((status = walk_unquantized(&work, error)) != STATUS_OK) goto done;
    if ((status = walk_quantized(&work, error)) != STATUS_OK) goto done;
    if ((status = measure_others(&work, error)) != STATUS_OK) goto done;
    status = conclude(&work, error);
done:
    matrix_release(request->backend, &work.fp_hidden);
    tally_reset(&work.tally);
    if (status != STATUS_OK) attribution_result_reset(out);
    return status;
}
