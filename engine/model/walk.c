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
        program_plan(&program, kind == WALK_GRADIENT, &plan);
        if (plan.width > widest) widest = plan.width;
    }
    return widest;
}

int64_t walk_bytes(const struct model_config *config, struct backend *backend, enum walk_kind kind, int64_t tokens)
{
    const int64_t gradients = kind == WALK_GRADIENT ? plan_width(config, kind) + config->hidden_size : 0;
    return (plan_width(config, kind) + gradients) * tokens * (int64_t)backend->ops->element;
}

enum status walk_init(struct walk *walk, const struct model_config *config, struct backend *backend, enum walk_kind kind,
                      int64_t tokens, struct matrix cosine, struct matrix sine, struct error *error)
{
    const int64_t width = plan_width(config, kind);
    enum status status;
    *walk = (struct walk){.backend = backend, .kind = kind, .cosine = cosine, .sine = sine, .tokens = tokens};
    if ((status = backend->ops->allocate(backend, width * tokens, "activations", &walk->values_memory, error)) != STATUS_OK)
        return status;
    if (kind == WALK_GRADIENT) {
        const int64_t columns = width + config->hidden_size; /* the input slot's gradient lies first */
        status = backend->ops->allocate(backend, columns * tokens, "gradients of activations", &walk->gradients_memory, error);
        if (status != STATUS_OK) walk_reset(walk);
    }
    return status;
}

void walk_reset(struct walk *walk)
{
    if (walk->values_memory != NULL) walk->backend->ops->release(walk->backend, walk->values_memory);
    if (walk->gradients_memory != NULL) walk->backend->ops->release(walk->backend, walk->gradients_memory);
    *walk = (struct walk){0};
}

void walk_begin(struct walk *walk, const struct program *program, const struct batch *batch, const struct matrix *parameters,
                struct matrix hidden)
{
    const size_t element = walk->backend->ops->element;
    const int64_t tokens = batch->tokens;
    struct program_plan plan;
    assert(tokens <= walk->tokens && hidden.rows == tokens);
    program_plan(program, walk->kind == WALK_GRADIENT, &plan);
    walk->program = program;
    char *values = walk->values_memory, *gradients = walk->gradients_memory;
    const int64_t input_width = program->slots[program->input].width;
    for (int s = 0; s < program->slot_count; s++) {
        const int64_t width = program->slots[s].width, offset = plan.offset[s];
        walk->values[s] = offset < 0 ? hidden : matrix_of(values + (size_t)(offset * tokens) * element, tokens, width, element);
        if (gradients != NULL)
            walk->gradients[s] =
                matrix_of(gradients + (size_t)((offset < 0 ? 0 : offset + input_width) * tokens) * element, tokens, width, element);
    }
    walk->pass = (struct pass){
        .backend = walk->backend,
        .batch = batch,
        .cosine = walk->cosine,
        .sine = walk->sine,
        .values = walk->values,
        .gradients = walk->gradients,
        .written = walk->written,
        .parameters = parameters,
    };
}

void walk_steps(struct walk *walk, int from, int to)
{
    for (int i = from; i < to; i++) walk->program->steps[i].op->forward(&walk->pass, &walk->program->steps[i]);
}

void walk_forward(struct walk *walk, const struct program *program, const struct batch *batch, const struct matrix *parameters,
                  struct matrix hidden)
{
    walk_begin(walk, program, batch, parameters, hidden);
    walk_steps(walk, 0, program->step_count);
    const struct matrix output = walk->values[program->output];
    if (walk->kind == WALK_FORWARD && output.data != hidden.data) walk->backend->ops->add(walk->backend, hidden, output, 1, 0);
}

void walk_backward(struct walk *walk, struct matrix dhidden, struct matrix *parameter_gradients)
{
    const struct program *program = walk->program;
    struct backend *backend = walk->backend;
    assert(walk->kind == WALK_GRADIENT);
    for (int s = 0; s < program->slot_count; s++) walk->written[s] = false;
    walk->pass.parameter_gradients = parameter_gradients;
    backend->ops->add(backend, walk->gradients[program->output], dhidden, 1, 0);
    walk->written[program->output] = true;
    for (int i = program->step_count - 1; i >= 0; i--) program->steps[i].op->backward(&walk->pass, &program->steps[i]);
    backend->ops->add(backend, dhidden, walk->gradients[program->input], 1, 0);
}
