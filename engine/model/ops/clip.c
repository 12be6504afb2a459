/* clip: y = min(max(x, -c), c). Gradients and tangents pass where |x| <= c; NaN stays NaN. */
#include "model/op.h"

static void pass_on(const struct pass *pass, const struct step *step, struct matrix to, struct matrix from,
                    bool accumulate)
{
    pass->backend->ops->clip_pass(pass->backend, to, from, pass->values[step->input[0]], step->attributes.clip.bound,
                                  accumulate);
}

static void clip_forward(const struct pass *pass, const struct step *step)
{
    pass->backend->ops->clip(pass->backend, pass->values[step->output], pass->values[step->input[0]],
                             step->attributes.clip.bound);
}

static void clip_backward(const struct pass *pass, const struct step *step)
{
    const bool accumulate = pass_accumulates(pass, step->input[0]);
    pass_on(pass, step, pass->gradients[step->input[0]], pass->gradients[step->output], accumulate);
}

static void clip_tangent(const struct pass *pass, const struct step *step)
{
    pass_on(pass, step, pass->value_tangents[step->output], pass->value_tangents[step->input[0]], false);
}

static void clip_backward_tangent(const struct pass *pass, const struct step *step)
{
    const bool accumulate = pass_accumulates(pass, step->input[0]);
    pass_on(pass, step, pass->gradients[step->input[0]], pass->gradients[step->output], accumulate);
    pass_on(pass, step, pass->gradient_tangents[step->input[0]], pass->gradient_tangents[step->output], accumulate);
}

const struct op op_clip = {
    .name = "clip",
    .forward = clip_forward,
    .backward = clip_backward,
    .tangent = clip_tangent,
    .backward_tangent = clip_backward_tangent,
    .may_reuse_input = true,
};
