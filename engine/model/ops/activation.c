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
    struct activation_args args = activation_arguments(pass, step);
    args.to_product = pass->to_product;
    pass->backend->ops->activation_forward(pass->backend, &args);
}

static void gradients_set(struct activation_args *args, const struct pass *pass, const struct step *step)
{
    args->dy = pass->gradients[step->output];
    args->dgate = pass->gradients[step->input[0]];
    args->accumulate_gate = pass_accumulates(pass, step->input[0]);
    if (step->input[1] == NO_SLOT) return;
    args->dup = pass->gradients[step->input[1]];
    args->accumulate_up = pass_accumulates(pass, step->input[1]);
}

static void activation_backward(const struct pass *pass, const struct step *step)
{
    struct activation_args args = activation_arguments(pass, step);
    gradients_set(&args, pass, step);
    pass->backend->ops->activation_backward(pass->backend, &args);
}

static struct activation_args tangent_arguments(const struct pass *pass, const struct step *step)
{
    struct activation_args args = activation_arguments(pass, step);
    args.gate_t = pass->value_tangents[step->input[0]];
    if (step->input[1] != NO_SLOT) args.up_t = pass->value_tangents[step->input[1]];
    args.y_t = pass->value_tangents[step->output];
    return args;
}

static void activation_tangent(const struct pass *pass, const struct step *step)
{
    const struct activation_args args = tangent_arguments(pass, step);
    pass->backend->ops->activation_tangent(pass->backend, &args);
}

static void activation_backward_tangent(const struct pass *pass, const struct step *step)
{
    struct activation_args args = tangent_arguments(pass, step);
    gradients_set(&args, pass, step);
    args.dy_t = pass->gradient_tangents[step->output];
    args.dgate_t = pass->gradient_tangents[step->input[0]];
    if (step->input[1] != NO_SLOT) args.dup_t = pass->gradient_tangents[step->input[1]];
    pass->backend->ops->activation_backward_tangent(pass->backend, &args);
}

const struct op op_activation = {
    .name = "activation",
    .forward = activation_forward,
    .backward = activation_backward,
    .tangent = activation_tangent,
    .backward_tangent = activation_backward_tangent,
    .may_reuse_input = true,
};
