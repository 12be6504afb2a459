/* norm: y = norm(x) with weight and bias (backend.h, norm_args has the equations). */
#include "model/op.h"

static struct norm_args norm_arguments(const struct pass *pass, const struct step *step)
{
    return (struct norm_args){
        .kind = step->attributes.norm.kind,
        .epsilon = step->attributes.norm.epsilon,
        .groups = step->attributes.norm.groups,
        .x = pass->values[step->input[0]],
        .weight = pass_parameter(pass->parameters, step->parameter[0]),
        .bias = pass_parameter(pass->parameters, step->parameter[1]),
        .y = pass->values[step->output],
    };
}

static void norm_forward(const struct pass *pass, const struct step *step)
{
    struct norm_args args = norm_arguments(pass, step);
    args.to_product = pass->to_product;
    pass->backend->ops->norm_forward(pass->backend, &args);
}

static void norm_backward(const struct pass *pass, const struct step *step)
{
    struct norm_args args = norm_arguments(pass, step);
    args.dy = pass->gradients[step->output];
    args.dx = pass->gradients[step->input[0]];
    args.dweight = pass_parameter(pass->parameter_gradients, step->parameter[0]);
    args.dbias = pass_parameter(pass->parameter_gradients, step->parameter[1]);
    args.accumulate = pass_accumulates(pass, step->input[0]);
    pass->backend->ops->norm_backward(pass->backend, &args);
}

static struct norm_args tangent_arguments(const struct pass *pass, const struct step *step)
{
    struct norm_args args = norm_arguments(pass, step);
    args.x_t = pass->value_tangents[step->input[0]];
    args.weight_t = pass_parameter(pass->parameter_tangents, step->parameter[0]);
    args.bias_t = pass_parameter(pass->parameter_tangents, step->parameter[1]);
    args.y_t = pass->value_tangents[step->output];
    return args;
}

static void norm_tangent(const struct pass *pass, const struct step *step)
{
    const struct norm_args args = tangent_arguments(pass, step);
    pass->backend->ops->norm_tangent(pass->backend, &args);
}

static void norm_backward_tangent(const struct pass *pass, const struct step *step)
{
    struct norm_args args = tangent_arguments(pass, step);
    args.dy = pass->gradients[step->output];
    args.dy_t = pass->gradient_tangents[step->output];
    args.dx = pass->gradients[step->input[0]];
    args.dx_t = pass->gradient_tangents[step->input[0]];
    args.dweight_t = pass_parameter(pass->parameter_gradient_tangents, step->parameter[0]);
    args.dbias_t = pass_parameter(pass->parameter_gradient_tangents, step->parameter[1]);
    args.accumulate = pass_accumulates(pass, step->input[0]);
    pass->backend->ops->norm_backward_tangent(pass->backend, &args);
}

const struct op op_norm = {
    .name = "norm",
    .forward = norm_forward,
    .backward = norm_backward,
    .tangent = norm_tangent,
    .backward_tangent = norm_backward_tangent,
};
