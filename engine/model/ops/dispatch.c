/* dispatch: a copy of a token's row for each expert that it visits, [T, K C] taken as [T K, C] sorted by expert.
 * Linear. */
#include "model/op.h"

static struct experts_args arguments(const struct pass *pass, const struct step *step, const struct matrix *by_slot)
{
    return (struct experts_args){
        .per_token = step->attributes.experts.per_token,
        .routes = pass->values[step->input[1]],
        .token = by_slot[step->input[0]],
        .sorted = experts_rows(by_slot[step->output], step),
    };
}

static void spread(const struct pass *pass, const struct step *step, const struct matrix *values)
{
    const struct experts_args args = arguments(pass, step, values);
    pass->backend->ops->experts_spread(pass->backend, &args);
}

static void collect(const struct pass *pass, const struct step *step, const struct matrix *gradients, bool accumulate)
{
    struct experts_args args = arguments(pass, step, gradients);
    args.accumulate = accumulate;
    pass->backend->ops->experts_collect(pass->backend, &args);
}

static void dispatch_forward(const struct pass *pass, const struct step *step)
{
    spread(pass, step, pass->values);
}

static void dispatch_tangent(const struct pass *pass, const struct step *step)
{
    spread(pass, step, pass->value_tangents);
}

static void dispatch_backward(const struct pass *pass, const struct step *step)
{
    collect(pass, step, pass->gradients, pass_accumulates(pass, step->input[0]));
}

static void dispatch_backward_tangent(const struct pass *pass, const struct step *step)
{
    const bool accumulate = pass_accumulates(pass, step->input[0]);
    collect(pass, step, pass->gradients, accumulate);
    collect(pass, step, pass->gradient_tangents, accumulate);
}

const struct op op_dispatch = {
    .name = "dispatch",
    .forward = dispatch_forward,
    .backward = dispatch_backward,
    .tangent = dispatch_tangent,
    .backward_tangent = dispatch_backward_tangent,
};
