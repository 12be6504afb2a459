/* linear: y = x Wᵀ + b, W [out, in]; dx = dy W, dW += dyᵀ x, db += Σ dy. */
#include "model/op.h"

static void linear_forward(const struct pass *pass, const struct step *step)
{
    struct backend *backend = pass->backend;
    const struct matrix bias = pass_parameter(pass, step->parameter[1]);
    const struct gemm_args product = {
        .a = pass->values[step->input[0]],
        .b = pass_parameter(pass, step->parameter[0]),
        .c = pass->values[step->output],
        .transpose_b = true,
        .alpha = 1,
    };
    backend->ops->gemm(backend, &product);
    if (bias.data != NULL) backend->ops->add_row(backend, product.c, bias);
}

static void linear_backward(const struct pass *pass, const struct step *step)
{
    struct backend *backend = pass->backend;
    const struct matrix dy = pass->gradients[step->output];
    const struct matrix dweight = pass_parameter_gradient(pass, step->parameter[0]);
    const struct matrix dbias = pass_parameter_gradient(pass, step->parameter[1]);
    const bool accumulate = pass_accumulates(pass, step->input[0]);
    const struct gemm_args input = {
        .a = dy,
        .b = pass_parameter(pass, step->parameter[0]),
        .c = pass->gradients[step->input[0]],
        .alpha = 1,
        .beta = accumulate ? 1 : 0,
    };
    backend->ops->gemm(backend, &input);
    if (dweight.data != NULL) {
        const struct gemm_args weight = {
            .a = dy, .b = pass->values[step->input[0]], .c = dweight, .transpose_a = true, .alpha = 1, .beta = 1};
        backend->ops->gemm(backend, &weight);
    }
    if (dbias.data != NULL) backend->ops->sum_rows(backend, dbias, dy);
}

const struct op op_linear = {.name = "linear", .forward = linear_forward, .backward = linear_backward};
