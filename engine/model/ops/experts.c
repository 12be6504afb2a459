/* experts: y = x W_eᵀ for the rows of each expert e; W_e is parameter number parameter[0] + e. Rows are [T K, C],
 * sorted by expert, without padding or a capacity. An expert without visits does nothing. */
#include "backend/routes.h"
#include "model/op.h"

static void read_starts(const struct pass *pass, const struct step *step, struct matrix routes)
{
    const struct experts_attributes *experts = &step->attributes.experts;
    const int64_t at = routes_index(routes, ROUTES_START, experts->per_token, 0);
    const struct matrix starts =
        matrix_of((char *)routes.data + (size_t)at * routes.element, 1, experts->count + 1, routes.element);
    pass->backend->ops->download(pass->backend, starts, pass->starts->first, DTYPE_F64);
    pass->starts->of = routes.data;
}

static int64_t start_of(const struct pass *pass, const struct step *step, int64_t expert)
{
    const struct matrix routes = pass->values[step->input[1]];
    if (pass->backend->ops->host) return routes_at(routes, ROUTES_START, step->attributes.experts.per_token, expert);
    if (pass->starts->of != routes.data) read_starts(pass, step, routes);
    const double first = pass->starts->first[expert];
    return first >= 0 ? (int64_t)first : 0; /* NaN after a failure of the device: no rows */
}

struct matrix experts_part(const struct pass *pass, const struct step *step, struct matrix slot, int64_t expert)
{
    const int64_t first = start_of(pass, step, expert);
    return matrix_rows(experts_rows(slot, step), first, start_of(pass, step, expert + 1) - first);
}

/* The token of a row of sorted activations. On a device this waits for a copy of one number. */
static int64_t token_of(const struct pass *pass, const struct step *step, int64_t row)
{
    const struct matrix routes = pass->values[step->input[1]];
    const int64_t k = step->attributes.experts.per_token, at = routes_index(routes, ROUTES_VISIT, k, row);
    double visit;
    if (pass->backend->ops->host) return routes_at(routes, ROUTES_VISIT, k, row) / k;
    const struct matrix one = matrix_of((char *)routes.data + (size_t)at * routes.element, 1, 1, routes.element);
    pass->backend->ops->download(pass->backend, one, &visit, DTYPE_F64);
    return visit >= 0 ? (int64_t)visit / k : 0; /* NaN after a failure of the device */
}

/* Rows of an expert are in the order of their tokens. */
int64_t experts_rows_before(const struct pass *pass, const struct step *step, int64_t expert, int64_t token)
{
    const int64_t first = start_of(pass, step, expert);
    int64_t low = first, high = start_of(pass, step, expert + 1); /* the answer lies in [low, high] */
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (token_of(pass, step, middle) < token)
            low = middle + 1;
        else
            high = middle;
    }
    return low - first;
}

/* c = op(a) op(b) + beta c */
static void product(const struct pass *pass, struct matrix a, struct matrix b, struct matrix c, bool transpose_a,
                    bool accumulate)
{
    const struct gemm_args args = {
        .a = a, .b = b, .c = c, .transpose_a = transpose_a, .alpha = 1, .beta = accumulate ? 1 : 0};
    if (c.data != NULL) pass->backend->ops->gemm(pass->backend, &args);
}

/* c += a bᵀ */
static void product_transposed(const struct pass *pass, struct matrix a, struct matrix b, struct matrix c,
                               bool accumulate)
{
    const struct gemm_args args = {.a = a, .b = b, .c = c, .transpose_b = true, .alpha = 1, .beta = accumulate ? 1 : 0};
    pass->backend->ops->gemm(pass->backend, &args);
}

/* The rows of expert e in one of the arrays by slot. */
static struct matrix rows_in(const struct pass *pass, const struct step *step, const struct matrix *by_slot, int slot,
                             int64_t e)
{
    return experts_part(pass, step, by_slot[slot], e);
}

static void experts_forward(const struct pass *pass, const struct step *step)
{
    for (int64_t e = 0; e < step->attributes.experts.count; e++) {
        const struct matrix x = rows_in(pass, step, pass->values, step->input[0], e);
        if (x.rows == 0) continue;
        linear_forward_product(pass, step, e, x, rows_in(pass, step, pass->values, step->output, e));
    }
}

static void experts_backward(const struct pass *pass, const struct step *step)
{
    const bool accumulate = pass_accumulates(pass, step->input[0]);
    for (int64_t e = 0; e < step->attributes.experts.count; e++) {
        const int number = step->parameter[0] + (int)e;
        const struct matrix x = rows_in(pass, step, pass->values, step->input[0], e);
        const struct matrix dy = rows_in(pass, step, pass->gradients, step->output, e);
        if (x.rows == 0) continue;
        product(pass, dy, pass_parameter(pass->parameters, number),
                rows_in(pass, step, pass->gradients, step->input[0], e), false, accumulate);
        product(pass, dy, x, pass_parameter(pass->parameter_gradients, number), true, true);
    }
}

static void experts_tangent(const struct pass *pass, const struct step *step)
{
    for (int64_t e = 0; e < step->attributes.experts.count; e++) {
        const int number = step->parameter[0] + (int)e;
        const struct matrix x = rows_in(pass, step, pass->values, step->input[0], e);
        const struct matrix x_t = rows_in(pass, step, pass->value_tangents, step->input[0], e);
        const struct matrix y_t = rows_in(pass, step, pass->value_tangents, step->output, e);
        const struct matrix weight_t = pass_parameter(pass->parameter_tangents, number);
        if (x.rows == 0) continue;
        product_transposed(pass, x_t, pass_parameter(pass->parameters, number), y_t, false);
        if (weight_t.data != NULL) product_transposed(pass, x, weight_t, y_t, true);
    }
}

static void experts_backward_tangent(const struct pass *pass, const struct step *step)
{
    const bool accumulate = pass_accumulates(pass, step->input[0]);
    for (int64_t e = 0; e < step->attributes.experts.count; e++) {
        const int number = step->parameter[0] + (int)e;
        const struct matrix x = rows_in(pass, step, pass->values, step->input[0], e);
        const struct matrix x_t = rows_in(pass, step, pass->value_tangents, step->input[0], e);
        const struct matrix dy = rows_in(pass, step, pass->gradients, step->output, e);
        const struct matrix dy_t = rows_in(pass, step, pass->gradient_tangents, step->output, e);
        const struct matrix dx_t = rows_in(pass, step, pass->gradient_tangents, step->input[0], e);
        const struct matrix weight = pass_parameter(pass->parameters, number);
        const struct matrix weight_t = pass_parameter(pass->parameter_tangents, number);
        const struct matrix dweight_t = pass_parameter(pass->parameter_gradient_tangents, number);
        if (x.rows == 0) continue;
        product(pass, dy, weight, rows_in(pass, step, pass->gradients, step->input[0], e), false, accumulate);
        product(pass, dy_t, weight, dx_t, false, accumulate);
        if (weight_t.data != NULL) product(pass, dy, weight_t, dx_t, false, true);
        product(pass, dy_t, x, dweight_t, true, true);
        product(pass, dy, x_t, dweight_t, true, true);
    }
}

const struct op op_experts = {
    .name = "experts",
    .forward = experts_forward,
    .backward = experts_backward,
    .tangent = experts_tangent,
    .backward_tangent = experts_backward_tangent,
};
