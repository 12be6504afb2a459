/* add: y = a + b, the residual connection. When y took a's memory only b is added. */
#include "model/op.h"

static void add_forward(const struct pass *pass, const struct step *step)
{
    struct backend *backend = pass->backend;
    const struct matrix a = pass->values[step->input[0]], b = pass->values[step->input[1]], y = pass->values[step->output];
    if (y.data != a.data) backend->ops->add(backend, y, a, 1, 0);
    backend->ops->add(backend, y, b, 1, 1);
}

static void add_backward(const struct pass *pass, const struct step *step)
{
    struct backend *backend = pass->backend;
    const struct matrix dy = pass->gradients[step->output];
    for (int i = 0; i < 2; i++) {
        const bool accumulate = pass_accumulates(pass, step->input[i]);
        backend->ops->add(backend, pass->gradients[step->input[i]], dy, 1, accumulate ? 1 : 0);
    }
}

const struct op op_add = {.name = "add", .forward = add_forward, .backward = add_backward, .may_reuse_input = true};
