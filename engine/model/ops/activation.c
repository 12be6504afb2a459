/* activation: y = f(gate), or f(gate) ⊙ up when a second slot is given (SwiGLU and its kin). */
#include "model/op.h"

static struct activation_args activation_arguments(const struct pass *pass, const struct step *step)
{
    return (struct activation_args){
        .kind = step->attributes.activation.kind,
        .gate = pass->values[step->input[0]],
        .up = step->input[1] == NO_SLOT ? (struct matrix){0} : pass->values[step->input[1]],
        .y = pass->values[step->output],
    };
}

static void activation_forward(const struct pass *pass, const struct step *step)
{
    const struct activation_args args = activation_arguments(pass, step);
    pass->backend->ops->activation_forward(pass->backend, &args);
}

static void activation_backward(const struct pass *pass, const struct step *step)
{
    struct activation_args args = activation_arguments(pass, step);
    args.dy = pass->gradients[step->output];
    args.dgate = pass->gradients[step->input[0]];
    args.accumulate_gate = pass_accumulates(pass, step->input[0]);
    if (step->input[1] != NO_SLOT) {
        args.dup = pass->gradients[step->input[1]];
        args.accumulate_up = pass_accumulates(pass, step->input[1]);
    }
    pass->backend->ops->activation_backward(pass->backend, &args);
}

const struct op op_activation = {
    .name = "activation", .forward = activation_forward, .backward = activation_backward, .may_reuse_input = true};
