/* combine: the weighted sum of the outputs of a token's experts. x is [T, K C] taken as [T K, C] sorted by expert.
 *
 *   y[t] = Σ_j w[t, j] x[row of visit (t, j)]
 *   dx = w dy,  dw = dy·x
 *
 * Tangents by the product rule. */
#include "model/op.h"

/* Visits of the slots' matrices in `sorted`, `weights` and `token`; absent weights are 1. */
static struct experts_args arguments(const struct pass *pass, const struct step *step, const struct matrix *sorted,
                                     const struct matrix *weights, const struct matrix *token)
{
    return (struct experts_args){
        .per_token = step->attributes.experts.per_token,
        .routes = pass->values[step->input[2]],
        .weights = weights[step->input[1]],
        .token = token[step->output],
        .sorted = experts_rows(sorted[step->input[0]], step),
    };
}

static void collect(const struct pass *pass, const struct step *step, const struct matrix *sorted,
                    const struct matrix *weights, const struct matrix *token, bool accumulate)
{
    struct experts_args args = arguments(pass, step, sorted, weights, token);
    args.accumulate = accumulate;
    pass->backend->ops->experts_collect(pass->backend, &args);
}

static void spread(const struct pass *pass, const struct step *step, const struct matrix *sorted,
                   const struct matrix *weights, const struct matrix *token, bool accumulate)
{
    struct experts_args args = arguments(pass, step, sorted, weights, token);
    args.accumulate = accumulate;
    pass->backend->ops->experts_spread(pass->backend, &args);
}

/* to[weights' slot] (+)= token · sorted */
static void dot(const struct pass *pass, const struct step *step, const struct matrix *sorted,
                const struct matrix *token, const struct matrix *to, bool accumulate)
{
    struct experts_args args = arguments(pass, step, sorted, to, token);
    args.dot = args.weights;
    args.accumulate = accumulate;
    pass->backend->ops->experts_dot(pass->backend, &args);
}

static void combine_forward(const struct pass *pass, const struct step *step)
{
    collect(pass, step, pass->values, pass->values, pass->values, false);
}

static void combine_backward(const struct pass *pass, const struct step *step)
{
    spread(pass, step, pass->gradients, pass->values, pass->gradients, pass_accumulates(pass, step->input[0]));
    dot(pass, step, pass->values, pass->gradients, pass->gradients, pass_accumulates(pass, step->input[1]));
}

static void combine_tangent(const struct pass *pass, const struct step *step)
{
    collect(pass, step, pass->value_tangents, pass->values, pass->value_tangents, false);
    collect(pass, step, pass->values, pass->value_tangents, pass->value_tangents, true);
}

static void combine_backward_tangent(const struct pass *pass, const struct step *step)
{
    const bool to_rows = pass_accumulates(pass, step->input[0]), to_weights = pass_accumulates(pass, step->input[1]);
    spread(pass, step, pass->gradients, pass->values, pass->gradients, to_rows);
    spread(pass, step, pass->gradient_tangents, pass->values, pass->gradient_tangents, to_rows);
    spread(pass, step, pass->gradient_tangents, pass->value_tangents, pass->gradients, true);
    dot(pass, step, pass->values, pass->gradients, pass->gradients, to_weights);
    dot(pass, step, pass->values, pass->gradient_tangents, pass->gradient_tangents, to_weights);
    dot(pass, step, pass->value_tangents, pass->gradients, pass->gradient_tangents, true);
}

const struct op op_combine = {
    .name = "combine",
    .forward = combine_forward,
    .backward = combine_backward,
    .tangent = combine_tangent,
    .backward_tangent = combine_backward_tangent,
};
