#include "quant/rotation.h"

#include "base/memory.h"
#include "base/random.h"

#include <string.h>

enum { ONLINE_NONE = -1 };

/* The step that writes a slot before step `before`, without steps that work in place; NULL: none. */
static const struct step *producer(const struct program *program, int slot, int before)
{
    for (int i = before - 1; i >= 0; i--)
        if (program->steps[i].output == slot && program->steps[i].input[0] != slot) return &program->steps[i];
    return NULL;
}

static bool reads(const struct step *step, int slot)
{
    for (int k = 0; k < STEP_INPUTS; k++)
        if (step->input[k] == slot) return true;
    return false;
}

static bool is_plain_norm(const struct step *step)
{
    return step->op == &op_norm && step->attributes.norm.groups == 1;
}

/* Whether every reader of the norm's output is a linear, which can take in the norm's weight and bias. */
static bool read_by_linears(const struct program *program, const struct step *norm)
{
    for (int i = 0; i < program->step_count; i++) {
        const struct step *step = &program->steps[i];
        if (!reads(step, norm->output)) continue;
        if (step->op != &op_linear) return false;
        if (norm->parameter[1] != NO_PARAMETER && step->parameter[1] == NO_PARAMETER) return false;
    }
    return norm->output != program->output;
}

/* Follows the hidden states through the block: `residual` marks the slots that are hidden states. False when they
 * cannot be rotated. */
static bool follow_hidden(const struct program *program, bool residual[PROGRAM_SLOTS])
{
    memset(residual, 0, PROGRAM_SLOTS * sizeof *residual);
    residual[program->input] = true;
    for (int i = 0; i < program->step_count; i++) {
        const struct step *step = &program->steps[i];
        bool touched = false;
        for (int k = 0; k < STEP_INPUTS; k++)
            touched = touched || (step->input[k] != NO_SLOT && residual[step->input[k]]);
        if (!touched || step->op == &op_linear) continue;
        if (step->op == &op_add) {
            const int other = residual[step->input[0]] ? step->input[1] : step->input[0];
            const struct step *writer = producer(program, other, i);
            if (writer == NULL || writer->op != &op_linear || residual[other]) return false;
            residual[step->output] = true;
        } else if (!is_plain_norm(step) || !read_by_linears(program, step)) {
            return false;
        }
    }
    return residual[program->output];
}

static bool is_writer(const struct program *program, const bool residual[PROGRAM_SLOTS], int slot)
{
    for (int i = 0; i < program->step_count; i++)
        if (program->steps[i].op == &op_add && reads(&program->steps[i], slot) && residual[program->steps[i].output])
            return true;
    return false;
}

static bool centres(const struct program *program)
{
    for (int i = 0; i < program->step_count; i++)
        if (is_plain_norm(&program->steps[i]) && program->steps[i].attributes.norm.kind == NORM_LAYER) return true;
    return false;
}

static enum status signs_new(struct backend *backend, int64_t count, uint64_t seed, uint64_t stream, float **out,
                             struct error *error)
{
    float *signs = NULL;
    void *block = NULL;
    enum status status = memory_new(count, sizeof *signs, "signs", &signs, error);
    for (int64_t i = 0; i < count && status == STATUS_OK; i++)
        signs[i] = random_below(seed, stream, (uint64_t)i, 2) ? 1 : -1;
    if (status == STATUS_OK) status = backend->ops->allocate(backend, count, "signs", &block, error);
    if (status == STATUS_OK) backend->ops->write_bytes(backend, block, signs, (size_t)count * sizeof *signs);
    *out = block;
    memory_free(signs);
    return status;
}

static int find_width(const struct rotation *rotation, int64_t width)
{
    for (int i = 0; i < rotation->width_count; i++)
        if (rotation->online[i].size == width) return i;
    return ONLINE_NONE;
}

static enum status add_width(struct rotation *rotation, int64_t width, struct error *error)
{
    if (find_width(rotation, width) != ONLINE_NONE) return STATUS_OK;
    if (rotation->width_count == ROTATION_WIDTHS)
        return error_set(error, STATUS_UNSUPPORTED, "rotation: linears with more than %d widths of input",
                         ROTATION_WIDTHS);
    return hadamard_init(&rotation->online[rotation->width_count++], rotation->backend, width, error);
}

enum status rotation_init(struct rotation *rotation, const struct model *model, struct backend *backend, uint64_t seed,
                          struct error *error)
{
    const struct model_config *config = &model->config;
    bool residual[PROGRAM_SLOTS];
    enum status status;
    *rotation = (struct rotation){.backend = backend, .fused = true};
    for (int64_t layer = 0; layer < config->layers; layer++) {
        const struct program *program = &model->programs[layer];
        rotation->fused = rotation->fused && follow_hidden(program, residual);
        rotation->centred = rotation->centred || centres(program);
        for (int i = 0; i < program->parameter_count; i++)
            if (program->parameters[i].linear &&
                (status = add_width(rotation, program->parameters[i].columns, error)) != STATUS_OK)
                return status;
    }
    if ((status = signs_new(backend, config->hidden_size, seed, 0, &rotation->sign, error)) != STATUS_OK ||
        (status = signs_new(backend, config->head_dim, seed, 1, &rotation->head_sign, error)) != STATUS_OK ||
        (status = hadamard_init(&rotation->hidden, backend, config->hidden_size, error)) != STATUS_OK)
        return status;
    return hadamard_init(&rotation->head, backend, config->head_dim > 0 ? config->head_dim : 1, error);
}

void rotation_reset(struct rotation *rotation)
{
    for (int i = 0; i < rotation->width_count; i++) hadamard_reset(&rotation->online[i]);
    hadamard_reset(&rotation->hidden);
    hadamard_reset(&rotation->head);
    if (rotation->sign != NULL) rotation->backend->ops->release(rotation->backend, rotation->sign);
    if (rotation->head_sign != NULL) rotation->backend->ops->release(rotation->backend, rotation->head_sign);
    *rotation = (struct rotation){0};
}

/* Moves a norm's weight and bias into a linear that reads it: b += W bias, W = W diag(weight). */
static void take_norm(struct backend *backend, const struct step *norm, struct matrix weight, struct matrix bias,
                      const struct matrix *parameters)
{
    const struct matrix shift = pass_parameter(parameters, norm->parameter[1]);
    if (shift.data != NULL) backend->ops->add_products(backend, bias, weight, shift);
    backend->ops->scale_columns(backend, weight, weight, parameters[norm->parameter[0]]);
}

static void turn_rows(const struct hadamard *hadamard, const float *sign, struct matrix weight)
{
    hadamard_rows(hadamard, (struct hadamard_use){.sign = sign}, weight, weight);
}

/* Rotates a linear that adds to the hidden states; a bias is treated as one more column. */
static void turn_writer(const struct rotation *rotation, struct matrix weight, struct matrix bias)
{
    const struct hadamard_use use = {.sign = rotation->sign, .centred = rotation->centred};
    hadamard_columns(&rotation->hidden, use, weight);
    if (bias.data != NULL) hadamard_rows(&rotation->hidden, use, bias, bias);
}

/* Transforms values by heads, in the linear that makes them, and back in the columns that read attention's output.
 * False: the values are made in another way. */
static bool turn_heads(const struct rotation *rotation, const struct program *program, const struct step *attention,
                       const struct step *reader, struct matrix *parameters)
{
    const struct attention_attributes *a = &attention->attributes.attention;
    const struct hadamard_use use = {.sign = rotation->head_sign};
    const struct step *maker = producer(program, attention->input[2], (int)(attention - program->steps));
    if (maker == NULL || maker->op != &op_linear || a->head_dim != rotation->head.size) return false;
    const struct matrix bias = pass_parameter(parameters, maker->parameter[1]),
                        weight = parameters[maker->parameter[0]];
    for (int64_t h = 0; h < a->kv_heads; h++) {
        const int64_t first = a->offset[2] + h * a->head_stride[2];
        hadamard_columns(&rotation->head, use, matrix_rows(weight, first, a->head_dim));
        if (bias.data != NULL)
            turn_rows(&rotation->head, rotation->head_sign, matrix_columns(bias, first, a->head_dim));
    }
    for (int64_t h = 0; h < a->heads; h++)
        turn_rows(&rotation->head, rotation->head_sign,
                  matrix_columns(parameters[reader->parameter[0]], h * a->head_dim, a->head_dim));
    return true;
}

static void turn_inputs(struct rotation *rotation, const struct program *program, int index,
                        const bool residual[PROGRAM_SLOTS], struct matrix *parameters)
{
    const struct step *step = &program->steps[index], *source = producer(program, step->input[0], index);
    const struct matrix weight = parameters[step->parameter[0]];
    const bool norm = source != NULL && is_plain_norm(source) && residual[source->input[0]];
    if (rotation->fused && norm)
        take_norm(rotation->backend, source, weight, pass_parameter(parameters, step->parameter[1]), parameters);
    if (rotation->fused && (norm || residual[step->input[0]])) {
        turn_rows(&rotation->hidden, rotation->sign, weight);
        return;
    }
    if (rotation->fused && source != NULL && source->op == &op_attention &&
        turn_heads(rotation, program, source, step, parameters))
        return;
    if (!program->parameters[step->parameter[0]].linear) return; /* not quantized: its inputs stay */
    const int online = find_width(rotation, weight.columns);
    turn_rows(&rotation->online[online], NULL, weight);
    rotation->online_of[step->parameter[0]] = online;
}

/* Rows are transformed on their way into the experts. */
static void turn_experts(struct rotation *rotation, const struct step *step, struct matrix *parameters)
{
    for (int number = step->parameter[0]; number < step->parameter[0] + step->attributes.experts.count; number++) {
        const int online = find_width(rotation, parameters[number].columns);
        turn_rows(&rotation->online[online], NULL, parameters[number]);
        rotation->online_of[number] = online;
    }
}

void rotation_block(struct rotation *rotation, struct block *block)
{
    bool residual[PROGRAM_SLOTS] = {false};
    struct program *program = &rotation->program;
    struct matrix *parameters = block->parameters;
    *program = *block->program;
    block->program = program;
    for (int i = 0; i < PROGRAM_PARAMETERS; i++) rotation->online_of[i] = ONLINE_NONE;
    if (rotation->fused) (void)follow_hidden(program, residual);
    for (int i = 0; i < program->step_count; i++)
        if (program->steps[i].op == &op_linear)
            turn_inputs(rotation, program, i, residual, parameters);
        else if (program->steps[i].op == &op_experts)
            turn_experts(rotation, &program->steps[i], parameters);
    for (int i = 0; i < program->step_count && rotation->fused; i++) {
        struct step *step = &program->steps[i];
        if (step->op == &op_linear && is_writer(program, residual, step->output))
            turn_writer(rotation, parameters[step->parameter[0]], pass_parameter(parameters, step->parameter[1]));
        if (!is_plain_norm(step) || !residual[step->input[0]]) continue;
        step->attributes.norm.kind = NORM_RMS;
        step->parameter[1] = NO_PARAMETER;
        rotation->backend->ops->fill(rotation->backend, parameters[step->parameter[0]], 1);
    }
}

void rotation_hidden(const struct rotation *rotation, struct matrix hidden, bool back)
{
    if (!rotation->fused) return;
    const struct hadamard_use use = {.sign = rotation->sign, .inverse = back, .centred = rotation->centred && !back};
    hadamard_rows(&rotation->hidden, use, hidden, hidden);
}
