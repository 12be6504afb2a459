#include "jobs/quantize_plan.h"

#include "base/memory.h"
#include "model/loader.h"
#include "model/work.h"
#include "quant/cuts.h"
#include "quant/overrides.h"

#include <string.h>

/* What is planned for: the recipes of one walk, and the demands that they have in common. */
struct party {
    const struct quantize_recipe *const *recipes;
    int64_t count;
    const struct quantize_shared *shared;
    const struct quantize_request *first;
    int64_t longest, largest, calibration; /* tokens: of a sequence, a chunk, the largest calibration */
    unsigned needs;
    bool embeds;                 /* streams begin at the embeddings */
    int64_t begins, settled;     /* blocks [begins, layers) pass; calibration ends before block `settled` */
    struct overrides *overrides; /* of a quantization that is alone; owned; NULL: every cut is worked on */
};

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static struct party party_of(const struct quantize_recipe *const *recipes, int64_t count)
{
    const struct quantize_shared *shared = recipes[0]->shared;
    struct party party = {.recipes = recipes, .count = count, .shared = shared, .first = recipes[0]->request};
    party.longest = shared->evaluation.longest;
    party.largest = shared->evaluation.largest;
    for (int64_t i = 0; i < count; i++) {
        const struct chunks *calibration = &recipes[i]->calibration;
        party.longest = larger(party.longest, calibration->longest);
        party.largest = larger(party.largest, calibration->largest);
        party.calibration = larger(party.calibration, calibration->tokens);
        if (calibration->count > 0) party.needs |= quantizer_by_id(recipes[i]->request->method.quantizer)->needs;
    }
    party.settled = shared->model->config.layers;
    party.embeds = true;
    if (count > 1) return party;
    const struct quantize_request *request = party.first;
    struct error unused;
    party.embeds = request->start == NULL || request->fp_hidden.data == NULL;
    if (!party.embeds) party.begins = request->start->layer;
    if (request->settled_from > 0) party.settled = request->settled_from;
    if (request->method.options.override_count > 0 && overrides_new(&request->method, &party.overrides, &unused) != STATUS_OK)
        party.overrides = NULL; /* what is wrong shows when it runs */
    return party;
}

/* A cut that nobody works on. */
static bool idle(const struct party *party, const struct program *program, const struct cut *cut)
{
    struct error unused;
    bool out = false;
    if (party->overrides == NULL) return false;
    return sequential_left_alone(party->overrides, program, cut, &out, &unused) == STATUS_OK && out;
}

/* ---- Memory ---- */

/* Rows of an error while it is measured, columns of a block while it is quantized. */
enum { SOLVER_SLAB_ROWS = 256 };

/* Whether outliers multiply the original weights: LLM.int8 as in the paper. */
static bool is_exact(const struct quantize_method *method)
{
    return method->quantizer == QUANTIZER_LLM_INT8 && method->llm_int8.variant > 0;
}

/* What the quantizers need beside the statistics for the linears of one input: the factor of the Hessian, floats of the weights in
 * another order, and codes twice. Columns that are taken out are a copy too. `aside`: what comes to the host where a device works:
 * codes, and the weights as they were, which LLM.int8's outliers multiply. */
static int64_t solver_bytes(const struct party *party, bool aside)
{
    const struct model *model = party->shared->model;
    int64_t most = 0, copies = 1, kept = 0;
    struct cuts cuts;
    for (int64_t i = 0; i < party->count; i++) {
        if (party->recipes[i]->request->method.options.keep_outliers > 0) copies = 2;
        if (is_exact(&party->recipes[i]->request->method)) kept = (int64_t)sizeof(float);
    }
    for (int64_t layer = party->begins; layer < party->settled; layer++) {
        const struct program *program = &model->programs[layer];
        cuts_plan(program, 0, &cuts);
        for (int i = 0; i < cuts.count; i++) {
            const struct cut *cut = &cuts.cuts[i];
            if (idle(party, program, cut)) continue;
            const struct parameter *weight = &program->parameters[program->steps[cut->step].parameter[0]];
            int64_t rows = 0;
            for (int k = 0; k < cut->count; k++) rows += program->parameters[program->steps[cut->step + k].parameter[0]].rows;
            const int64_t square = party->needs != 0 ? weight->columns * weight->columns : 0;
            const int64_t slabs = SOLVER_SLAB_ROWS * (2 * weight->columns + rows);
            const int64_t floats = (int64_t)sizeof(float) * (copies * (square + rows * weight->columns) + slabs);
            most = larger(most, (aside ? kept * rows * weight->columns : floats) + 2 * rows * weight->columns);
        }
    }
    return most;
}

/* What stays with a recipe from block to block where inputs are treated: inputs turned and rounded, and where outliers multiply the
 * original weights those outliers and a block's own weights. */
static int64_t treated_bytes(const struct party *party, const struct quantize_recipe *recipe)
{
    const struct model *model = party->shared->model;
    const struct quantize_method *method = &recipe->request->method;
    const bool exact = is_exact(method);
    const int64_t inputs = party->largest * sequential_room_widest(model);
    if (!quantize_method_treats_inputs(method)) return 0;
    return (int64_t)sizeof(float) * (exact ? 3 * inputs + loader_elements(model) : 2 * inputs);
}

static int64_t output_elements(const struct quantize_recipe *recipe)
{
    const struct parameter *output = &recipe->shared->model->ends.output;
    return recipe->request->method.options.lm_head_bits > 0 ? output->rows * output->columns : 0;
}

static void take_streams(const struct party *party, const struct quantize_choice *choice, struct run_plan *plan)
{
    const struct quantize_shared *shared = party->shared;
    const int64_t width = shared->model->config.hidden_size;
    if (party->first->fp_hidden.data == NULL) hidden_plan(shared->backend, &shared->evaluation, width, &choice->place, plan);
    for (int64_t i = 0; i < party->count; i++) {
        hidden_plan(shared->backend, &shared->evaluation, width, &choice->place, plan);
        if (party->recipes[i]->calibration.count > 0)
            hidden_plan(shared->backend, &party->recipes[i]->calibration, width, &choice->calibration, plan);
    }
}

/* Texts, and what is found of every token. */
static void take_results(const struct party *party, struct run_plan *plan)
{
    const int64_t tokens = party->shared->evaluation.tokens;
    plan_take(plan, PLAN_HOST, PLAN_SMALL_BYTES + chunks_bytes(&party->shared->evaluation) + tokens * (int64_t)sizeof(double));
    for (int64_t i = 0; i < party->count; i++)
        plan_take(plan, PLAN_HOST,
                  chunks_bytes(&party->recipes[i]->calibration) + tokens * (int64_t)(2 * sizeof(double) + sizeof(uint8_t)));
}

static void take_blocks(const struct party *party, struct quantize_choice *choice, struct run_plan *plan)
{
    const struct quantize_shared *shared = party->shared;
    struct backend *backend = shared->backend;
    const enum plan_room room = backend_room(backend);
    plan_take(plan, room, walk_bytes(&shared->model->config, backend, WALK_FORWARD, party->largest));
    if (party->calibration > 0)
        sequential_room_plan(shared->model, backend, party->needs, party->calibration, choice->hold_bytes, plan);
    plan_take(plan, room, loader_bytes(shared->model, backend));
    plan_take(plan, PLAN_HOST, loader_staging_bytes(shared->model, backend));
    if (party->count > 1) plan_take(plan, room, loader_elements(shared->model) * (int64_t)backend->ops->element);
    for (int64_t i = 0; i < party->count; i++) plan_take(plan, room, treated_bytes(party, party->recipes[i]));
    memcpy(choice->shown, plan->live, sizeof choice->shown);
    plan_take(plan, room, solver_bytes(party, false));
    if (room == PLAN_DEVICE) plan_take(plan, PLAN_HOST, solver_bytes(party, true));
}

/* Calibrations are given back before the head comes; what little their windows take is left out of that. */
static void take_head(const struct party *party, struct run_plan *plan)
{
    const struct quantize_shared *shared = party->shared;
    struct backend *backend = shared->backend;
    const enum plan_room room = backend_room(backend);
    plan_take(plan, room, head_bytes(&shared->model->config, backend, HEAD_COMPARE, HEAD_LOADS_ALL));
    for (int64_t i = 0; i < party->count; i++)
        plan_take(plan, room, output_elements(party->recipes[i]) * (int64_t)backend->ops->element);
}

/* From here on nothing else is live than before. */
static void back_to(const struct run_plan *before, struct run_plan *plan)
{
    for (int room = 0; room < PLAN_ROOMS; room++) plan->live[room] = before->live[room];
}

static void fill_memory(const struct party *party, struct quantize_choice *choice, struct run_plan *plan)
{
    const struct quantize_shared *shared = party->shared;
    const struct model_config *config = &shared->model->config;
    struct backend *backend = shared->backend;
    const enum plan_room room = backend_room(backend);
    struct run_plan begun, streams;
    take_results(party, plan);
    plan_take(plan, PLAN_HOST, backend->ops->scratch(party->longest, config->vocabulary_size));
    plan_take(plan, room, model_rope_bytes(config, backend, party->longest));
    begun = *plan;
    take_streams(party, choice, plan);
    streams = *plan;
    if (party->embeds) plan_take(plan, room, embed_bytes(config, backend, party->largest, true));
    back_to(&streams, plan);
    take_blocks(party, choice, plan);
    /* the head, without the calibrations' streams */
    back_to(&begun, plan);
    struct run_plan evaluation = *plan;
    const int64_t width = config->hidden_size;
    for (int64_t i = party->first->fp_hidden.data == NULL ? -1 : 0; i < party->count; i++)
        hidden_plan(backend, &shared->evaluation, width, &choice->place, &evaluation);
    take_head(party, &evaluation);
    for (int k = 0; k < PLAN_ROOMS; k++) plan->peak[k] = larger(plan->peak[k], evaluation.peak[k]);
}

/* ---- Work ---- */

/* Calibration tokens through a block as sequential_block takes them, and what the quantizer makes of their Hessians. */
static double calibrate_block(const struct party *party, const struct program *program, const struct chunks *chunks,
                              int64_t budget_width, bool last)
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
        if (idle(party, program, cut)) continue;
        for (int k = 0; k < cut->count; k++) rows += (double)program->parameters[program->steps[cut->step + k].parameter[0]].rows;
        work += work_steps(program, held == NULL ? 0 : held->resume, cut->step, chunks);
        work += tokens * visits * columns * columns + factors * (columns * columns * columns + rows * columns * columns);
        if (cut->held) held = cut;
    }
    return last ? work : work + work_steps(program, held == NULL ? 0 : held->resume, program->step_count, chunks);
}

static double calibrate(const struct party *party, const struct quantize_recipe *recipe, int64_t hold_bytes)
{
    const struct model *model = recipe->shared->model;
    const int64_t tokens = recipe->calibration.tokens, element = (int64_t)recipe->shared->backend->ops->element;
    double work = 0;
    for (int64_t layer = party->begins; layer < party->settled && tokens > 0; layer++)
        work += calibrate_block(party, &model->programs[layer], &recipe->calibration, hold_bytes / tokens / element,
                                layer + 1 == party->settled);
    return work;
}

static int64_t stored_bytes(const struct model *model, const struct parameter *parameter)
{
    const int64_t index = parameter->name[0] == '\0' ? -1 : weights_find(model->weights, parameter->name);
    struct weights_tensor found = {.bytes = 0};
    if (index >= 0) weights_tensor(model->weights, index, &found);
    return found.bytes;
}

/* The embeddings, unless the streams are there, the blocks, and the head. */
static int64_t read_bytes(const struct party *party)
{
    const struct model *model = party->shared->model;
    const struct decoder_ends *ends = &model->ends;
    const struct parameter *const head[] = {&ends->norm_weight, &ends->norm_bias, &ends->project_out, &ends->output};
    int64_t bytes = 0;
    if (party->embeds) return weights_bytes(model->weights) + (model->config.tied ? stored_bytes(model, &ends->output) : 0);
    for (int i = 0; i < 4; i++) bytes += stored_bytes(model, head[i]);
    for (int64_t layer = party->begins; layer < model->config.layers; layer++)
        for (int i = 0; i < model->programs[layer].parameter_count; i++)
            bytes += stored_bytes(model, &model->programs[layer].parameters[i]);
    return bytes;
}

/* The full-precision stream is counted also where a baseline of an earlier run would serve: only the worker knows what it has. */
static void fill_work(const struct party *party, const struct quantize_choice *choice, struct run_plan *plan)
{
    const struct quantize_shared *shared = party->shared;
    const struct model *model = shared->model;
    const struct model_config *config = &model->config;
    const double head = work_head(config, shared->evaluation.tokens);
    const int64_t walks = party->count + (party->first->fp_hidden.data == NULL ? 1 : 0);
    const int64_t row = config->hidden_size * (int64_t)shared->backend->ops->element;
    double once = 0;
    for (int64_t layer = party->begins; layer < config->layers; layer++)
        once += work_steps(&model->programs[layer], 0, model->programs[layer].step_count, &shared->evaluation);
    plan->read_bytes = read_bytes(party);
    plan->tokens = walks * shared->evaluation.tokens;
    plan->flops = (double)walks * once + (double)(party->count + 1) * head;
    for (int64_t i = 0; i < party->count; i++) {
        plan->tokens += party->recipes[i]->calibration.tokens;
        plan->flops += calibrate(party, party->recipes[i], choice->hold_bytes);
    }
    if (choice->place.directory == NULL) return;
    plan->read_bytes += (config->layers + 2) * plan->spilled_tokens * row;
    plan->written_bytes += (config->layers + 1) * plan->spilled_tokens * row;
}

/* ---- The choice ---- */

static void fill(const struct party *party, struct quantize_choice *choice, struct run_plan *plan)
{
    *plan = (struct run_plan){.flops = 0};
    fill_memory(party, choice, plan);
    fill_work(party, choice, plan);
}

static bool may_spill(const struct party *party)
{
    for (int64_t i = 0; i < party->count; i++) {
        const struct quantize_request *request = party->recipes[i]->request;
        if (request->visitor.streams != NULL || request->start != NULL || request->fp_hidden.data != NULL) return false;
    }
    return true;
}

static int64_t preferred_hold(const struct party *party)
{
    int64_t hold = INT64_MAX;
    if (party->first->hold_bytes > 0) return party->first->hold_bytes;
    for (int64_t i = 0; i < party->count; i++) {
        const int64_t bytes = quantize_recipe_hold_bytes(party->recipes[i], party->largest);
        if (party->recipes[i]->calibration.count > 0 && bytes < hold) hold = bytes;
    }
    return hold == INT64_MAX ? 0 : hold;
}

/* Calibration tokens pass a block once for every set of linears, others once: they are spilled last. */
static void choose(const struct party *party, const struct plan_budget *budget, struct quantize_choice *choice,
                   struct run_plan *out)
{
    const char *const places[] = {NULL, party->first->directory};
    *choice = (struct quantize_choice){{HIDDEN_PARTS, NULL}, {HIDDEN_PARTS, NULL}, preferred_hold(party), {0}};
    fill(party, choice, out);
    if (plan_fits(out, budget)) return;
    choice->hold_bytes = 0;
    fill(party, choice, out);
    if (!may_spill(party)) return;
    for (int i = party->shared->backend->ops->host ? 1 : 0; i < (places[1] != NULL ? 2 : 1); i++)
        for (int64_t parts = 2 * HIDDEN_PARTS - 1; parts >= 0 && !plan_fits(out, budget); parts--) {
            choice->place = (struct hidden_place){parts > HIDDEN_PARTS ? parts - HIDDEN_PARTS : 0, places[i]};
            choice->calibration = (struct hidden_place){parts < HIDDEN_PARTS ? parts : HIDDEN_PARTS, places[i]};
            fill(party, choice, out);
        }
}

void quantize_plan_choose(const struct quantize_recipe *const *recipes, int64_t count, const struct plan_budget *budget,
                          struct quantize_choice *choice, struct run_plan *out)
{
    const struct party party = party_of(recipes, count);
    choose(&party, budget, choice, out);
    overrides_free(party.overrides);
}

enum status quantize_plan(const struct quantize_request *requests, int64_t count, const struct plan_budget *budget,
                          struct run_plan *out, struct error *error)
{
    struct quantize_shared shared = {.model = requests[0].model, .backend = requests[0].backend};
    struct quantize_recipe *recipes = NULL;
    const struct quantize_recipe **list = NULL;
    struct quantize_choice choice;
    enum status status;
    *out = (struct run_plan){.flops = 0};
    if ((status = quantize_recipe_evaluation(&shared, requests[0].evaluation, error)) != STATUS_OK) goto done;
    if ((status = memory_new(count, sizeof *recipes, "recipes", &recipes, error)) != STATUS_OK) goto done;
    if ((status = memory_new(count, sizeof *list, "recipes", &list, error)) != STATUS_OK) goto done;
    for (int64_t i = 0; i < count; i++) {
        recipes[i] = (struct quantize_recipe){.shared = &shared, .request = &requests[i]};
        list[i] = &recipes[i];
        if ((status = quantize_recipe_calibration(&recipes[i], error)) != STATUS_OK) goto done;
    }
    quantize_plan_choose(list, count, budget, &choice, out);
done:
    for (int64_t i = 0; recipes != NULL && i < count; i++) chunks_reset(&recipes[i].calibration);
    memory_free(list);
    memory_free(recipes);
    chunks_reset(&shared.evaluation);
    return status;
}
