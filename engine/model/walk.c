#include "model/walk.h"

#include "base/memory.h"

#include <assert.h>

/* Columns of the widest block. Blocks of a model may differ (some layers without rotation, …). */
static int64_t plan_width(const struct model_config *config, enum walk_kind kind)
{
    struct program program;
    struct program_plan plan;
    int64_t widest = 0;
    for (int64_t layer = 0; layer < config->layers; layer++) {
        decoder_block(config, layer, &program);
        program_plan(&program, kind != WALK_FORWARD, &plan);
        if (plan.width > widest) widest = plan.width;
    }
    return widest;
}

/* Parts of a walk's memory have the same layout, but the input slot of the values is the caller's; in the others it
 * lies first. */
static int part_count(enum walk_kind kind)
{
    return kind == WALK_FORWARD ? 1 : kind == WALK_GRADIENT ? 2 : WALK_PARTS;
}

static int64_t part_elements(const struct model_config *config, enum walk_kind kind, int part, int64_t tokens)
{
    return (plan_width(config, kind) + (part == WALK_VALUES ? 0 : config->hidden_size)) * tokens;
}

int64_t walk_bytes(const struct model_config *config, struct backend *backend, enum walk_kind kind, int64_t tokens)
{
    int64_t elements = 0;
    for (int part = 0; part < part_count(kind); part++) elements += part_elements(config, kind, part, tokens);
    return elements * (int64_t)backend->ops->element;
}

enum status walk_init(struct walk *walk, const struct model_config *config, struct backend *backend,
                      enum walk_kind kind, int64_t tokens, struct matrix cosine, struct matrix sine,
                      struct error *error)
{
    *walk = (struct walk){.backend = backend, .kind = kind, .cosine = cosine, .sine = sine, .tokens = tokens};
    for (int part = 0; part < part_count(kind); part++) {
        const int64_t elements = part_elements(config, kind, part, tokens);
        const enum status status = backend->ops->allocate(backend, elements, "activations", &walk->memory[part], error);
        if (status == STATUS_OK) continue;
        walk_reset(walk);
        return status;
    }
    return STATUS_OK;
}

void walk_reset(struct walk *walk)
{
    for (int part = 0; part < WALK_PARTS; part++)
        if (walk->memory[part] != NULL) walk->backend->ops->release(walk->backend, walk->memory[part]);
    *walk = (struct walk){0};
}

static void part_lay(const struct walk *walk, int part, const struct program *program, const struct program_plan *plan,
                     struct matrix *slots)
{
    const size_t element = walk->backend->ops->element;
    const int64_t tokens = walk->pass.batch->tokens,
                  first = part == WALK_VALUES ? 0 : program->slots[program->input].width;
    for (int s = 0; s < program->slot_count; s++) {
        const struct slot *slot = &program->slots[s];
        if (slot->of != NO_SLOT) {
            slots[s] = matrix_columns(slots[slot->of], slot->first, slot->width);
            continue;
        }
        const int64_t offset = plan->offset[s] < 0 ? 0 : first + plan->offset[s];
        char *at = (char *)walk->memory[part] + (size_t)(offset * tokens) * element;
        slots[s] = matrix_of(at, tokens, slot->width, element);
    }
}

void walk_begin(struct walk *walk, const struct program *program, const struct batch *batch,
                const struct matrix *parameters, struct matrix hidden)
{
    struct matrix *const parts[] = {walk->values, walk->gradients, walk->value_tangents, walk->gradient_tangents};
    struct program_plan plan;
    assert(batch->tokens <= walk->tokens && hidden.rows == batch->tokens);
    walk->program = program;
    walk->starts.of = NULL;
    walk->pass = (struct pass){
        .backend = walk->backend,
        .batch = batch,
        .cosine = walk->cosine,
        .sine = walk->sine,
        .cache = walk->cache,
        .values = walk->values,
        .gradients = walk->gradients,
        .written = walk->written,
        .starts = &walk->starts,
        .parameters = parameters,
        .product = walk->product,
        .value_tangents = walk->value_tangents,
        .gradient_tangents = walk->gradient_tangents,
    };
    program_plan(program, walk->kind != WALK_FORWARD, &plan);
    for (int part = 0; part < part_count(walk->kind); part++) part_lay(walk, part, program, &plan, parts[part]);
    for (int s = 0; s < program->slot_count; s++)
        if (plan.offset[s] < 0) walk->values[s] = plan.offset[s] == PLAN_ABSENT ? (struct matrix){0} : hidden;
}

/* Whether the next step multiplies what step i puts out, and no caller does it in its own way. */
static bool feeds_product(const struct walk *walk, int i)
{
    const struct program *program = walk->program;
    const struct step *next = &program->steps[i + 1];
    return i + 1 < program->step_count && walk->product == NULL && next->op == &op_linear &&
           next->input[0] == program->steps[i].output;
}

void walk_steps(struct walk *walk, int from, int to)
{
    for (int i = from; i < to; i++) {
        walk->pass.to_product = i + 1 < to && feeds_product(walk, i);
        walk->program->steps[i].op->forward(&walk->pass, &walk->program->steps[i]);
    }
    walk->pass.to_product = false;
}

void walk_forward(struct walk *walk, const struct program *program, const struct batch *batch,
                  const struct matrix *parameters, struct matrix hidden)
{
    walk_begin(walk, program, batch, parameters, hidden);
    if (batch->branches != NULL) cache_batch(walk->cache, batch);
    walk_steps(walk, 0, program->step_count);
    if (batch->branches != NULL) cache_end(walk->cache);
    const struct matrix output = walk->values[program->output];
    if (walk->kind == WALK_FORWARD && output.data != hidden.data)
        walk->backend->ops->add(walk->backend, hidden, output, 1, 0);
}

/* The output's gradient is given: everything else is unwritten. */
static void backward_begin(struct walk *walk)
{
    for (int s = 0; s < walk->program->slot_count; s++) walk->written[s] = false;
    walk->written[walk->program->output] = true;
}

/* ---- Gradients that share memory ---- */

/* The gradients of a sum's inputs begin as that of its output, which nobody reads any more when they are written. So
 * that of the first input, the residual stream, takes the output's memory, and it is added to there. That of the second
 * one may lie there too if it is only read until then. */

/* Whether other slots are columns of the slot, or it is columns of another. */
static bool is_cut(const struct program *program, int slot)
{
    for (int s = 0; s < program->slot_count; s++)
        if (program->slots[s].of == slot) return true;
    return program->slots[slot].of != NO_SLOT;
}

static bool reads(const struct step *step, int slot)
{
    for (int k = 0; k < STEP_INPUTS; k++)
        if (step->input[k] == slot) return true;
    return false;
}

/* Whether step i, a sum, is the first to write the gradient of its input. */
static bool writes_first(const struct program *program, int i, int slot)
{
    const struct step *step = &program->steps[i];
    if (step->input[0] == step->input[1] || step->output == slot || is_cut(program, slot)) return false;
    for (int j = i + 1; j < program->step_count; j++)
        if (reads(&program->steps[j], slot) || program->steps[j].output == slot) return false;
    for (int j = 0; j < i; j++)
        if (program->steps[j].output == step->output) return false; /* reads the output's gradient later */
    return true;
}

/* Whether the sum's second input has its gradient read, by a linear layer, before anything is added to `memory`. */
static bool read_in_time(const struct walk *walk, int i, const void *memory)
{
    const struct program *program = walk->program;
    const int slot = program->steps[i].input[1];
    for (int j = i - 1; j >= 0; j--) {
        const struct step *step = &program->steps[j];
        if (step->output == slot) return step->op == &op_linear && !reads(step, slot);
        const bool sum = step->op == &op_add && walk->gradients[step->output].data == memory;
        for (int k = sum ? 1 : 0; k < STEP_INPUTS; k++)
            if (step->input[k] != NO_SLOT && walk->gradients[step->input[k]].data == memory) return false;
    }
    return false;
}

static void share_gradients(struct walk *walk, struct matrix dhidden)
{
    const struct program *program = walk->program;
    const int output = program->output;
    struct program_plan plan;
    program_plan(program, true, &plan);
    part_lay(walk, WALK_GRADIENTS, program, &plan, walk->gradients); /* each has its own memory again */
    if (output != program->input && !is_cut(program, output)) walk->gradients[output] = dhidden;
    for (int i = program->step_count - 1; i >= 0; i--) {
        const struct step *step = &program->steps[i];
        if (step->op == &op_add && writes_first(program, i, step->input[0]))
            walk->gradients[step->input[0]] = walk->gradients[step->output];
    }
    for (int i = program->step_count - 1; i >= 0; i--) {
        const struct step *step = &program->steps[i];
        const struct matrix memory = walk->gradients[step->output];
        if (step->op == &op_add && writes_first(program, i, step->input[1]) && read_in_time(walk, i, memory.data))
            walk->gradients[step->input[1]] = memory;
    }
}

static void copy_gradient(const struct walk *walk, struct matrix to, struct matrix from)
{
    if (to.data != from.data) walk->backend->ops->add(walk->backend, to, from, 1, 0);
}

void walk_backward(struct walk *walk, struct matrix dhidden, struct matrix *parameter_gradients)
{
    const struct program *program = walk->program;
    assert(walk->kind != WALK_FORWARD);
    backward_begin(walk);
    walk->pass.parameter_gradients = parameter_gradients;
    share_gradients(walk, dhidden);
    copy_gradient(walk, walk->gradients[program->output], dhidden);
    for (int i = program->step_count - 1; i >= 0; i--) program->steps[i].op->backward(&walk->pass, &program->steps[i]);
    copy_gradient(walk, dhidden, walk->gradients[program->input]);
}

void walk_tangent_begin(struct walk *walk, const struct program *program, const struct batch *batch,
                        const struct matrix *parameters, const struct matrix *parameter_tangents, struct matrix hidden,
                        struct matrix hidden_t)
{
    assert(walk->kind == WALK_TANGENT);
    walk_begin(walk, program, batch, parameters, hidden);
    walk->pass.parameter_tangents = parameter_tangents;
    walk->value_tangents[program->input] = hidden_t;
}

void walk_tangent_steps(struct walk *walk, bool values)
{
    for (int i = 0; i < walk->program->step_count; i++) {
        const struct step *step = &walk->program->steps[i];
        if (values) step->op->forward(&walk->pass, step);
        step->op->tangent(&walk->pass, step);
    }
}

void walk_tangent(struct walk *walk, const struct program *program, const struct batch *batch,
                  const struct matrix *parameters, const struct matrix *parameter_tangents, struct matrix hidden,
                  struct matrix hidden_t)
{
    walk_tangent_begin(walk, program, batch, parameters, parameter_tangents, hidden, hidden_t);
    walk_tangent_steps(walk, true);
}

void walk_backward_tangent(struct walk *walk, struct matrix dhidden, struct matrix dhidden_t,
                           struct matrix *parameter_gradient_tangents)
{
    const struct program *program = walk->program;
    struct backend *backend = walk->backend;
    backward_begin(walk);
    walk->pass.parameter_gradient_tangents = parameter_gradient_tangents;
    backend->ops->add(backend, walk->gradients[program->output], dhidden, 1, 0);
    backend->ops->add(backend, walk->gradient_tangents[program->output], dhidden_t, 1, 0);
    for (int i = program->step_count - 1; i >= 0; i--)
        program->steps[i].op->backward_tangent(&walk->pass, &program->steps[i]);
    backend->ops->add(backend, dhidden, walk->gradients[program->input], 1, 0);
    backend->ops->add(backend, dhidden_t, walk->gradient_tangents[program->input], 1, 0);
}
