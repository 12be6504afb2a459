/* norm: y = norm(x) with weight and bias (backend.h, norm_args has the equations). */
#include "model/op.h"

static struct norm_args norm_arguments(const struct pass *pass, const struct step *step)
{
    return (struct norm_args){
        .kind = step->attributes.norm.kind,
        .epsilon = step->attributes.norm.epsilon,
        .groups = step->attributes.norm.groups,
        .x = pass->values[step->input[0]],
        .weight = pass_parameter(pass, step->parameter[0]),
        .bias = pass_parameter(pass, step->parameter[1]),
        .y = pass->values[step->output],
    };
}

static void norm_forward(const struct pass *pass, const struct step *step)
{
    const struct norm_args args = norm_arguments(pass, step);
    pass->backend->ops->norm_forward(pass->backend, &args);
}

static void norm_backward(const struct pass *pass, const struct step *step)
{
    struct norm_args args = norm_arguments(pass, step);
    args.dy = pass->gradients[step->output];
    args.dx = pass->gradients[step->input[0]];
    args.dweight = pass_parameter_gradient(pass, step->parameter[0]);
    args.dbias = pass_parameter_gradient(pass, step->parameter[1]);
    args.accumulate = pass_accumulates(pass, step->input[0]);
    pass->backend->ops->norm_backward(pass->backend, &args);
}

const struct op op_norm = {.name = "norm", .forward = norm_forward, .backward = norm_backward};
