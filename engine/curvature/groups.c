#include "curvature/groups.h"

#include "base/memory.h"

const char *const groups_names[GROUPS + 1] = {"embedding", "attention", "mlp", "norms", "output", NULL};

static bool reads(const struct step *step, int slot)
{
    for (int i = 0; i < STEP_INPUTS; i++)
        if (step->input[i] == slot) return true;
    return false;
}

/* Whether the step's output reaches attention without another linear in between (queries may be normalised and
 * rotated). */
static bool feeds_attention(const struct program *program, int at)
{
    bool carries[PROGRAM_SLOTS] = {false};
    carries[program->steps[at].output] = true;
    for (int i = at + 1; i < program->step_count; i++) {
        const struct step *step = &program->steps[i];
        bool fed = false;
        for (int slot = 0; slot < program->slot_count; slot++) fed = fed || (carries[slot] && reads(step, slot));
        if (!fed) continue;
        if (step->op == &op_attention) return true;
        if (step->op == &op_norm || step->op == &op_rope || step->op == &op_clip) carries[step->output] = true;
    }
    return false;
}

/* Whether the step reads attention's output, directly or normalised. */
static bool follows_attention(const struct program *program, int at)
{
    bool carries[PROGRAM_SLOTS] = {false};
    for (int i = 0; i < at; i++) {
        const struct step *step = &program->steps[i];
        if (step->op == &op_attention) carries[step->output] = true;
        if (step->op == &op_norm && carries[step->input[0]]) carries[step->output] = true;
    }
    return carries[program->steps[at].input[0]];
}

static void group_block(const struct program *program, enum group *groups)
{
    for (int i = 0; i < program->parameter_count; i++) groups[i] = GROUP_MLP;
    for (int i = 0; i < program->step_count; i++) {
        const struct step *step = &program->steps[i];
        for (int k = 0; k < STEP_PARAMETERS; k++) {
            if (step->parameter[k] == NO_PARAMETER) continue;
            if (step->op == &op_norm) groups[step->parameter[k]] = GROUP_NORMS;
            if (step->op == &op_linear && (feeds_attention(program, i) || follows_attention(program, i)))
                groups[step->parameter[k]] = GROUP_ATTENTION;
        }
    }
}

enum status groups_of_tensors(const struct parameters_layout *layout, enum group **out, struct error *error)
{
    const enum status status = memory_new(layout->tensor_count, sizeof **out, "parameter groups", out, error);
    if (status != STATUS_OK) return status;
    for (int64_t layer = 0; layer < layout->config.layers; layer++)
        group_block(&layout->programs[layer], *out + layout->blocks[layer]);
    if (layout->norm_weight >= 0) (*out)[layout->norm_weight] = GROUP_NORMS;
    if (layout->norm_bias >= 0) (*out)[layout->norm_bias] = GROUP_NORMS;
    (*out)[layout->output] = GROUP_OUTPUT;
    (*out)[layout->embedding] = GROUP_EMBEDDING;
    if (layout->positions >= 0) (*out)[layout->positions] = GROUP_EMBEDDING;
    if (layout->project_in >= 0) (*out)[layout->project_in] = GROUP_EMBEDDING;
    if (layout->project_out >= 0) (*out)[layout->project_out] = GROUP_OUTPUT;
    return STATUS_OK;
}

struct vector_space groups_space(const struct vector_space *all, const enum group *groups, enum group group,
                                 struct vector_span *spans)
{
    struct vector_space space = *all;
    space.numbers = space.span_count = 0;
    space.spans = spans;
    for (int64_t i = 0; i < all->span_count; i++) {
        if (groups[i] != group) continue;
        spans[space.span_count++] = all->spans[i];
        space.numbers += all->spans[i].count;
    }
    return space;
}
