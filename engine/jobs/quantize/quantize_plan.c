#include "jobs/quantize/quantize_plan.h"

#include "base/integer.h"
#include "base/memory.h"
#include "model/loader.h"
#include "model/work.h"
#include "quant/coded.h"
#include "quant/cuts.h"
#include "quant/overrides.h"

#include <string.h>

/* The members of one batch, and what the plan has to provide for all of them. */
struct planned_batch {
    const struct quantize_member_state *const *members;
    int64_t count;
    const struct quantize_pass *pass;
    const struct quantize_request *first;
    int64_t longest, largest, calibration; /* tokens: of a sequence, a chunk, the largest calibration */
    unsigned needs;
    bool lent;                   /* the full-precision hidden states are another run's */
    bool spills;                 /* no other run hands streams to the members or reads theirs */
    bool embeds;                 /* streams begin at the embeddings */
    int64_t begins, idle_from;   /* blocks [begins, layers) pass; calibration ends before block `idle_from` */
    struct overrides *overrides; /* of the only member; owned; NULL: none, or there are several members */
};

/* The handover of a request that is executed, whose streams exist. */
static struct quantize_handover handover_of(const struct quantize_request *request)
{
    return (struct quantize_handover){.lent = request->fp_hidden.data != NULL,
                                      .shown = request->visitor.streams != NULL,
                                      .start = request->start == NULL ? -1 : request->start->layer};
}

/* Streams that other runs read must stay in memory. */
static bool may_spill(const struct quantize_handover *handover)
{
    return !handover->lent && !handover->shown && handover->start < 0;
}

/* `handover` is the first member's. */
static struct planned_batch batch_of(const struct quantize_member_state *const *members, int64_t count,
                                     const struct quantize_handover *handover)
{
    const struct quantize_pass *pass = members[0]->pass;
    struct planned_batch batch = {.members = members, .count = count, .pass = pass, .first = members[0]->request};
    batch.lent = handover->lent;
    batch.spills = may_spill(handover);
    for (int64_t i = 1; i < count; i++) {
        const struct quantize_handover other = handover_of(members[i]->request);
        batch.spills = batch.spills && may_spill(&other);
    }
    batch.longest = pass->evaluation.longest;
    batch.largest = pass->evaluation.largest;
    for (int64_t i = 0; i < count; i++) {
        const struct chunks *calibration = &members[i]->calibration;
        batch.longest = larger(batch.longest, calibration->longest);
        batch.largest = larger(batch.largest, calibration->largest);
        batch.calibration = larger(batch.calibration, calibration->tokens);
        if (calibration->count > 0) batch.needs |= quantizer_by_id(members[i]->request->method.quantizer)->needs;
    }
    batch.idle_from = pass->model->config.layers;
    batch.embeds = true;
    if (count > 1) return batch;
    const struct quantize_request *request = batch.first;
    struct error unused;
    batch.embeds = handover->start < 0 || !handover->lent;
    if (!batch.embeds) batch.begins = handover->start;
    if (request->idle_from > 0) batch.idle_from = request->idle_from;
    if (request->method.options.override_count > 0 &&
        overrides_new(&request->method, &batch.overrides, &unused) != STATUS_OK)
        batch.overrides = NULL; /* the run refuses impossible overrides */
    return batch;
}

/* Whether the overrides skip all linears of a cut, so that nothing is calibrated for it. */
static bool idle(const struct planned_batch *batch, const struct program *program, const struct cut *cut)
{
    struct error unused;
    bool out = false;
    if (batch->overrides == NULL) return false;
    return sequential_left_alone(batch->overrides, program, cut, &out, &unused) == STATUS_OK && out;
}

/* ---- Memory ---- */

/* Columns of a block while it is quantized, and rows of an error while it is measured, of the smallest layers too. */
enum { SOLVER_COLUMNS = 256 };

/* Whether outliers multiply the original weights: LLM.int8 as in the paper. */
static bool is_exact(const struct quantize_method *method)
{
    return method->quantizer == QUANTIZER_LLM_INT8 && method->llm_int8.variant > 0;
}

/* Whether the outputs of blocks judge candidates: AWQ's exponents. */
static bool is_judged(const struct quantize_method *method)
{
    return method->quantizer == QUANTIZER_AWQ && method->awq.judge == AWQ_JUDGE_BLOCK;
}

/* Bytes that quantizers need beside the statistics for the linears of one input: the factor of the Hessian, the weights
 * in another order as floats, and the codes twice. Kept outlier columns need one more copy of factor and weights.
 * `aside`: bytes that a device's quantizers put into host memory: codes, and for LLM.int8 as in the paper the original
 * weights, which its outliers multiply. */
static int64_t solver_bytes(const struct planned_batch *batch, bool aside)
{
    const struct model *model = batch->pass->model;
    int64_t most = 0, copies = 1, kept = 0, judged = 0;
    struct cuts cuts;
    for (int64_t i = 0; i < batch->count; i++) {
        if (batch->members[i]->request->method.options.keep_outliers > 0) copies = 2;
        if (is_exact(&batch->members[i]->request->method)) kept = (int64_t)sizeof(float);
        if (!is_judged(&batch->members[i]->request->method)) continue;
        copies = 2; /* the original weights */
        judged = 2 * (int64_t)sizeof(float) * batch->largest * model->config.hidden_size;
    }
    for (int64_t layer = batch->begins; layer < batch->idle_from; layer++) {
        const struct program *program = &model->programs[layer];
        cuts_plan(program, 0, &cuts);
        for (int i = 0; i < cuts.count; i++) {
            const struct cut *cut = &cuts.cuts[i];
            if (idle(batch, program, cut)) continue;
            const struct parameter *weight = &program->parameters[program->steps[cut->step].parameter[0]];
            int64_t rows = 0;
            for (int k = 0; k < cut->count; k++)
                rows += program->parameters[program->steps[cut->step + k].parameter[0]].rows;
            const int64_t square = batch->needs != 0 ? weight->columns * weight->columns : 0;
            const int64_t slab = smaller(coded_slab_rows(batch->pass->backend), larger(rows, SOLVER_COLUMNS));
            const int64_t slabs = 2 * slab * weight->columns + SOLVER_COLUMNS * rows;
            const int64_t floats = (int64_t)sizeof(float) * (copies * (square + rows * weight->columns) + slabs);
            most = larger(most, (aside ? kept * rows * weight->columns : floats) + 2 * rows * weight->columns);
        }
    }
    return aside ? most : most + judged;
}

/* Bytes that a member whose method treats inputs keeps from block to block: inputs rotated and rounded, and if outliers
 * multiply the original weights, the outliers and one block's original weights. */
static int64_t treated_bytes(const struct planned_batch *batch, const struct quantize_member_state *member)
{
    const struct model *model = batch->pass->model;
    const struct quantize_method *method = &member->request->method;
    const bool exact = is_exact(method);
    const int64_t inputs = batch->largest * sequential_scratch_widest(model);
    if (!quantize_method_treats_inputs(method)) return 0;
    return (int64_t)sizeof(float) * (exact ? 3 * inputs + loader_elements(model) : 2 * inputs);
}

static int64_t output_elements(const struct quantize_member_state *member)
{
    const struct parameter *output = &member->pass->model->ends.output;
    return member->request->method.options.lm_head_bits > 0 ? output->rows * output->columns : 0;
}

static void take_streams(const struct planned_batch *batch, const struct quantize_choice *choice, struct run_plan *plan)
{
    const struct quantize_pass *pass = batch->pass;
    const int64_t width = pass->model->config.hidden_size;
    if (!batch->lent) hidden_plan(pass->backend, &pass->evaluation, width, &choice->place, plan);
    for (int64_t i = 0; i < batch->count; i++) {
        hidden_plan(pass->backend, &pass->evaluation, width, &choice->place, plan);
        if (batch->members[i]->calibration.count > 0)
            hidden_plan(pass->backend, &batch->members[i]->calibration, width, &choice->calibration, plan);
    }
}

/* Texts, and the results for every token. */
static void take_results(const struct planned_batch *batch, struct run_plan *plan)
{
    const int64_t tokens = batch->pass->evaluation.tokens;
    plan_take(plan, PLAN_HOST,
              PLAN_SMALL_BYTES + chunks_bytes(&batch->pass->evaluation) + tokens * (int64_t)sizeof(double));
    for (int64_t i = 0; i < batch->count; i++) {
        const int64_t kept = batch->members[i]->request->per_token ? batch->pass->evaluation.predictions : 0;
        plan_take(plan, PLAN_HOST,
                  chunks_bytes(&batch->members[i]->calibration) +
                      tokens * (int64_t)(2 * sizeof(double) + sizeof(uint8_t)) + kept * 3 * (int64_t)sizeof(float));
    }
}

static void take_blocks(const struct planned_batch *batch, struct quantize_choice *choice, struct run_plan *plan)
{
    const struct quantize_pass *pass = batch->pass;
    struct backend *backend = pass->backend;
    const enum plan_space space = backend_space(backend);
    plan_take(plan, space, walk_bytes(&pass->model->config, backend, WALK_FORWARD, batch->largest));
    if (batch->calibration > 0)
        sequential_scratch_plan(pass->model, backend, batch->needs, batch->calibration, choice->hold_bytes, plan);
    plan_take(plan, space, loader_bytes(pass->model, backend));
    plan_take(plan, PLAN_HOST, loader_staging_bytes(pass->model, backend));
    if (batch->count > 1) plan_take(plan, space, loader_elements(pass->model) * (int64_t)backend->ops->element);
    for (int64_t i = 0; i < batch->count; i++) plan_take(plan, space, treated_bytes(batch, batch->members[i]));
    memcpy(choice->shown, plan->live, sizeof choice->shown);
    plan_take(plan, space, solver_bytes(batch, false));
    if (space == PLAN_DEVICE) plan_take(plan, PLAN_HOST, solver_bytes(batch, true));
}

/* The streams of calibrations are released before the head is loaded, so that the head is planned without them. */
static void take_head(const struct planned_batch *batch, struct run_plan *plan)
{
    const struct quantize_pass *pass = batch->pass;
    struct backend *backend = pass->backend;
    const enum plan_space space = backend_space(backend);
    plan_take(plan, space, head_bytes(&pass->model->config, backend, HEAD_COMPARE, HEAD_LOADS_ALL));
    for (int64_t i = 0; i < batch->count; i++)
        plan_take(plan, space, output_elements(batch->members[i]) * (int64_t)backend->ops->element);
}

/* Releases everything that was taken since `before`; the peak stays. */
static void back_to(const struct run_plan *before, struct run_plan *plan)
{
    for (int space = 0; space < PLAN_SPACES; space++) plan->live[space] = before->live[space];
}

static void fill_memory(const struct planned_batch *batch, struct quantize_choice *choice, struct run_plan *plan)
{
    const struct quantize_pass *pass = batch->pass;
    const struct model_config *config = &pass->model->config;
    struct backend *backend = pass->backend;
    const enum plan_space space = backend_space(backend);
    struct run_plan begun, streams;
    take_results(batch, plan);
    plan_take(plan, PLAN_HOST, backend->ops->scratch(batch->longest, config->vocabulary_size));
    plan_take(plan, space, model_rope_bytes(config, backend, batch->longest));
    begun = *plan;
    take_streams(batch, choice, plan);
    streams = *plan;
    if (batch->embeds) plan_take(plan, space, embed_bytes(config, backend, batch->largest, true));
    back_to(&streams, plan);
    take_blocks(batch, choice, plan);
    /* the head, without the calibrations' streams */
    back_to(&begun, plan);
    struct run_plan evaluation = *plan;
    const int64_t width = config->hidden_size;
    for (int64_t i = batch->lent ? 0 : -1; i < batch->count; i++)
        hidden_plan(backend, &pass->evaluation, width, &choice->place, &evaluation);
    take_head(batch, &evaluation);
    for (int k = 0; k < PLAN_SPACES; k++) plan->peak[k] = larger(plan->peak[k], evaluation.peak[k]);
}

/* ---- Work ---- */

/* The work of sequential_block: calibration tokens pass the steps before each cut, their Hessians are summed, and the
 * quantizer factors and uses these. */
static double calibrate_block(const struct planned_batch *batch, const struct quantize_method *method,
                              const struct program *program, const struct chunks *chunks, int64_t budget_width,
                              bool last)
{
    struct cuts cuts;
    const struct cut *held = NULL;
    double work = 0;
    cuts_plan(program, budget_width, &cuts);
    for (int i = 0; i < cuts.count; i++) {
        const struct cut *cut = &cuts.cuts[i];
        const struct step *step = &program->steps[cut->step];
        const struct parameter *weight = &program->parameters[step->parameter[0]];
        const double columns = (double)weight->columns, tokens = (double)chunks->tokens;
        const bool routed = step->op == &op_experts;
        const double visits = routed ? (double)step->attributes.experts.per_token : 1;
        const double factors = routed ? (double)step->attributes.experts.count : 1;
        double rows = 0;
        if (idle(batch, program, cut)) continue;
        for (int k = 0; k < cut->count; k++)
            rows += (double)program->parameters[program->steps[cut->step + k].parameter[0]].rows;
        work += work_steps(program, held == NULL ? 0 : held->resume, cut->step, chunks);
        work +=
            tokens * visits * columns * columns + factors * (columns * columns * columns + rows * columns * columns);
        if (cut->held) held = cut;
        if (is_judged(method)) /* each candidate, and the original weights */
            work += factors * (double)(method->awq.grid_points + 1) *
                    work_steps(program, held == NULL ? 0 : held->resume, program->step_count, chunks);
    }
    return last ? work : work + work_steps(program, held == NULL ? 0 : held->resume, program->step_count, chunks);
}

static double calibrate(const struct planned_batch *batch, const struct quantize_member_state *member,
                        int64_t hold_bytes)
{
    const struct model *model = member->pass->model;
    const int64_t tokens = member->calibration.tokens, element = (int64_t)member->pass->backend->ops->element;
    double work = 0;
    for (int64_t layer = batch->begins; layer < batch->idle_from && tokens > 0; layer++)
        work += calibrate_block(batch, &member->request->method, &model->programs[layer], &member->calibration,
                                hold_bytes / tokens / element, layer + 1 == batch->idle_from);
    return work;
}

static int64_t stored_bytes(const struct model *model, const struct parameter *parameter)
{
    const int64_t index = parameter->name[0] == '\0' ? -1 : weights_find(model->weights, parameter->name);
    struct weights_tensor found = {.bytes = 0};
    if (index >= 0) weights_tensor(model->weights, index, &found);
    return found.bytes;
}

/* The blocks and the head, and the embeddings unless streams of another run are given. */
static int64_t read_bytes(const struct planned_batch *batch)
{
    const struct model *model = batch->pass->model;
    const struct decoder_ends *ends = &model->ends;
    const struct parameter *const head[] = {&ends->norm_weight, &ends->norm_bias, &ends->project_out, &ends->output};
    int64_t bytes = 0;
    if (batch->embeds)
        return weights_bytes(model->weights) + (model->config.tied ? stored_bytes(model, &ends->output) : 0);
    for (int i = 0; i < 4; i++) bytes += stored_bytes(model, head[i]);
    for (int64_t layer = batch->begins; layer < model->config.layers; layer++)
        for (int i = 0; i < model->programs[layer].parameter_count; i++)
            bytes += stored_bytes(model, &model->programs[layer].parameters[i]);
    return bytes;
}

/* The full-precision stream is counted even where an earlier run left a baseline of it, because only the worker knows
 * which baselines it has. */
static void fill_work(const struct planned_batch *batch, const struct quantize_choice *choice, struct run_plan *plan)
{
    const struct quantize_pass *pass = batch->pass;
    const struct model *model = pass->model;
    const struct model_config *config = &model->config;
    const double head = work_head(config, pass->evaluation.tokens);
    const int64_t walks = batch->count + (batch->lent ? 0 : 1);
    const int64_t row = config->hidden_size * (int64_t)pass->backend->ops->element;
    double once = 0;
    for (int64_t layer = batch->begins; layer < config->layers; layer++)
        once += work_steps(&model->programs[layer], 0, model->programs[layer].step_count, &pass->evaluation);
    plan->read_bytes = read_bytes(batch);
    plan->tokens = walks * pass->evaluation.tokens;
    plan->flops = (double)walks * once + (double)(batch->count + 1) * head;
    for (int64_t i = 0; i < batch->count; i++) {
        plan->tokens += batch->members[i]->calibration.tokens;
        plan->flops += calibrate(batch, batch->members[i], choice->hold_bytes);
    }
    if (choice->place.directory == NULL) return;
    plan->read_bytes += (config->layers + 2) * plan->spilled_tokens * row;
    plan->written_bytes += (config->layers + 1) * plan->spilled_tokens * row;
}

/* ---- The choice ---- */

static void fill(const struct planned_batch *batch, struct quantize_choice *choice, struct run_plan *plan)
{
    *plan = (struct run_plan){.flops = 0};
    fill_memory(batch, choice, plan);
    fill_work(batch, choice, plan);
}

static int64_t preferred_hold(const struct planned_batch *batch)
{
    int64_t hold = INT64_MAX;
    if (batch->first->hold_bytes > 0) return batch->first->hold_bytes;
    for (int64_t i = 0; i < batch->count; i++) {
        const int64_t bytes = quantize_member_hold_bytes(batch->members[i], batch->largest);
        if (batch->members[i]->calibration.count > 0 && bytes < hold) hold = bytes;
    }
    return hold == INT64_MAX ? 0 : hold;
}

/* Calibration streams are spilled last, because calibration tokens pass a block once for each cut and evaluation tokens
 * pass it once. */
static void choose(const struct planned_batch *batch, const struct plan_budget *budget, struct quantize_choice *choice,
                   struct run_plan *out)
{
    const char *const places[] = {NULL, batch->first->directory};
    *choice = (struct quantize_choice){{HIDDEN_PARTS, NULL}, {HIDDEN_PARTS, NULL}, preferred_hold(batch), {0}};
    fill(batch, choice, out);
    if (plan_fits(out, budget)) return;
    choice->hold_bytes = 0;
    fill(batch, choice, out);
    if (!batch->spills) return;
    for (int i = batch->pass->backend->ops->host ? 1 : 0; i < (places[1] != NULL ? 2 : 1); i++)
        for (int64_t parts = 2 * HIDDEN_PARTS - 1; parts >= 0 && !plan_fits(out, budget); parts--) {
            choice->place = (struct hidden_place){parts > HIDDEN_PARTS ? parts - HIDDEN_PARTS : 0, places[i]};
            choice->calibration = (struct hidden_place){parts < HIDDEN_PARTS ? parts : HIDDEN_PARTS, places[i]};
            fill(batch, choice, out);
        }
}

void quantize_plan_choose(const struct quantize_member_state *const *members, int64_t count,
                          const struct plan_budget *budget, struct quantize_choice *choice, struct run_plan *out)
{
    const struct quantize_handover handover = handover_of(members[0]->request);
    const struct planned_batch batch = batch_of(members, count, &handover);
    choose(&batch, budget, choice, out);
    overrides_free(batch.overrides);
}

enum status quantize_plan(const struct quantize_request *requests, int64_t count, const struct plan_budget *budget,
                          struct run_plan *out, struct error *error)
{
    struct quantize_pass pass = {.model = requests[0].model, .backend = requests[0].backend};
    struct quantize_member_state *members = NULL;
    const struct quantize_member_state **list = NULL;
    struct quantize_choice choice;
    enum status status;
    *out = (struct run_plan){.flops = 0};
    if ((status = quantize_member_evaluation(&pass, requests[0].evaluation, error)) != STATUS_OK) goto done;
    if ((status = memory_new(count, sizeof *members, "members", &members, error)) != STATUS_OK) goto done;
    if ((status = memory_new(count, sizeof *list, "members", &list, error)) != STATUS_OK) goto done;
    for (int64_t i = 0; i < count; i++) {
        members[i] = (struct quantize_member_state){.pass = &pass, .request = &requests[i]};
        list[i] = &members[i];
        if ((status = quantize_member_calibration(&members[i], error)) != STATUS_OK) goto done;
    }
    quantize_plan_choose(list, count, budget, &choice, out);
done:
    for (int64_t i = 0; members != NULL && i < count; i++) chunks_reset(&members[i].calibration);
    memory_free(list);
    memory_free(members);
    chunks_reset(&pass.evaluation);
    return status;
}

/* ---- Quantizations that are parts of a job ---- */

enum status quantize_planner_init(const struct quantize_request *request, struct quantize_planner *out,
                                  struct error *error)
{
    *out = (struct quantize_planner){.pass = {.model = request->model, .backend = request->backend}};
    out->calibrated = (struct quantize_member_state){.pass = &out->pass, .request = request};
    out->uncalibrated = (struct quantize_member_state){.pass = &out->pass};
    const enum status status = quantize_member_evaluation(&out->pass, request->evaluation, error);
    return status == STATUS_OK ? quantize_member_calibration(&out->calibrated, error) : status;
}

void quantize_planner_plan(struct quantize_planner *planner, const struct quantize_request *request,
                           const struct quantize_handover *handover, const struct plan_budget *budget,
                           struct quantize_choice *choice, struct run_plan *out)
{
    struct quantize_member_state *member = request->calibration != NULL ? &planner->calibrated : &planner->uncalibrated;
    const struct quantize_member_state *const list[] = {member};
    member->request = request;
    const struct planned_batch batch = batch_of(list, 1, handover);
    choose(&batch, budget, choice, out);
    overrides_free(batch.overrides);
}

void quantize_planner_reset(struct quantize_planner *planner)
{
    chunks_reset(&planner->calibrated.calibration);
    chunks_reset(&planner->pass.evaluation);
}
