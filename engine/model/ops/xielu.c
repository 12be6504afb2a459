/* xielu: y = xIELU(x) (backend.h, xielu_args) with parameters alpha_p, alpha_n and constants beta, epsilon. */
#include "model/op.h"

static struct xielu_args xielu_arguments(const struct pass *pass, const struct step *step)
{
    return (struct xielu_args){
        .x = pass->values[step->input[0]],
        .alpha_p = pass_parameter(pass->parameters, step->parameter[0]),
        .alpha_n = pass_parameter(pass->parameters, step->parameter[1]),
        .beta = pass_parameter(pass->parameters, step->parameter[2]),
        .epsilon = pass_parameter(pass->parameters, step->parameter[3]),
        .y = pass->values[step->output],
    };
}

static void xielu_forward(const struct pass *pass, const struct step *step)
{
    const struct xielu_args args = xielu_arguments(pass, step);
    pass->backend->ops->xielu_forward(pass->backend, &args);
}

static void xielu_backward(const struct pass *pass, const struct step *step)
{
    struct xielu_args args = xielu_arguments(pass, step);
    args.dy = pass->gradients[step->output];
    args.dx = pass->gradients[step->input[0]];
    args.dalpha_p = pass_parameter(pass->parameter_gradients, step->parameter[0]);
    args.dalpha_n = pass_parameter(pass->parameter_gradients, step->parameter[1]);
    args.accumulate = pass_accumulates(pass, step->input[0]);
    pass->backend->ops->xielu_backward(pass->backend, &args);
}

static struct xielu_args tangent_arguments(const struct pass *pass, const struct step *step)
{
    struct xielu_args args = xielu_arguments(pass, step);
    args.x_t = pass->value_tangents[step->input[0]];
    args.alpha_p_t = pass_parameter(pass->parameter_tangents, step->parameter[0]);
    args.alpha_n_t = pass_parameter(pass->parameter_tangents, step->parameter[1]);
    args.y_t = pass->value_tangents[step->output];
    return args;
}

static void xielu_tangent(const struct pass *pass, const struct step *step)
{
    const struct xielu_args args = tangent_arguments(pass, step);
    pass->backend->ops->xielu_tangent(pass->backend, &args);
}

static void xielu_backward_tangent(const struct pass *pass, const struct step *step)
{
    struct xielu_args args = tangent_arguments(pass, step);
    args.dy = pass->gradients[step->output];
    args.dy_t = pass->gradient_tangents[step->output];
    args.dx = pass->gradients[step->input[0]];
    args.dx_t = pass->gradient_tangents[step->input[0]];
    args.dalpha_p_t = pass_parameter(pass->parameter_gradient_tangents, step->parameter[0]);
    args.dalpha_n_t = pass_parameter(pass->parameter_gradient_tangents, step->parameter[1]);
    args.accumulate = pass_accumulates(pass, step->input[0]);
    pass->backend->ops->xielu_backward_tangent(pass->backend, &args);
}

const struct op op_xielu = {
    .name = "xielu",
    .forward = xielu_forward,
    .backward = xielu_backward,
    .tangent = xielu_tangent,
    .backward_tangent = xielu_backward_tangent,
    .may_reuse_input = true,
};
