/* route: from the router's logits to the weights of the experts that a token visits, and (saved) the indices of these
 * experts. */
#include "model/op.h"

static struct route_args route_arguments(const struct pass *pass, const struct step *step)
{
    return (struct route_args){
        .per_token = step->attributes.experts.per_token,
        .normalise = step->attributes.experts.normalise,
        .logits = pass->values[step->input[0]],
        .weights = pass->values[step->output],
        .routes = pass->values[step->saved],
    };
}

static void route_forward(const struct pass *pass, const struct step *step)
{
    const struct route_args args = route_arguments(pass, step);
    pass->starts->of = NULL;
    pass->backend->ops->route_forward(pass->backend, &args);
}

static void route_backward(const struct pass *pass, const struct step *step)
{
    struct route_args args = route_arguments(pass, step);
    args.dweights = pass->gradients[step->output];
    args.dlogits = pass->gradients[step->input[0]];
    args.accumulate = pass_accumulates(pass, step->input[0]);
    pass->backend->ops->route_backward(pass->backend, &args);
}

static void route_tangent(const struct pass *pass, const struct step *step)
{
    struct route_args args = route_arguments(pass, step);
    args.logits_t = pass->value_tangents[step->input[0]];
    args.weights_t = pass->value_tangents[step->output];
    pass->backend->ops->route_tangent(pass->backend, &args);
}

static void route_backward_tangent(const struct pass *pass, const struct step *step)
{
    struct route_args args = route_arguments(pass, step);
    args.logits_t = pass->value_tangents[step->input[0]];
    args.dweights = pass->gradients[step->output];
    args.dweights_t = pass->gradient_tangents[step->output];
    args.dlogits = pass->gradients[step->input[0]];
    args.dlogits_t = pass->gradient_tangents[step->input[0]];
    args.accumulate = pass_accumulates(pass, step->input[0]);
    pass->backend->ops->route_backward_tangent(pass->backend, &args);
}

const struct op op_route = {
    .name = "route",
    .forward = route_forward,
    .backward = route_backward,
    .tangent = route_tangent,
    .backward_tangent = route_backward_tangent,
};
