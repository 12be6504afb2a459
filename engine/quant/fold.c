#include "quant/fold.h"

/* The last step before `before` that writes the slot; NULL: the slot is the block's input. */
static const struct step *maker_of(const struct program *program, int slot, int before)
{
    for (int i = before - 1; i >= 0; i--)
        if (program->steps[i].output == slot) return &program->steps[i];
    return NULL;
}

static bool is_read_elsewhere(const struct program *program, int slot, const struct cut *cut)
{
    for (int i = 0; i < program->step_count; i++)
        for (int k = 0; k < STEP_INPUTS; k++)
            if (program->steps[i].input[k] == slot && (i < cut->step || i >= cut->step + cut->count)) return true;
    return false;
}

/* Whether a slot, or the slot that it is a view of, is the unchanged output of a linear. */
static bool is_of_linear(const struct program *program, int slot, int before)
{
    const struct step *maker;
    if (slot == NO_SLOT) return false;
    maker = maker_of(program, slot, before);
    if (maker == NULL && program->slots[slot].of != NO_SLOT) maker = maker_of(program, program->slots[slot].of, before);
    return maker != NULL && (maker->op == &op_linear || maker->op == &op_experts);
}

enum fold fold_of(const struct program *program, const struct cut *cut)
{
    const int slot = program->steps[cut->step].input[0];
    const struct step *maker = maker_of(program, slot, cut->step);
    if (maker == NULL || is_read_elsewhere(program, slot, cut)) return FOLD_NOWHERE;
    const int at = (int)(maker - program->steps);
    if (maker->op == &op_norm) return FOLD_NORM;
    if (maker->op == &op_activation) return is_of_linear(program, maker->input[1], at) ? FOLD_ROWS : FOLD_NOWHERE;
    if (maker->op != &op_attention) return FOLD_NOWHERE;
    if (maker->attributes.attention.heads != maker->attributes.attention.kv_heads) return FOLD_SHARED;
    return maker->input[0] == maker->input[2] || is_of_linear(program, maker->input[2], at) ? FOLD_ROWS : FOLD_NOWHERE;
}
