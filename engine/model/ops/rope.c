/* rope: rotary position embedding of a slot's heads, in place; a rotation's transpose is the rotation back. */
#include "model/op.h"

static void rope_turn(const struct pass *pass, const struct step *step, struct matrix x, bool inverse)
{
    const struct rope_attributes *rope = &step->attributes.rope;
    const struct rope_args args = {
        .x = {x, rope->offset, rope->head_stride},
        .heads = rope->heads,
        .rotary = rope->rotary,
        .cosine = pass->cosine,
        .sine = pass->sine,
        .batch = pass->batch,
        .inverse = inverse,
    };
    pass->backend->ops->rope(pass->backend, &args);
}

static void rope_forward(const struct pass *pass, const struct step *step)
{
    rope_turn(pass, step, pass->values[step->output], false);
}

static void rope_backward(const struct pass *pass, const struct step *step)
{
    rope_turn(pass, step, pass->gradients[step->output], true);
}

static void rope_tangent(const struct pass *pass, const struct step *step)
{
    rope_turn(pass, step, pass->value_tangents[step->output], false);
}

static void rope_backward_tangent(const struct pass *pass, const struct step *step)
{
    rope_turn(pass, step, pass->gradients[step->output], true);
    rope_turn(pass, step, pass->gradient_tangents[step->output], true);
}

const struct op op_rope = {
    .name = "rope",
    .forward = rope_forward,
    .backward = rope_backward,
    .tangent = rope_tangent,
    .backward_tangent = rope_backward_tangent,
};
