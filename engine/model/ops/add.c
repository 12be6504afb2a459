/* add: y = a + b, the residual connection. y may share a's memory, and in a backward pass the gradients of a and
 * b that of y (walk.c). */
#include "model/op.h"

static void sum(const struct pass *pass, const struct step *step, const struct matrix *by_slot)
{
    pass->backend->ops->sum(pass->backend, by_slot[step->output], by_slot[step->input[0]], by_slot[step->input[1]]);
}

static void add_forward(const struct pass *pass, const struct step *step)
{
    sum(pass, step, pass->values);
}

static void add_tangent(const struct pass *pass, const struct step *step)
{
    sum(pass, step, pass->value_tangents);
}

static void add_backward(const struct pass *pass, const struct step *step)
{
    struct backend *backend = pass->backend;
    for (int i = 0; i < 2; i++) {
        const int input = step->input[i];
        const double beta = pass_accumulates(pass, input) ? 1 : 0;
        const struct matrix to = pass->gradients[input], from = pass->gradients[step->output];
        if (beta != 0 || to.data != from.data) backend->ops->add(backend, to, from, 1, beta);
    }
}

static void add_backward_tangent(const struct pass *pass, const struct step *step)
{
    struct backend *backend = pass->backend;
    for (int i = 0; i < 2; i++) {
        const int input = step->input[i];
        const double beta = pass_accumulates(pass, input) ? 1 : 0;
        backend->ops->add(backend, pass->gradients[input], pass->gradients[step->output], 1, beta);
        backend->ops->add(backend, pass->gradient_tangents[input], pass->gradient_tangents[step->output], 1, beta);
    }
}

const struct op op_add = {
    .name = "add",
    .forward = add_forward,
    .backward = add_backward,
    .tangent = add_tangent,
    .backward_tangent = add_backward_tangent,
    .may_reuse_input = true,
};
