/* linear: y = x Wᵀ + b, W [out, in].
 *
 *   dx = dy W,  dW += dyᵀ x,  db += Σ dy
 *
 * Tangents by the product rule. */
#include "model/op.h"

/* c = op(a) op(b) + beta c; nothing when c or b is absent. */
static void product(const struct pass *pass, struct matrix a, struct matrix b, struct matrix c, bool transpose_a,
                    bool transpose_b, bool accumulate)
{
    const struct gemm_args args = {.a = a,
                                   .b = b,
                                   .c = c,
                                   .transpose_a = transpose_a,
                                   .transpose_b = transpose_b,
                                   .alpha = 1,
                                   .beta = accumulate ? 1 : 0};
    if (b.data != NULL && c.data != NULL) pass->backend->ops->gemm(pass->backend, &args);
}

void linear_forward_product(const struct pass *pass, const struct step *step, int64_t expert, struct matrix x,
                            struct matrix y)
{
    if (pass->product != NULL)
        pass->product->run(pass->product->owner, pass, step, expert, x, y);
    else
        product(pass, x, pass_parameter(pass->parameters, step->parameter[0] + (int)expert), y, false, true, false);
}

static void linear_forward(const struct pass *pass, const struct step *step)
{
    const struct matrix x = pass->values[step->input[0]], y = pass->values[step->output];
    const struct matrix bias = pass_parameter(pass->parameters, step->parameter[1]);
    linear_forward_product(pass, step, 0, x, y);
    if (bias.data != NULL) pass->backend->ops->add_row(pass->backend, y, bias);
}

static void linear_backward(const struct pass *pass, const struct step *step)
{
    const struct matrix dy = pass->gradients[step->output];
    const struct matrix dbias = pass_parameter(pass->parameter_gradients, step->parameter[1]);
    const bool accumulate = pass_accumulates(pass, step->input[0]);
    /* first, because a device rounds dy on this way for the products */
    if (dbias.data != NULL) pass->backend->ops->sum_rows(pass->backend, dbias, dy);
    product(pass, dy, pass_parameter(pass->parameters, step->parameter[0]), pass->gradients[step->input[0]], false,
            false, accumulate);
    product(pass, dy, pass->values[step->input[0]], pass_parameter(pass->parameter_gradients, step->parameter[0]), true,
            false, true);
}

/* y_t = x_t Wᵀ + x W_tᵀ + b_t */
static void linear_tangent(const struct pass *pass, const struct step *step)
{
    const struct matrix x = pass->values[step->input[0]], x_t = pass->value_tangents[step->input[0]];
    const struct matrix y_t = pass->value_tangents[step->output];
    const struct matrix bias_t = pass_parameter(pass->parameter_tangents, step->parameter[1]);
    product(pass, x_t, pass_parameter(pass->parameters, step->parameter[0]), y_t, false, true, false);
    product(pass, x, pass_parameter(pass->parameter_tangents, step->parameter[0]), y_t, false, true, true);
    if (bias_t.data != NULL) pass->backend->ops->add_row(pass->backend, y_t, bias_t);
}

/* dx = dy W; dx_t = dy_t W + dy W_t; dW_t += dy_tᵀ x + dyᵀ x_t; db_t += Σ dy_t */
static void linear_backward_tangent(const struct pass *pass, const struct step *step)
{
    const struct matrix x = pass->values[step->input[0]], x_t = pass->value_tangents[step->input[0]];
    const struct matrix dy = pass->gradients[step->output], dy_t = pass->gradient_tangents[step->output];
    const struct matrix dx = pass->gradients[step->input[0]], dx_t = pass->gradient_tangents[step->input[0]];
    const struct matrix weight = pass_parameter(pass->parameters, step->parameter[0]);
    const struct matrix weight_t = pass_parameter(pass->parameter_tangents, step->parameter[0]);
    const struct matrix dweight_t = pass_parameter(pass->parameter_gradient_tangents, step->parameter[0]);
    const struct matrix dbias_t = pass_parameter(pass->parameter_gradient_tangents, step->parameter[1]);
    const bool accumulate = pass_accumulates(pass, step->input[0]);
    if (dbias_t.data != NULL) pass->backend->ops->sum_rows(pass->backend, dbias_t, dy_t);
    product(pass, dy_t, weight, dx_t, false, false, accumulate);
    product(pass, dy_t, x, dweight_t, true, false, true);
    product(pass, dy, weight, dx, false, false, accumulate);
    product(pass, dy, weight_t, dx_t, false, false, true);
    product(pass, dy, x_t, dweight_t, true, false, true);
}

const struct op op_linear = {
    .name = "linear",
    .forward = linear_forward,
    .backward = linear_backward,
    .tangent = linear_tangent,
    .backward_tangent = linear_backward_tangent,
};
