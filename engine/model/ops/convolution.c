/* convolution: causal and depthwise (backend.h, convolution_args). Linear in its input and in its parameters, so tangents are sums
 * of the two passes with one of them moved. */
#include "model/op.h"

/* y (+)= x * weight + bias, for values or directions of each. */
static void convolve(const struct pass *pass, struct matrix x, struct matrix weight, struct matrix bias, struct matrix y, bool add)
{
    const struct convolution_args args = {.batch = pass->batch, .x = x, .weight = weight, .bias = bias, .y = y, .accumulate = add};
    pass->backend->ops->convolution_forward(pass->backend, &args);
}

static void convolution_forward(const struct pass *pass, const struct step *step)
{
    convolve(pass, pass->values[step->input[0]], pass_parameter(pass->parameters, step->parameter[0]),
             pass_parameter(pass->parameters, step->parameter[1]), pass->values[step->output], false);
}

static void convolution_backward(const struct pass *pass, const struct step *step)
{
    const struct convolution_args args = {
        .batch = pass->batch,
        .x = pass->values[step->input[0]],
        .weight = pass_parameter(pass->parameters, step->parameter[0]),
        .dy = pass->gradients[step->output],
        .dx = pass->gradients[step->input[0]],
        .dweight = pass_parameter(pass->parameter_gradients, step->parameter[0]),
        .dbias = pass_parameter(pass->parameter_gradients, step->parameter[1]),
        .accumulate = pass_accumulates(pass, step->input[0]),
    };
    pass->backend->ops->convolution_backward(pass->backend, &args);
}

/* y_t = x_t * weight + x * weight_t + bias_t */
static void convolution_tangent(const struct pass *pass, const struct step *step)
{
    const struct matrix weight_t = pass_parameter(pass->parameter_tangents, step->parameter[0]);
    const struct matrix y_t = pass->value_tangents[step->output];
    convolve(pass, pass->value_tangents[step->input[0]], pass_parameter(pass->parameters, step->parameter[0]), (struct matrix){0},
             y_t, false);
    if (weight_t.data != NULL)
        convolve(pass, pass->values[step->input[0]], weight_t, pass_parameter(pass->parameter_tangents, step->parameter[1]), y_t,
                 true);
}

/* dx and dx_t: of dy and dy_t by weight, of dy by weight_t; dweight_t, dbias_t: of dy_t by x, of dy by x_t. */
static void convolution_backward_tangent(const struct pass *pass, const struct step *step)
{
    const struct matrix weight = pass_parameter(pass->parameters, step->parameter[0]);
    const struct matrix weight_t = pass_parameter(pass->parameter_tangents, step->parameter[0]);
    const struct matrix dweight_t = pass_parameter(pass->parameter_gradient_tangents, step->parameter[0]);
    const struct matrix dx_t = pass->gradient_tangents[step->input[0]];
    struct convolution_args args = {
        .batch = pass->batch,
        .weight = weight,
        .dy = pass->gradients[step->output],
        .dx = pass->gradients[step->input[0]],
        .accumulate = pass_accumulates(pass, step->input[0]),
    };
    pass->backend->ops->convolution_backward(pass->backend, &args);
    args.x = pass->values[step->input[0]];
    args.dy = pass->gradient_tangents[step->output];
    args.dx = dx_t;
    args.dweight = dweight_t;
    args.dbias = pass_parameter(pass->parameter_gradient_tangents, step->parameter[1]);
    pass->backend->ops->convolution_backward(pass->backend, &args);
    args.x = pass->value_tangents[step->input[0]];
    args.dy = pass->gradients[step->output];
    args.weight = weight_t;
    args.dx = weight_t.data == NULL ? (struct matrix){0} : dx_t;
    args.dbias = (struct matrix){0};
    args.accumulate = true;
    pass->backend->ops->convolution_backward(pass->backend, &args);
}

const struct op op_convolution = {
    .name = "convolution",
    .forward = convolution_forward,
    .backward = convolution_backward,
    .tangent = convolution_tangent,
    .backward_tangent = convolution_backward_tangent,
};
